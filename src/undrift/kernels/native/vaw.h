// Squared loss, W learners in lanes. The factor's update does not depend on the label, so predicting and learning are
// one pass: with p = L^-1 z and the gain be_j = p_j / (beta D_j s_j), every element of L sees v -= p_j L; L += be_j v.
// Row r needs p_j and be_j of j < r only, so several rounds are applied while a row is at hand (a wavefront), and
// several rows at a time. Neither changes what happens to a number, nor in which order: all tile shapes agree in bits.
#pragma once
#include "unit.h"

namespace {

template <class X> struct Carry { // what a round hands from feature to feature
    X h, s, part;
};

template <class X> struct Gain {
    X p, be;
};

// Feature j of one round: p is what is left of it, everything else about j follows.
template <class X>
INLINE Gain<X> pivot(X p, X z, X y, X rate, X beta, X blur, X &inverse, X &theta, X &energy, Carry<X> &c) {
    const X now = inverse * rate, e = beta * energy;
    p = news(p, now, e, c.h, blur);
    const X g = p * now;
    c.h = fma(g, p, c.h);
    const X s = c.h + 1.0, rs = 1.0 / s, gain = g * rs;
    inverse = now * (c.s * rs);
    c.s = s;
    c.part = fma(p, theta, c.part);
    theta = fma(gain, y - c.part, theta);
    energy = fma(z, z, e);
    return {p, gain};
}

// Rows r0 .. r0+R-1 of T rounds. `pb` holds (p, be) of the tile's rounds: [feature][round][2].
template <int R, int T, size_t S>
INLINE void vaw_tile(const Unit<S> &u, size_t d, size_t r0, const double *Z, const double *y, V *pb, Carry<V> *carry,
                     V rate0, V beta0) {
    V v[R][T];
    for (int i = 0; i < R; ++i)
        for (int t = 0; t < T; ++t) v[i][t] = all(Z[t * d + r0 + i]);
    double *row[R];
    for (int i = 0; i < R; ++i) row[i] = u.L + (r0 + i ? row_of(r0 + i) : 0) * S;
    const V *q = pb;
    for (size_t j = 0; j < r0; ++j, q += 2 * T) {
        V l[R];
        for (int i = 0; i < R; ++i) l[i] = load(row[i] + j * S);
        for (int t = 0; t < T; ++t) {
            const V p = q[2 * t], be = q[2 * t + 1];
            for (int i = 0; i < R; ++i) {
                v[i][t] = fnma(p, l[i], v[i][t]);
                l[i] = fma(be, v[i][t], l[i]);
            }
        }
        for (int i = 0; i < R; ++i) store(row[i] + j * S, l[i]);
    }
    for (int i = 0; i < R; ++i) {
        const size_t r = r0 + i;
        for (int k = 0; k < i; ++k) {
            V l = load(row[i] + (r0 + k) * S);
            for (int t = 0; t < T; ++t) {
                const V *w = pb + ((r0 + k) * T + t) * 2;
                v[i][t] = fnma(w[0], l, v[i][t]);
                l = fma(w[1], v[i][t], l);
            }
            store(row[i] + (r0 + k) * S, l);
        }
        V inverse = load(u.inverse + r * S), theta = load(u.theta + r * S), energy = load(u.energy + r * S);
        for (int t = 0; t < T; ++t) {
            V *w = pb + (r * T + t) * 2;
            const Gain<V> gain = pivot(v[i][t], all(Z[t * d + r]), all(y[t]), t ? u.rate : rate0, t ? u.beta : beta0,
                                       u.blur, inverse, theta, energy, carry[t]);
            w[0] = gain.p;
            w[1] = gain.be;
        }
        store(u.inverse + r * S, inverse);
        store(u.theta + r * S, theta);
        store(u.energy + r * S, energy);
    }
}

template <int R, size_t S>
static void vaw_rows(const Unit<S> &u, size_t d, size_t r0, const double *Z, const double *y, size_t n, V *pb,
                     Carry<V> *carry, V rate0, V beta0) {
    size_t t = 0;
    for (; t + 4 <= n; t += 4)
        vaw_tile<R, 4>(u, d, r0, Z + t * d, y + t, pb + 2 * t * d, carry + t, t ? u.rate : rate0, t ? u.beta : beta0);
    for (; t < n; ++t)
        vaw_tile<R, 1>(u, d, r0, Z + t * d, y + t, pb + 2 * t * d, carry + t, t ? u.rate : rate0, t ? u.beta : beta0);
}

// All rounds of one unit.
template <size_t S> static void vaw_unit(const Run &run, const Unit<S> &u, V *pb) {
    const size_t d = run.dim;
    Carry<V> carry[PERIOD];
    for (size_t t = 0, n; t < run.rounds; t += n) {
        const int64_t closed = run.first + (int64_t)t;
        n = stretch(u, closed, run.rounds - t);
        V rate0 = u.rate, beta0 = u.beta;
        if (floors(u, closed)) {
            forget_in_place(u, closed, d);
            rate0 = beta0 = all(1.0);
        }
        for (size_t k = 0; k < n; ++k) carry[k] = Carry<V>{all(0.0), all(1.0), all(0.0)};
        const double *Z = run.Z + t * d, *y = run.y + t;
        size_t r = 0;
        for (; r + 3 <= d; r += 3) vaw_rows<3>(u, d, r, Z, y, n, pb, carry, rate0, beta0);
        if (d - r == 2) vaw_rows<2>(u, d, r, Z, y, n, pb, carry, rate0, beta0);
        if (d - r == 1) vaw_rows<1>(u, d, r, Z, y, n, pb, carry, rate0, beta0);
        M lost = load(u.lost) != all(0.0);
        for (size_t k = 0; k < n; ++k) {
            V m = carry[k].part, h = carry[k].h;
            lost = judge(lost, m, h);
            store_some(run.one + (t + k) * run.learners + u.learner, m, u.count);
            store_some(run.two + (t + k) * run.learners + u.learner, h, u.count);
        }
        if (any(lost)) {
            store(u.lost, select(lost, all(1.0), all(0.0)));
            clear_lost(u, d);
        }
    }
}

} // namespace
