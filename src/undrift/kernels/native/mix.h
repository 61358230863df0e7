// MixerScratch N members' predictions into one: weights in the log domain, a posterior per round, the fixed share.
// Members stand in lanes; the twin is tests/twins/mix.py.
#pragma once
#include "definitions.h"
#include "logistic.h"
#include "kernel_table.h"

namespace {
using namespace undrift;

// Rounds over which a mixer averages squared residuals, once it has seen as many.
constexpr double RESIDUAL_ROUNDS = 1000.0;
// Rounds over which a mixer averages |residuals| to see when a shock is over: a mean 1000 times too large is
// forgotten within 140 rounds.
constexpr double RECENT_ROUNDS = 20.0;
// The mean squared residual is cut down to this many squares of the recent mean |residual|: 8 variances, were
// residuals normal.
constexpr double MOST_SQUARED_RESIDUAL = 12.0;
// The sum of positive mixability gaps is cut down to this many squares of the recent mean |residual|.
constexpr double MOST_GAPS = 36.0;

// ln x for x > 0: x = 2^k f with f in [sqrt(1/2), sqrt(2)), ln f = 2 atanh((f-1)/(f+1)) by its series.
INLINE V logarithm(V x) {
    x = larger(x, all(2.3e-308));
    const I i = bits(x), k = ((i - 0x3fe6a09e667f3bcdLL + (1024LL << 52)) >> 52) - 1024;
    const V f = number(i - to_exponent(k)), s = (f - 1.0) / (f + 1.0), z = s * s;
    const V e = number((k + 1024) | 0x4330000000000000LL) - 4503599627371520.0; // k as a number: 2^52 + 1024 off
    V p = all(1.0 / 21.0);
    p = fma(p, z, all(1.0 / 19.0));
    p = fma(p, z, all(1.0 / 17.0));
    p = fma(p, z, all(1.0 / 15.0));
    p = fma(p, z, all(1.0 / 13.0));
    p = fma(p, z, all(1.0 / 11.0));
    p = fma(p, z, all(1.0 / 9.0));
    p = fma(p, z, all(1.0 / 7.0));
    p = fma(p, z, all(1.0 / 5.0));
    p = fma(p, z, all(1.0 / 3.0));
    const V small = fma(2.0 * s, z * p, e * 1.90821492927058770002e-10);
    return fma(e, all(6.93147180369123816490e-01), 2.0 * s + small);
}

// ln(1 + e) for 0 <= e <= 1.
INLINE V log1p_of(V e) {
    const V u = 1.0 + e;
    return logarithm(u) + (e - (u - 1.0)) / u;
}

// The largest of the lanes i to i + n - 1, and their sum, by halves.
template <size_t i = 0, size_t n = W> INLINE double max_lane(V v) {
    if constexpr (n == 1)
        return lane(v, i);
    else
        return larger(max_lane<i, n / 2>(v), max_lane<i + n / 2, n / 2>(v));
}
template <size_t i = 0, size_t n = W> INLINE double sum_lanes(V v) {
    if constexpr (n == 1)
        return lane(v, i);
    else
        return sum_lanes<i, n / 2>(v) + sum_lanes<i + n / 2, n / 2>(v);
}
INLINE double min_lane(V v) { return -max_lane(-v); }
INLINE double ln(double x) { return lane(logarithm(all(x)), 0); }

// Lanes beyond the last member are padding: they repeat the first member's prediction with this log-weight, so that
// their weight is 0.
constexpr double PADDING = -1e300;

// The mixer's arrays during a call: n = ceil(members / W) vectors each, the last one padded.
struct MixerScratch {
    size_t n, members;
    V lowest; // log-weights of the last vector may not fall below this: -MIX_LIMIT, or PADDING beyond the last member
    V *log_weights, *losses, *clipped_losses, *log_prior, *prior;
    V *w;                             // e^log_weights, not normalised
    V *raw, *e;                       // the members' predictions of a round as given, and clipped to the labels' range
    V *loss;                          // the members' losses of a round, as the weights are charged for them
    V *v;                             // the log-weights after a round, before they are brought to the maximum 0
    double total;                     // the sum of w,
    bool weights_are_current = false; // if w and it belong to the log-weights of now

