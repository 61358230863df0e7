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
    V s = all(1.0 / 87178291200.0);
    s = fma(s, r, all(1.0 / 6227020800.0));
    s = fma(s, r, all(1.0 / 479001600.0));
    s = fma(s, r, all(1.0 / 39916800.0));
    s = fma(s, r, all(1.0 / 3628800.0));
    s = fma(s, r, all(1.0 / 362880.0));
    s = fma(s, r, all(1.0 / 40320.0));
    s = fma(s, r, all(1.0 / 5040.0));
    s = fma(s, r, all(1.0 / 720.0));
    s = fma(s, r, all(1.0 / 120.0));
    s = fma(s, r, all(1.0 / 24.0));
    s = fma(s, r, all(1.0 / 6.0));
    s = fma(s, r, all(0.5));
    const V small = fma(s * r, r, r);
    return {fma(scale, small, scale), fma(scale, small, scale - 1.0)};
}

// The root of m + kappa tanh(m/2) = m0: Newton inside a bracket, bisection where Newton leaves it or no longer halves
// its steps. A lane that has arrived stays where it is.
static V log_odds(V m0, V kappa) {
    const V target = magnitude(m0);
    V low = larger(target / (1.0 + 0.5 * kappa), target - kappa), high = target;
    V m = low, step = high - low;
    M active = target > all(0.0);
    while (any(active)) {
        const Decay e = decay(m);
        const V rq = 1.0 / (1.0 + e.exp);
        const V slack = (target - m) + kappa * (e.expm1 * rq);
        const M up = slack >= all(0.0);
        low = select(up, m, low);
        high = select(up, high, m);
        const V last = step;
        step = slack / (1.0 + 2.0 * (kappa * ((e.exp * rq) * rq)));
        const V next = m + step;
        const M poor = neither((next >= low) & (next <= high)) | (magnitude(step) > 0.5 * magnitude(last));
        step = select(poor, 0.5 * (low + high) - m, step);
        active = active & (m + step != m);
        m = select(active, m + step, m);
    }
    return with_sign(m, m0);
}

} // namespace
