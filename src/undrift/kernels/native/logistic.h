// The scalar functions of the logistic learner, on whole vectors: every lane gets the bits it would get alone.
#pragma once
#include "vec.h"

namespace {

struct Decay { // of x >= 0
    V exp, expm1; // e^-x and e^-x - 1, each within two units in the last place
};

// e^-x = 2^k e^r with |r| <= ln(2)/2; e^r - 1 by its series, whose first omitted term is below 2^-57 of it.
INLINE Decay decay(V x) {
    const double magic = 6755399441055744.0; // 1.5 * 2^52: adding it rounds to an integer, held in the low bits
    x = smaller(x, all(708.0));              // e^-708 is the last power that is a normal number
    const V shifted = x * -1.4426950408889634 + magic, k = shifted - magic;
    const V r = (-x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10; // ln 2 in two parts
    const V scale = number(to_exponent(bits(shifted)) + 0x3ff0000000000000LL);
    const V r2 = r * r, r4 = r2 * r2;
    const V a = fma(r, all(1.0 / 6.0), all(0.5)), b = fma(r, all(1.0 / 120.0), all(1.0 / 24.0));
    const V c = fma(r, all(1.0 / 5040.0), all(1.0 / 720.0)), e = fma(r, all(1.0 / 362880.0), all(1.0 / 40320.0));
    const V f = fma(r, all(1.0 / 39916800.0), all(1.0 / 3628800.0));
    const V g = fma(r, all(1.0 / 6227020800.0), all(1.0 / 479001600.0));
    const V low = fma(r2, b, a), middle = fma(r2, e, c), high = fma(r2, g, f);
    const V small = fma(r2, fma(r4, fma(r4, high, middle), low), r);
    return {fma(scale, small, scale), fma(scale, small, scale - 1.0)};
}

// The roots of m + kappa tanh(m/2) = target >= 0, C vectors side by side: Halley's steps (third order), at most twice
// Newton's, kept inside a bracket. Past m = 1 the equation is taken as m - beyond = kappa (1 - tanh(m/2)), with beyond =
// target - kappa, whose terms are of the size of m. A lane that has arrived stays where it is.
template <int C> static void solve_log_odds(const V *target, const V *beyond, const V *kappa, V *m) {
    V low[C], high[C];
    M active[C];
    bool going = false;
    UNROLL for (int c = 0; c < C; ++c) {
        high[c] = target[c];
        const V line = target[c] / (1.0 + 0.5 * kappa[c]); // tanh(m/2) <= m/2, and about m/2 / (1 + m^2/12)
        const V some = smaller(line, all(4.0)), ratio = fma(some * (1.0 / 12.0), some, all(1.0));
        low[c] = larger(line, beyond[c]);
        m[c] = smaller(larger(target[c] * (ratio / (ratio + 0.5 * kappa[c])), low[c]), high[c]);
        active[c] = target[c] > all(0.0);
        going |= any(active[c]);
    }
    for (int guard = 0; going && guard < 2000; ++guard) {
        going = false;
        UNROLL for (int c = 0; c < C; ++c) {
            const Decay e = decay(m[c]);
            const V rq = 1.0 / (1.0 + e.exp), tanh = -e.expm1 * rq;
            const V rest = 2.0 * (e.exp * rq), half = kappa[c] * (rest * rq); // 1 - tanh; kappa/2 (1 - tanh^2)
            const V slack = select(m[c] > all(1.0), fma(kappa[c], rest, beyond[c] - m[c]),
                                   fnma(kappa[c], tanh, target[c] - m[c]));
            const M up = slack >= all(0.0);
            low[c] = select(up, m[c], low[c]);
            high[c] = select(up, high[c], m[c]);
            const V slope = 1.0 + half, newton = slack / slope;
            const V correction = smaller(0.5 * (newton * (half * tanh)), 0.5 * slope); // Halley: step = slack / (slope - it)
            V step = slack / (slope - correction);
            const V next = m[c] + step;
            step = select(invert((next >= low[c]) & (next <= high[c])), 0.5 * (low[c] + high[c]) - m[c], step);
            m[c] = select(active[c], m[c] + step, m[c]);
            active[c] = active[c] & (magnitude(step) > 0x1p-18 * smaller(m[c], all(1.0)));
            going |= any(active[c]);
        }
    }
}

// The roots of m + kappa tanh(m/2) = m0, of either sign.
template <int C> static void log_odds(const V *m0, const V *kappa, V *roots) {
    V target[C], beyond[C];
    UNROLL for (int c = 0; c < C; ++c) {
        target[c] = magnitude(m0[c]);
        beyond[c] = target[c] - kappa[c];
    }
    solve_log_odds<C>(target, beyond, kappa, roots);
    UNROLL for (int c = 0; c < C; ++c) roots[c] = with_sign(roots[c], m0[c]);
}

INLINE V log_odds(V m0, V kappa) {
    V root;
    log_odds<1>(&m0, &kappa, &root);
    return root;
}

// The root of p = m + h sigma(-p): where (p - m)^2 / 2h plus the logistic loss of the label +1 is least. With kappa = h / 2
// it is p + kappa tanh(p/2) = m + kappa. A large h would drown m in that sum, so `beyond` is written without it.
INLINE V least_loss(V m, V h) {
    const V kappa = 0.5 * h, sum = m + kappa, target = magnitude(sum);
    const V beyond = select(sum >= all(0.0), m, -m - h);
    V root;
    solve_log_odds<1>(&target, &beyond, &kappa, &root);
    return with_sign(root, sum);
}

} // namespace