    MixerScratch(const MixerCall &mix, double *scratch) {
        members = mix.members;
        n = (members + W - 1) / W;
        V **arrays[] = {&log_weights, &losses, &clipped_losses, &log_prior, &prior, &w, &e, &loss, &v, &raw};
        V *next = (V *)scratch;
        for (V **array : arrays) {
            *array = next;
            next += n;
        }
        double ends[W];
        for (size_t i = 0; i < W; ++i) ends[i] = (n - 1) * W + i < members ? -MIX_LIMIT : PADDING;
        lowest = load(ends);
        load_members(log_weights, mix.log_weights, PADDING);
        if (!mix.losses) return; // only calls that close rounds need the rest
        load_members(losses, mix.losses, 0.0);
        if (mix.clipped_losses) load_members(clipped_losses, mix.clipped_losses, 0.0);
        load_members(log_prior, mix.log_prior, PADDING);
        if (mix.share > 0.0 || mix.growing > 0.0)
            for (size_t k = 0; k < n; ++k) prior[k] = decay(-log_prior[k]).exp;
    }

    // Write the state back to the caller's arrays after rounds were closed.
    void save(const MixerCall &mix) const {
        if (!mix.losses) return;
        store_members(mix.log_weights, log_weights);
        store_members(mix.losses, losses);
        if (mix.clipped_losses) store_members(mix.clipped_losses, clipped_losses);
    }

    void load_members(V *to, const double *from, double padding) const {
        const size_t whole = members / W;
        for (size_t k = 0; k < whole; ++k) to[k] = load(from + k * W);
        if (whole < n) {
            double last[W];
            for (size_t i = 0; i < W; ++i) last[i] = whole * W + i < members ? from[whole * W + i] : padding;
            to[whole] = load(last);
        }
    }

    void store_members(double *to, const V *from) const {
        const size_t whole = members / W;
        for (size_t k = 0; k < whole; ++k) store(to + k * W, from[k]);
        for (size_t i = whole * W; i < members; ++i) to[i] = lane(from[whole], i - whole * W);
    }

    void compute_weights() {
        if (weights_are_current) return;
        V sum = all(0.0);
        for (size_t k = 0; k < n; ++k) sum += w[k] = decay(-log_weights[k]).exp;
        total = sum_lanes(sum);
        weights_are_current = true;
    }

    void write_weights(double *row) const {
        for (size_t k = 0; k < n; ++k) v[k] = w[k] / total;
        store_members(row, v);
    }

    double smallest_loss() const {
        V best = loss[0];
        for (size_t k = 1; k < n; ++k) best = smaller(best, loss[k]);
        return min_lane(best);
    }

    // log_weights <- v - max(v), which keeps digits where all of v is huge; returns max(v).
    double set_log_weights() {
        V most = v[0];
        for (size_t k = 1; k < n; ++k) most = larger(most, v[k]);
        const double top = max_lane(most);
        for (size_t k = 0; k + 1 < n; ++k) log_weights[k] = larger(v[k] - top, all(-MIX_LIMIT));
        log_weights[n - 1] = select(lowest < all(-MIX_LIMIT), lowest, larger(v[n - 1] - top, lowest));
        weights_are_current = false;
        return top;
    }

