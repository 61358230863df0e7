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

INLINE double top_of(V v) {
    double a = lane(v, 0);
    for (size_t i = 1; i < W; ++i) a = larger(a, lane(v, i));
    return a;
}
INLINE double sum_of(V v) {
    double a = lane(v, 0);
    for (size_t i = 1; i < W; ++i) a += lane(v, i);
    return a;
}

// No log-weight falls below -FAR_AWAY; spare lanes repeat the first member's prediction with the log-weight NOBODY.
constexpr double FAR_AWAY = 1e150, NOBODY = -1e300;

// ln of the sum of e^x over n vectors of members, in two parts: apart, they keep their digits when x is huge.
struct LogSum {
    double top, rest;
    operator double() const { return top + rest; }
};

static LogSum log_sum_exp(const V *x, size_t n) {
    V top = x[0], sum = all(0.0);
    for (size_t k = 1; k < n; ++k) top = larger(top, x[k]);
    const double t = top_of(top);
    for (size_t k = 0; k < n; ++k) sum += decay(t - x[k]).exp;
    return {t, lane(logarithm(all(sum_of(sum))), 0)};
}

struct Mixing { // scratch: one padded array per name
    size_t n, members;
    V bottom; // where the last vector's log-weights end
    V *log_weights, *log_prior, *prior, *e, *loss, *v, *up, *down, *raw;
    Mixing(const Mix &mix, double *scratch) {
        members = mix.members;
        n = (members + W - 1) / W;
        V **all_of[] = {&log_weights, &log_prior, &prior, &e, &loss, &v, &up, &down, &raw};
        V *next = (V *)scratch;
        for (V **one : all_of) {
            *one = next;
            next += n;
        }
        double ends[W];
        for (size_t i = 0; i < W; ++i) ends[i] = (n - 1) * W + i < members ? -FAR_AWAY : NOBODY;
        bottom = load(ends);
        fill(log_weights, mix.log_weights, NOBODY);
        if (mix.losses) fill(log_prior, mix.log_prior, NOBODY); // only rounds that close need it
        if (mix.losses && mix.share > 0.0)
            for (size_t k = 0; k < n; ++k) prior[k] = decay(-log_prior[k]).exp;
    }
    void fill(V *to, const double *from, double spare) const {
        double *flat = (double *)to;
        memcpy(flat, from, members * sizeof(double));
        for (size_t i = members; i < n * W; ++i) flat[i] = spare;
    }
    void weights_to(double *row) const {
        for (size_t k = 0; k < n; ++k) v[k] = decay(-log_weights[k]).exp;
        memcpy(row, v, members * sizeof(double));
    }
    // to[i] += vector k's lane, for every member
    template <class F> void add(double *to, F value) const {
        size_t k = 0;
        for (; (k + 1) * W <= members; ++k) store(to + k * W, load(to + k * W) + value(k));
        if (k < n) {
            const V last = value(k);
            for (size_t i = k * W; i < members; ++i) to[i] += lane(last, i - k * W);
        }
    }
    V kept(size_t k, V weight) const { return larger(weight, k + 1 < n ? all(-FAR_AWAY) : bottom); }
    double least() const {
        V best = loss[0];
        for (size_t k = 1; k < n; ++k) best = smaller(best, loss[k]);
        return -top_of(-best);
    }
    // log_weights <- share of v, a log-posterior; `total` is the logarithm of its sum
    void settle(double share, LogSum total) const {
        for (size_t k = 0; k < n; ++k) {
            V w = kept(k, (v[k] - total.top) - total.rest);
            if (share > 0.0) w = logarithm((1.0 - share) * decay(-w).exp + share * prior[k]);
            log_weights[k] = w;
        }
        log_weights[n - 1] = select(bottom < all(-FAR_AWAY), bottom, log_weights[n - 1]);
    }
};

// What the members' log-odds in row t amount to; leaves both labels' losses in `raw` (+1) and `e` (-1).
static double hear_odds(const Mixing &s, const double *E) {
    s.fill(s.e, E, E[0]);
    bool heard = false;
    for (size_t k = 0; k < s.n; ++k) {
        const M said = s.e[k] == s.e[k];
        heard |= any(said);
        const V e = select(said, larger(smaller(s.e[k], all(FAR_AWAY)), all(-FAR_AWAY)), all(0.0));
        const V rest = log1p_of(decay(magnitude(e)).exp);
        const V right = larger(-e, all(0.0)) + rest, wrong = larger(e, all(0.0)) + rest; // softplus(-e), softplus(e)
        s.up[k] = select(said, s.log_weights[k] - right, all(NOBODY));
        s.down[k] = select(said, s.log_weights[k] - wrong, all(NOBODY));
        s.raw[k] = select(said, right, all(FAR_AWAY));
        s.e[k] = select(said, wrong, all(FAR_AWAY));
    }
    return heard ? log_sum_exp(s.up, s.n) - log_sum_exp(s.down, s.n) : 0.0;
}

static void mix_logistic(const Mix &mix, double *scratch) {
    Mixing s(mix, scratch);
    for (size_t t = 0; t < mix.rounds; ++t) {
        if (mix.weights) s.weights_to(mix.weights + t * mix.members);
        mix.yhat[t] = hear_odds(s, mix.E + t * mix.members);
        if (!mix.losses) continue;
        s.loss = mix.y[t] > 0.0 ? s.raw : s.e;
        s.add(mix.losses, [&](size_t k) { return s.loss[k]; });
        const double least = s.least();
        for (size_t k = 0; k < s.n; ++k) s.v[k] = s.kept(k, s.log_weights[k] - (s.loss[k] - least));
        s.settle(mix.share, log_sum_exp(s.v, s.n));
    }
    if (mix.losses) memcpy(mix.log_weights, s.log_weights, mix.members * sizeof(double));
}

