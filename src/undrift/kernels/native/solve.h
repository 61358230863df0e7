// Solve for rows without changing the state: p = L^-1 z, the leverage h = sum p_j^2 / (beta D_j), and the leader's
// prediction m = sum p_j theta_j.
#pragma once
#include "unit.h"

namespace {

struct DiscountedPivots { // 1/D and the energies after forgetting, one vector per feature
    V *inverse, *energy;
};

struct SumsByFeature { // h and m summed up to each feature; filled with KEEP only
    V *h, *m;
};

// How a solve gets an element of L: it just reads it. (UpdateElements in aioli.h updates it on the way.)
struct ReadElements {
    INLINE_MEMBER V element(int, double *at, size_t) { return load(at); }
};

// Elements r0 .. r0+R-1 of p for T rows of Z at once, by forward substitution; p is [feature][T].
template <int R, int T, bool KEEP, size_t S, class Elements>
INLINE void solve_rows(const Unit<S> &u, size_t d, size_t r0, const double *Z, const DiscountedPivots &past, V *p, V *h,
                       V *m, const SumsByFeature &sums, Elements elements) {
    V v[R][T];
    UNROLL for (int i = 0; i < R; ++i) {
        UNROLL for (int t = 0; t < T; ++t) v[i][t] = all(Z[t * d + r0 + i]);
    }
    double *row[R];
    UNROLL for (int i = 0; i < R; ++i) row[i] = u.L + (r0 + i ? row_of(r0 + i) : 0) * S;
    for (size_t j = 0; j < r0; ++j) {
        UNROLL for (int i = 0; i < R; ++i) {
            const V l = elements.element(i, row[i] + j * S, j);
            UNROLL for (int t = 0; t < T; ++t) v[i][t] = fnma(p[j * T + t], l, v[i][t]);
        }
    }
    UNROLL for (int i = 0; i < R; ++i) {
        const size_t r = r0 + i;
        UNROLL for (int k = 0; k < i; ++k) {
            const V l = elements.element(i, row[i] + (r0 + k) * S, r0 + k);
            UNROLL for (int t = 0; t < T; ++t) v[i][t] = fnma(p[(r0 + k) * T + t], l, v[i][t]);
        }
        const V inverse = past.inverse[r], energy = past.energy[r], theta = load(u.theta + r * S);
        for (int t = 0; t < T; ++t) {
            const V q = drop_rounding(v[i][t], inverse, energy, h[t], u.rounding);
            p[r * T + t] = q;
            h[t] = fma(q * inverse, q, h[t]);
            m[t] = fma(q, theta, m[t]);
            if (KEEP) {
                sums.h[r] = h[t];
                sums.m[r] = m[t];
            }
        }
    }
}

template <int T, bool KEEP, size_t S>
INLINE void solve(const Unit<S> &u, size_t d, const double *Z, const DiscountedPivots &past, V *p, V *h, V *m,
                  const SumsByFeature &sums) {
    for (int t = 0; t < T; ++t) h[t] = m[t] = all(0.0);
    size_t r = 0;
    for (; r + 4 <= d; r += 4) solve_rows<4, T, KEEP>(u, d, r, Z, past, p, h, m, sums, ReadElements());
    for (; r < d; ++r) solve_rows<1, T, KEEP>(u, d, r, Z, past, p, h, m, sums, ReadElements());
}

// Fill 1/D and the energies as the next round will see them; returns the lanes that are lost then.
template <size_t S> INLINE M discount_past(const Unit<S> &u, int64_t closed, size_t d, const DiscountedPivots &past) {
    const M lost = load(u.lost) != all(0.0);
    if (!is_floor_round(u, closed)) {
        for (size_t j = 0; j < d; ++j) {
            past.inverse[j] = load(u.inverse + j * S) * u.inverse_beta;
            past.energy[j] = load(u.energy + j * S) * u.beta;
        }
        return lost;
    }
    forget<W>(u, closed, d, (double *)past.inverse, (double *)past.energy);
    return lost & invert(floored_lanes(u, closed));
}

} // namespace