    // w <- (1 - share) w / total + share prior
    void apply_fixed_share(double share) {
        if (!(share > 0.0)) return;
        compute_weights();
        const double kept = (1.0 - share) / total;
        for (size_t k = 0; k < n; ++k) v[k] = logarithm(fma(all(kept), w[k], share * prior[k]));
        set_log_weights();
    }
};

// ln of the sum of e^x over n vectors.
static double log_sum_exp(const V *x, size_t n) {
    V top = x[0], sum = all(0.0);
    for (size_t k = 1; k < n; ++k) top = larger(top, x[k]);
    const double t = max_lane(top);
    for (size_t k = 0; k < n; ++k) sum += decay(t - x[k]).exp;
    return t + ln(sum_lanes(sum));
}

// Log-odds inside the range the mixer computes with; 0 for NaN.
INLINE V clamp_log_odds(V e) { return select(e == e, larger(smaller(e, all(MIX_LIMIT)), all(-MIX_LIMIT)), all(0.0)); }

// The mixture of log-odds by log-sum-exp: for log-odds whose sigma is no normal number, and for rounds in which only
// members of no weight predict. `up` and `down` are scratch.
COLD double mix_log_odds_in_log_domain(const MixerScratch &s, V *up, V *down) {
    bool any_present = false;
    for (size_t k = 0; k < s.n; ++k) {
        const M present = s.raw[k] == s.raw[k];
        const V e = clamp_log_odds(s.raw[k]), rest = log1p_of(decay(magnitude(e)).exp);
        any_present |= any(present);
        up[k] = select(present, s.log_weights[k] - (larger(-e, all(0.0)) + rest), all(PADDING));
        down[k] = select(present, s.log_weights[k] - (larger(e, all(0.0)) + rest), all(PADDING));
    }
    return any_present ? log_sum_exp(up, s.n) - log_sum_exp(down, s.n) : 0.0;
}

// The mixture of the members' log-odds E: ln(sum w sigma(e)) - ln(sum w sigma(-e)). With CLOSE it also fills the
// members' losses for the label y, +1 or -1. A member whose prediction is NaN is left out and charged MIX_LIMIT.
template <bool CLOSE> static double mix_log_odds(const MixerScratch &s, const double *E, double y) {
    V up = all(0.0), down = all(0.0), most = all(0.0);
    s.load_members(s.raw, E, E[0]);
    for (size_t k = 0; k < s.n; ++k) {
        const M present = s.raw[k] == s.raw[k];
        const V e = clamp_log_odds(s.raw[k]), size = magnitude(e);
        const V far = decay(size).exp, u = 1.0 + far, near = 1.0 / u; // sigma(|e|) = near, sigma(-|e|) = near far
        const V larger_part = select(present, s.w[k] * near, all(0.0)), smaller_part = larger_part * far;
        const M positive = e > all(0.0);
        up += select(positive, larger_part, smaller_part);
        down += select(positive, smaller_part, larger_part);
        most = larger(most, size);
        if constexpr (CLOSE) // softplus(-y e)
            s.loss[k] =
                select(present, larger(-y * e, all(0.0)) + (logarithm(u) + (far - (u - 1.0)) * near), all(MIX_LIMIT));
    }
    const double a = sum_lanes(up), b = sum_lanes(down);
    if (max_lane(most) > 600.0 || !(a + b > 1e-280)) return mix_log_odds_in_log_domain(s, s.v, s.e);
    return ln(a) - ln(b);
}

static void mix_logistic(const MixerCall &mix, double *scratch) {
    MixerScratch s(mix, scratch);
    for (size_t t = 0; t < mix.rounds; ++t) {
        const double *E = mix.E + t * mix.members;
        s.compute_weights();
        if (mix.weights) s.write_weights(mix.weights + t * mix.members);
        if (!mix.losses) {
            mix.yhat[t] = mix_log_odds<false>(s, E, 0.0);
            continue;
        }
        mix.yhat[t] = mix_log_odds<true>(s, E, mix.y[t]);
        const double least = s.smallest_loss();
        for (size_t k = 0; k < s.n; ++k) {
            s.losses[k] += s.loss[k];
            s.v[k] = s.log_weights[k] - (s.loss[k] - least); // w_i <- w_i e^-loss_i
        }
        s.set_log_weights();
        s.apply_fixed_share(mix.growing > 0.0 ? 1.0 / (mix.growing + (double)t) / mix.late : mix.share);
    }
    s.save(mix);
}

// The weighted mean of the clipped predictions, inside their range whatever the rounding of the weights.
static double weighted_mean(const MixerScratch &s) {
    V sum = all(0.0), low = s.e[0], high = s.e[0];
    for (size_t k = 0; k < s.n; ++k) {
        sum = fma(s.w[k], s.e[k], sum);
        low = smaller(low, s.e[k]);
        high = larger(high, s.e[k]);
    }
    return smaller(larger(sum_lanes(sum) / s.total, min_lane(low)), max_lane(high));
}

// Vovk's substitution (g(-bound) - g(bound)) / (2 bound), where g(y) is the mix loss for the label y at the rate 1 / bound^2.
static double aggregating_prediction(const MixerScratch &s, double bound) {
    if (bound == 0.0) return 0.0;
    V up = all(0.0), down = all(0.0);
    for (size_t k = 0; k < s.n; ++k) {
        const V x = s.e[k] / bound; // in [-1, 1]: no exponent is below -2
        up = fma(s.w[k], decay(0.5 * ((1.0 - x) * (1.0 - x))).exp, up);
        down = fma(s.w[k], decay(0.5 * ((1.0 + x) * (1.0 + x))).exp, down);
    }
    const double prediction = 0.5 * bound * (ln(sum_lanes(up)) - ln(sum_lanes(down)));
    return smaller(larger(prediction, -bound), bound);
}

// Clip the predictions to `reach` around that of the heaviest member, the middle of them if several are.
static void clip_to_heaviest(const MixerScratch &s, double reach) {
    V top = s.log_weights[0], low = all(MIX_LIMIT), high = all(-MIX_LIMIT);
    for (size_t k = 1; k < s.n; ++k) top = larger(top, s.log_weights[k]);
    const V most = all(max_lane(top));
    for (size_t k = 0; k < s.n; ++k) {
        const M heaviest = s.log_weights[k] == most;
        low = smaller(low, select(heaviest, s.e[k], all(MIX_LIMIT)));
        high = larger(high, select(heaviest, s.e[k], all(-MIX_LIMIT)));
    }
    const double middle = 0.5 * (min_lane(low) + max_lane(high));
    for (size_t k = 0; k < s.n; ++k) s.e[k] = smaller(larger(s.e[k], all(middle - reach)), all(middle + reach));
}

// The mixture of the members' predictions E. Leaves them in `raw` and, clipped to the range of the labels and
// to what the last residuals make plausible, in `e`.
static double mix_predictions(const MixerScratch &s, const MixerCall &mix, const double *E) {
    const double low = mix.state[MixerState::LABEL_MIN], high = mix.state[MixerState::LABEL_MAX];
    s.load_members(s.raw, E, E[0]);
    for (size_t k = 0; k < s.n; ++k) {
        const V without_nan = select(s.raw[k] == s.raw[k], s.raw[k], all(0.0));
        s.raw[k] = larger(smaller(without_nan, all(MIX_LIMIT)), all(-MIX_LIMIT));
        s.e[k] = smaller(larger(s.raw[k], all(low)), all(high));
    }
    const double reach = FARTHEST_MEMBER * mix.state[MixerState::RECENT_RESIDUAL];
    if (mix.rule >= MixingRule::SELF_CONFIDENT && reach > 0.0) clip_to_heaviest(s, reach);
    return mix.rule == MixingRule::AGGREGATING ? aggregating_prediction(s, high) : weighted_mean(s);
}

// Add the members' losses for the label, of their predictions as given and as clipped. Leaves in `loss` what the weights
// are charged, the clipped prediction's loss for `clipped_label`, and returns the smallest of these.
static double add_losses(const MixerScratch &s, double label, double clipped_label) {
    for (size_t k = 0; k < s.n; ++k) {
        const V given = s.raw[k] - label, clipped = s.e[k] - label, charged = s.e[k] - clipped_label;
        s.losses[k] += 0.5 * (given * given);
        s.clipped_losses[k] += 0.5 * (clipped * clipped);
        s.loss[k] = 0.5 * (charged * charged);
    }
    return s.smallest_loss();
}

// Update the range of the labels and the means of the residuals; returns the inverse rate of the next round.
static double update_inverse_rate(const MixerCall &mix, double prediction, double label) {
    double *state = mix.state;
    double &low = state[MixerState::LABEL_MIN], &high = state[MixerState::LABEL_MAX];
    double &mean_square = state[MixerState::MEAN_SQUARED_RESIDUAL];
    state[MixerState::ROUNDS] += 1.0;
    const double residual = (prediction - label) * (prediction - label);
    double &recent = state[MixerState::RECENT_RESIDUAL], &gaps = state[MixerState::POSITIVE_GAPS];
    mean_square += (residual - mean_square) / smaller(state[MixerState::ROUNDS], RESIDUAL_ROUNDS);
    const double rounds = smaller(RECENT_ROUNDS * mix.late, RESIDUAL_ROUNDS); // late neighbours tell little more than one
    double size = magnitude(prediction - label);
    if (mix.late > 1.0 && recent > 0.0) size = smaller(size, WILD * recent); // so long a mean would not forget a shock
    recent += (size - recent) / smaller(state[MixerState::ROUNDS], rounds);
    if (mix.rule == MixingRule::RANGE || mix.rule == MixingRule::AGGREGATING) {
        high = larger(high, magnitude(label));
        low = -high;
        return (mix.rule == MixingRule::RANGE ? 4.0 : 1.0) * (high * high);
    }
    if (state[MixerState::ROUNDS] == 1.0) {
        low = high = label;
    } else {
        low = smaller(low, label);
        high = larger(high, label);
    }
    // What the last rounds contradict is forgotten.
    mean_square = smaller(mean_square, MOST_SQUARED_RESIDUAL * (recent * recent));
    gaps = smaller(gaps, MOST_GAPS * smaller(mix.late, MOST_LATENESS) * (recent * recent));
    return mix.rule == MixingRule::SELF_CONFIDENT ? gaps / mix.log_members : mix.scale * mean_square;
}

static void mix_squared(const MixerCall &mix, double *scratch) {
    MixerScratch s(mix, scratch);
    double *state = mix.state;
    const bool symmetric = mix.rule == MixingRule::RANGE || mix.rule == MixingRule::AGGREGATING;
    for (size_t t = 0; t < mix.rounds; ++t) {
        s.compute_weights();
        if (mix.weights) s.write_weights(mix.weights + t * mix.members);
        const double prediction = mix.yhat[t] = mix_predictions(s, mix, mix.E + t * mix.members);
        if (!mix.losses) continue;
        const double label = mix.y[t], inverse_rate = state[MixerState::INVERSE_RATE];
        // The proofs of the symmetric rules charge the label as the range so far allowed it.
        const double clipped_label =
            symmetric ? smaller(larger(label, state[MixerState::LABEL_MIN]), state[MixerState::LABEL_MAX]) : label;
        const double least = add_losses(s, label, clipped_label);
        double mix_loss = least;
        if (inverse_rate > 0.0) { // w_i <- w_i e^(-loss_i / inverse_rate)
            for (size_t k = 0; k < s.n; ++k) s.v[k] = s.log_weights[k] - (s.loss[k] - least) / inverse_rate;
            const double before = s.total, top = s.set_log_weights();
            if (!symmetric) {
                s.compute_weights();
                mix_loss = least - inverse_rate * (top + ln(s.total / before));
            }
        }
        if (!symmetric) {
            const double gap = 0.5 * ((prediction - clipped_label) * (prediction - clipped_label)) - mix_loss;
            state[MixerState::GAPS] += gap;
            // The rate follows what was really lost: by the time a late label comes, weights know its neighbours.
            const double missed = mix.served ? mix.served[t] - clipped_label : prediction - clipped_label;
            state[MixerState::POSITIVE_GAPS] += larger(0.5 * (missed * missed) - mix_loss, 0.0);
        }
        const double next = update_inverse_rate(mix, prediction, label);
        state[MixerState::RATE_RISES] += larger(next - inverse_rate, 0.0);
        if (next > 0.0) state[MixerState::SHARE_COST] -= next * mix.log_one_minus_share;
        state[MixerState::INVERSE_RATE] = next;
        if (!(next > 0.0)) continue;
        if (next > inverse_rate) { // w_i <- w_i^r prior_i^(1 - r) as the rate falls; as it rises they stay
            const double r = inverse_rate / next;
            s.compute_weights();
            const double before = s.total;
            for (size_t k = 0; k < s.n; ++k) s.v[k] = fma(all(r), s.log_weights[k], (1.0 - r) * s.log_prior[k]);
            const double top = s.set_log_weights();
            if (!symmetric) { // ln of the sum of w_i^r prior_i^(1 - r), which is at most 0
                s.compute_weights();
                state[MixerState::GAPS] += next * smaller(top + ln(s.total) - r * ln(before), 0.0);
            }
        }
        s.apply_fixed_share(mix.share);
    }
    s.save(mix);
}

} // namespace