// Places and rules as in the twin.
enum { LOW, HIGH, INVERSE, EXCESS, GAPS, PAID, SHARED, SQUARE, COUNT };
enum { BY_RANGE, AGGREGATING, CONFIDENT, RESIDUAL };
constexpr double MEMORY = 1000.0;

static double weighted_mean(const Mixing &s) {
    V above = all(0.0), below = all(0.0), low = s.e[0], high = s.e[0];
    for (size_t k = 0; k < s.n; ++k) {
        const V w = decay(-s.log_weights[k]).exp;
        above = fma(w, s.e[k], above);
        below += w;
        low = smaller(low, s.e[k]);
        high = larger(high, s.e[k]);
    }
    return smaller(larger(sum_of(above) / sum_of(below), -top_of(-low)), top_of(high));
}

static double substitution(const Mixing &s, double most) {
    if (most == 0.0) return 0.0;
    for (size_t k = 0; k < s.n; ++k) {
        const V x = s.e[k] / most;
        s.up[k] = s.log_weights[k] - 0.5 * ((1.0 - x) * (1.0 - x));
        s.down[k] = s.log_weights[k] - 0.5 * ((1.0 + x) * (1.0 + x));
    }
    const double guess = 0.5 * most * (log_sum_exp(s.up, s.n) - log_sum_exp(s.down, s.n));
    return smaller(larger(guess, -most), most);
}

// What the members' predictions in a row amount to; leaves them in `raw` and, clipped to the labels so far, in `e`.
static double hear(const Mixing &s, const Mix &mix, const double *E) {
    const double low = mix.state[LOW], high = mix.state[HIGH];
    s.fill(s.raw, E, E[0]);
    for (size_t k = 0; k < s.n; ++k) {
        const V e = select(s.raw[k] == s.raw[k], s.raw[k], all(0.0));
        s.raw[k] = larger(smaller(e, all(FAR_AWAY)), all(-FAR_AWAY));
        s.e[k] = smaller(larger(s.raw[k], all(low)), all(high));
    }
    return mix.rule == AGGREGATING ? substitution(s, high) : weighted_mean(s);
}

static void mix_squared(const Mix &mix, double *scratch) {
    Mixing s(mix, scratch);
    double *state = mix.state;
    const bool symmetric = mix.rule == BY_RANGE || mix.rule == AGGREGATING;
    for (size_t t = 0; t < mix.rounds; ++t) {
        if (mix.weights) s.weights_to(mix.weights + t * mix.members);
        const double guess = mix.yhat[t] = hear(s, mix, mix.E + t * mix.members);
        if (!mix.losses) continue;
        const double label = mix.y[t], low = state[LOW], high = state[HIGH], inverse = state[INVERSE];
        const double seen = symmetric ? smaller(larger(label, low), high) : label;
        s.add(mix.losses, [&](size_t k) { return 0.5 * ((s.raw[k] - label) * (s.raw[k] - label)); });
        s.add(mix.charged, [&](size_t k) { return 0.5 * ((s.e[k] - label) * (s.e[k] - label)); });
        for (size_t k = 0; k < s.n; ++k) s.loss[k] = 0.5 * ((s.e[k] - seen) * (s.e[k] - seen));
        const double least = s.least();
        double mixed = least;
        if (inverse > 0.0) {
            for (size_t k = 0; k < s.n; ++k)
                s.v[k] = s.kept(k, s.log_weights[k] - (s.loss[k] - least) / inverse);
            const LogSum total = log_sum_exp(s.v, s.n);
            for (size_t k = 0; k < s.n; ++k) s.v[k] = (s.v[k] - total.top) - total.rest;
            mixed = least - inverse * total;
        } else {
            for (size_t k = 0; k < s.n; ++k) s.v[k] = s.log_weights[k];
        }
        const double gap = 0.5 * ((guess - seen) * (guess - seen)) - mixed;
        state[GAPS] += gap;
        state[EXCESS] += larger(gap, 0.0);
        state[COUNT] += 1.0;
        const double residual = (guess - label) * (guess - label);
        state[SQUARE] += (residual - state[SQUARE]) / smaller(state[COUNT], MEMORY);
        if (symmetric) {
            state[HIGH] = larger(high, magnitude(label));
            state[LOW] = -state[HIGH];
        } else if (state[COUNT] == 1.0) {
            state[LOW] = state[HIGH] = label;
        } else {
            state[LOW] = smaller(low, label);
            state[HIGH] = larger(high, label);
        }
        double following = mix.scale * state[SQUARE];
        if (mix.rule == BY_RANGE) following = 4.0 * (state[HIGH] * state[HIGH]);
        if (mix.rule == AGGREGATING) following = state[HIGH] * state[HIGH];
        if (mix.rule == CONFIDENT) following = state[EXCESS] / mix.log_members;
        state[PAID] += larger(following - inverse, 0.0);
        if (following > 0.0) state[SHARED] -= following * mix.log_kept;
        state[INVERSE] = following;
        if (!(following > 0.0)) continue;
        LogSum total{0.0, 0.0}; // the posterior is a distribution already, unless the rate moves
        if (following != inverse) {
            const double r = inverse / following, more = larger(1.0 - r, 0.0);
            for (size_t k = 0; k < s.n; ++k) s.v[k] = s.kept(k, r * s.v[k] + more * s.log_prior[k]);
            total = log_sum_exp(s.v, s.n);
        }
        s.settle(mix.share, total);
    }
    if (mix.losses) memcpy(mix.log_weights, s.log_weights, mix.members * sizeof(double));
}

} // namespace
