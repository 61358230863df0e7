// Mixing N members' predictions into one: weights in the log domain, a posterior per round, the fixed share.
// Members stand in lanes; the twin is kernels/reference_mix.py.
#pragma once
#include "logistic.h"
#include "table.h"

namespace {
using namespace undrift;

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

INLINE V log1p_of(V e) { // 0 <= e <= 1
    const V u = 1.0 + e;
    return logarithm(u) + (e - (u - 1.0)) / u;
}

// Over the lanes i to i + n - 1, in halves.
template <size_t i = 0, size_t n = W> INLINE double top_of(V v) {
    if constexpr (n == 1)
        return lane(v, i);
    else
        return larger(top_of<i, n / 2>(v), top_of<i + n / 2, n / 2>(v));
}
template <size_t i = 0, size_t n = W> INLINE double sum_of(V v) {
    if constexpr (n == 1)
        return lane(v, i);
    else
        return sum_of<i, n / 2>(v) + sum_of<i + n / 2, n / 2>(v);
}
INLINE double bottom_of(V v) { return -top_of(-v); }
INLINE double ln(double x) { return lane(logarithm(all(x)), 0); }

// No log-weight falls below -FAR_AWAY; spare lanes repeat the first member's prediction with the log-weight NOBODY.
constexpr double FAR_AWAY = 1e150, NOBODY = -1e300;

struct Mixing { // scratch: one padded array per name
    size_t n, members;
    V bottom; // where the last vector's log-weights end
    V *log_weights, *losses, *charged, *log_prior, *prior, *w, *e, *loss, *v, *raw;
    double total;      // of w = e^log_weights,
    bool warm = false; // if they are of these log-weights
    Mixing(const Mix &mix, double *scratch) {
        members = mix.members;
        n = (members + W - 1) / W;
        V **all_of[] = {&log_weights, &losses, &charged, &log_prior, &prior, &w, &e, &loss, &v, &raw};
        V *next = (V *)scratch;
        for (V **one : all_of) {
            *one = next;
            next += n;
        }
        double ends[W];
        for (size_t i = 0; i < W; ++i) ends[i] = (n - 1) * W + i < members ? -FAR_AWAY : NOBODY;
        bottom = load(ends);
        take(log_weights, mix.log_weights, NOBODY);
        if (!mix.losses) return; // only rounds that close need the rest
        take(losses, mix.losses, 0.0);
        if (mix.charged) take(charged, mix.charged, 0.0);
        take(log_prior, mix.log_prior, NOBODY);
        if (mix.share > 0.0)
            for (size_t k = 0; k < n; ++k) prior[k] = decay(-log_prior[k]).exp;
    }
    void save(const Mix &mix) const {
        if (!mix.losses) return;
        give(mix.log_weights, log_weights);
        give(mix.losses, losses);
        if (mix.charged) give(mix.charged, charged);
    }
    void take(V *to, const double *from, double spare) const {
        const size_t whole = members / W;
        for (size_t k = 0; k < whole; ++k) to[k] = load(from + k * W);
        if (whole < n) {
            double last[W];
            for (size_t i = 0; i < W; ++i) last[i] = whole * W + i < members ? from[whole * W + i] : spare;
            to[whole] = load(last);
        }
    }
    void give(double *to, const V *from) const {
        const size_t whole = members / W;
        for (size_t k = 0; k < whole; ++k) store(to + k * W, from[k]);
        for (size_t i = whole * W; i < members; ++i) to[i] = lane(from[whole], i - whole * W);
    }
    void weigh() {
        if (warm) return;
        V sum = all(0.0);
        for (size_t k = 0; k < n; ++k) sum += w[k] = decay(-log_weights[k]).exp;
        total = sum_of(sum);
        warm = true;
    }
    void weights_to(double *row) const {
        for (size_t k = 0; k < n; ++k) v[k] = w[k] / total;
        give(row, v);
    }
    double least() const {
        V best = loss[0];
        for (size_t k = 1; k < n; ++k) best = smaller(best, loss[k]);
        return bottom_of(best);
    }
    // log_weights <- v, the largest taken off: it is returned
    double settle() {
        V most = v[0];
        for (size_t k = 1; k < n; ++k) most = larger(most, v[k]);
        const double top = top_of(most);
        for (size_t k = 0; k + 1 < n; ++k) log_weights[k] = larger(v[k] - top, all(-FAR_AWAY));
        log_weights[n - 1] = select(bottom < all(-FAR_AWAY), bottom, larger(v[n - 1] - top, bottom));
        warm = false;
        return top;
    }
    void give_back(double share) {
        if (!(share > 0.0)) return;
        weigh();
        const double kept = (1.0 - share) / total;
        for (size_t k = 0; k < n; ++k) v[k] = logarithm(fma(all(kept), w[k], share * prior[k]));
        settle();
    }
};

// ln of the sum of e^x over n vectors of members.
static double log_sum_exp(const V *x, size_t n) {
    V top = x[0], sum = all(0.0);
    for (size_t k = 1; k < n; ++k) top = larger(top, x[k]);
    const double t = top_of(top);
    for (size_t k = 0; k < n; ++k) sum += decay(t - x[k]).exp;
    return t + ln(sum_of(sum));
}

INLINE V odds_of(V e) { return select(e == e, larger(smaller(e, all(FAR_AWAY)), all(-FAR_AWAY)), all(0.0)); }

// The same in the log domain: for log-odds whose sigma is no normal number, and when only members of no weight speak.
COLD double hear_far_odds(const Mixing &s, V *up, V *down) {
    bool heard = false;
    for (size_t k = 0; k < s.n; ++k) {
        const M said = s.raw[k] == s.raw[k];
        const V e = odds_of(s.raw[k]), rest = log1p_of(decay(magnitude(e)).exp);
        heard |= any(said);
        up[k] = select(said, s.log_weights[k] - (larger(-e, all(0.0)) + rest), all(NOBODY));
        down[k] = select(said, s.log_weights[k] - (larger(e, all(0.0)) + rest), all(NOBODY));
    }
    return heard ? log_sum_exp(up, s.n) - log_sum_exp(down, s.n) : 0.0;
}

// What the members' log-odds in a row amount to, ln(sum w sigma(e)) - ln(sum w sigma(-e)); with a label y, +1 or -1,
// leaves their losses.
template <bool CLOSE> static double hear_odds(const Mixing &s, const double *E, double y) {
    V up = all(0.0), down = all(0.0), most = all(0.0);
    s.take(s.raw, E, E[0]);
    for (size_t k = 0; k < s.n; ++k) {
        const M said = s.raw[k] == s.raw[k];
        const V e = odds_of(s.raw[k]), size = magnitude(e), far = decay(size).exp, u = 1.0 + far, near = 1.0 / u;
        const V heard = select(said, s.w[k] * near, all(0.0)), less = heard * far;
        const M positive = e > all(0.0);
        up += select(positive, heard, less);
        down += select(positive, less, heard);
        most = larger(most, size);
        if constexpr (CLOSE) // softplus(-y e)
            s.loss[k] = select(said, larger(-y * e, all(0.0)) + (logarithm(u) + (far - (u - 1.0)) * near), all(FAR_AWAY));
    }
    const double a = sum_of(up), b = sum_of(down);
    if (top_of(most) > 600.0 || !(a + b > 1e-280)) return hear_far_odds(s, s.v, s.e);
    return ln(a) - ln(b);
}

static void mix_logistic(const Mix &mix, double *scratch) {
    Mixing s(mix, scratch);
    for (size_t t = 0; t < mix.rounds; ++t) {
        const double *E = mix.E + t * mix.members;
        s.weigh();
        if (mix.weights) s.weights_to(mix.weights + t * mix.members);
        if (!mix.losses) {
            mix.yhat[t] = hear_odds<false>(s, E, 0.0);
            continue;
        }
        mix.yhat[t] = hear_odds<true>(s, E, mix.y[t]);
        const double least = s.least();
        for (size_t k = 0; k < s.n; ++k) {
            s.losses[k] += s.loss[k];
            s.v[k] = s.log_weights[k] - (s.loss[k] - least);
        }
        s.settle();
        s.give_back(mix.share);
    }
    s.save(mix);
}

// Places and rules as in the twin.
enum { LOW, HIGH, INVERSE, EXCESS, GAPS, PAID, SHARED, SQUARE, COUNT };
enum { BY_RANGE, AGGREGATING, CONFIDENT, RESIDUAL };
constexpr double MEMORY = 1000.0;

static double weighted_mean(const Mixing &s) {
    V sum = all(0.0), low = s.e[0], high = s.e[0];
    for (size_t k = 0; k < s.n; ++k) {
        sum = fma(s.w[k], s.e[k], sum);
        low = smaller(low, s.e[k]);
        high = larger(high, s.e[k]);
    }
    return smaller(larger(sum_of(sum) / s.total, bottom_of(low)), top_of(high));
}

static double substitution(const Mixing &s, double most) {
    if (most == 0.0) return 0.0;
    V up = all(0.0), down = all(0.0);
    for (size_t k = 0; k < s.n; ++k) {
        const V x = s.e[k] / most; // in [-1, 1]: no exponent is below -2
        up = fma(s.w[k], decay(0.5 * ((1.0 - x) * (1.0 - x))).exp, up);
        down = fma(s.w[k], decay(0.5 * ((1.0 + x) * (1.0 + x))).exp, down);
    }
    const double guess = 0.5 * most * (ln(sum_of(up)) - ln(sum_of(down)));
    return smaller(larger(guess, -most), most);
}

// What the members' predictions in a row amount to; leaves them in `raw` and, clipped to the labels so far, in `e`.
static double hear(const Mixing &s, const Mix &mix, const double *E) {
    const double low = mix.state[LOW], high = mix.state[HIGH];
    s.take(s.raw, E, E[0]);
    for (size_t k = 0; k < s.n; ++k) {
        const V said = select(s.raw[k] == s.raw[k], s.raw[k], all(0.0));
        s.raw[k] = larger(smaller(said, all(FAR_AWAY)), all(-FAR_AWAY));
        s.e[k] = smaller(larger(s.raw[k], all(low)), all(high));
    }
    return mix.rule == AGGREGATING ? substitution(s, high) : weighted_mean(s);
}

// Adds what the members lost by the label, as they said it and as it was clipped; leaves in `loss` what they are charged
// if the label is `seen`, and returns the least of these.
static double charge(const Mixing &s, double label, double seen) {
    for (size_t k = 0; k < s.n; ++k) {
        const V miss = s.raw[k] - label, clipped = s.e[k] - label, charged = s.e[k] - seen;
        s.losses[k] += 0.5 * (miss * miss);
        s.charged[k] += 0.5 * (clipped * clipped);
        s.loss[k] = 0.5 * (charged * charged);
    }
    return s.least();
}

// The range of the labels, and what the residuals are like; returns the next inverse rate.
static double note(const Mix &mix, double guess, double label) {
    double *state = mix.state;
    state[COUNT] += 1.0;
    const double residual = (guess - label) * (guess - label);
    state[SQUARE] += (residual - state[SQUARE]) / smaller(state[COUNT], MEMORY);
    if (mix.rule == BY_RANGE || mix.rule == AGGREGATING) {
        state[HIGH] = larger(state[HIGH], magnitude(label));
        state[LOW] = -state[HIGH];
        return (mix.rule == BY_RANGE ? 4.0 : 1.0) * (state[HIGH] * state[HIGH]);
    }
    if (state[COUNT] == 1.0) {
        state[LOW] = state[HIGH] = label;
    } else {
        state[LOW] = smaller(state[LOW], label);
        state[HIGH] = larger(state[HIGH], label);
    }
    return mix.rule == CONFIDENT ? state[EXCESS] / mix.log_members : mix.scale * state[SQUARE];
}

static void mix_squared(const Mix &mix, double *scratch) {
    Mixing s(mix, scratch);
    double *state = mix.state;
    const bool symmetric = mix.rule == BY_RANGE || mix.rule == AGGREGATING;
    for (size_t t = 0; t < mix.rounds; ++t) {
        s.weigh();
        if (mix.weights) s.weights_to(mix.weights + t * mix.members);
        const double guess = mix.yhat[t] = hear(s, mix, mix.E + t * mix.members);
        if (!mix.losses) continue;
        const double label = mix.y[t], inverse = state[INVERSE];
        const double seen = symmetric ? smaller(larger(label, state[LOW]), state[HIGH]) : label;
        const double least = charge(s, label, seen);
        double mixed = least;
        if (inverse > 0.0) {
            for (size_t k = 0; k < s.n; ++k) s.v[k] = s.log_weights[k] - (s.loss[k] - least) / inverse;
            const double before = s.total, top = s.settle();
            if (!symmetric) {
                s.weigh();
                mixed = least - inverse * (top + ln(s.total / before));
            }
        }
        if (!symmetric) {
            const double gap = 0.5 * ((guess - seen) * (guess - seen)) - mixed;
            state[GAPS] += gap;
            state[EXCESS] += larger(gap, 0.0);
        }
        const double following = note(mix, guess, label);
        state[PAID] += larger(following - inverse, 0.0);
        if (following > 0.0) state[SHARED] -= following * mix.log_kept;
        state[INVERSE] = following;
        if (!(following > 0.0)) continue;
        if (following != inverse) {
            const double r = inverse / following, more = larger(1.0 - r, 0.0);
            for (size_t k = 0; k < s.n; ++k) s.v[k] = fma(all(r), s.log_weights[k], more * s.log_prior[k]);
            s.settle();
        }
        s.give_back(mix.share);
    }
    s.save(mix);
}

} // namespace
