// Looking at rows through the discounted past without changing it: p = L^-1 z, the leverage and the leader's prediction.
#pragma once
#include "unit.h"

namespace {

struct Past { // 1/D and the energies after forgetting, one vector per feature
    V *now, *energy;
};

struct Steps { // the running leverage and prediction after each feature; null if nobody asks
    V *h, *m;
};

// How a solve comes to the elements of L: it reads them, and that is all.
struct Reading {
    INLINE_MEMBER V element(int, double *at, size_t) { return load(at); }
};

// Rows r0 .. r0+R-1 of p for T rows at once; p is [feature][T].
template <int R, int T, bool KEEP, size_t S, class Elements>
INLINE void solve_rows(const Unit<S> &u, size_t d, size_t r0, const double *Z, const Past &past, V *p, V *h, V *m,
                       const Steps &steps, Elements elements) {
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
        const V now = past.now[r], energy = past.energy[r], theta = load(u.theta + r * S);
        for (int t = 0; t < T; ++t) {
            const V q = news(v[i][t], now, energy, h[t], u.blur);
            p[r * T + t] = q;
            h[t] = fma(q * now, q, h[t]);
            m[t] = fma(q, theta, m[t]);
            if (KEEP) {
                steps.h[r] = h[t];
                steps.m[r] = m[t];
            }
        }
    }
}

template <int T, bool KEEP, size_t S>
INLINE void solve(const Unit<S> &u, size_t d, const double *Z, const Past &past, V *p, V *h, V *m, const Steps &steps) {
    for (int t = 0; t < T; ++t) h[t] = m[t] = all(0.0);
    size_t r = 0;
    for (; r + 4 <= d; r += 4) solve_rows<4, T, KEEP>(u, d, r, Z, past, p, h, m, steps, Reading());
    for (; r < d; ++r) solve_rows<1, T, KEEP>(u, d, r, Z, past, p, h, m, steps, Reading());
}

// The past as the next round will see it; returns who will be lost then.
template <size_t S> INLINE M prepare(const Unit<S> &u, int64_t closed, size_t d, const Past &past) {
    const M lost = load(u.lost) != all(0.0);
    if (!floors(u, closed)) {
        for (size_t j = 0; j < d; ++j) {
            past.now[j] = load(u.inverse + j * S) * u.rate;
            past.energy[j] = load(u.energy + j * S) * u.beta;
        }
        return lost;
    }
    forget<W>(u, closed, d, (double *)past.now, (double *)past.energy);
    return lost & neither(due(u, closed));
}

} // namespace
