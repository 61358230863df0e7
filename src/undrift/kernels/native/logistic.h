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
    const V scale = number((bits(shifted) << 52) + 0x3ff0000000000000LL);
    const V r2 = r * r, r4 = r2 * r2;
    const V a = fma(r, all(1.0 / 6.0), all(0.5)), b = fma(r, all(1.0 / 120.0), all(1.0 / 24.0));
    const V c = fma(r, all(1.0 / 5040.0), all(1.0 / 720.0)), e = fma(r, all(1.0 / 362880.0), all(1.0 / 40320.0));
    const V f = fma(r, all(1.0 / 39916800.0), all(1.0 / 3628800.0));
    const V g = fma(r, all(1.0 / 6227020800.0), all(1.0 / 479001600.0));
    const V low = fma(r2, b, a), middle = fma(r2, e, c), high = fma(r2, g, f);
    const V small = fma(r2, fma(r4, fma(r4, high, middle), low), r);
    return {fma(scale, small, scale), fma(scale, small, scale - 1.0)};
}

// The root of m + kappa tanh(m/2) = m0: Halley's steps (third order) up from a point below the root, at most twice
// Newton's, kept inside a bracket. Past m = 1 the equation is taken as m - (m0 - kappa) = kappa (1 - tanh(m/2)), whose
// terms are of the size of m. A lane that has arrived stays where it is.
static V log_odds(V m0, V kappa) {
    const V target = magnitude(m0), beyond = target - kappa;
    V low = larger(target / (1.0 + 0.5 * kappa), beyond), high = target;
    V m = low;
    M active = target > all(0.0);
    for (int guard = 0; any(active) && guard < 2000; ++guard) {
        const Decay e = decay(m);
        const V rq = 1.0 / (1.0 + e.exp), tanh = -e.expm1 * rq;
        const V rest = 2.0 * (e.exp * rq), half = kappa * (rest * rq); // 1 - tanh; kappa/2 (1 - tanh^2)
        const V slack = select(m > all(1.0), fma(kappa, rest, beyond - m), fnma(kappa, tanh, target - m));
        const M up = slack >= all(0.0);
        low = select(up, m, low);
        high = select(up, high, m);
        const V slope = 1.0 + half, newton = slack / slope;
        const V bend = smaller(0.5 * (newton * (half * tanh)), 0.5 * slope); // Halley: divide by 1 - bend / slope
        V step = slack / (slope - bend);
        const V next = m + step;
        step = select(neither((next >= low) & (next <= high)), 0.5 * (low + high) - m, step);
        m = select(active, m + step, m);
        active = active & (magnitude(step) > 0x1p-18 * smaller(m, all(1.0)));
    }
    return with_sign(m, m0);
}

} // namespace
