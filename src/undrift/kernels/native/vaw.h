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

// One unit's block of at most PERIOD rounds.
template <size_t S> struct Block {
    Unit<S> unit;
    V *pb; // (p, be) of the block: tiles of T rounds, in each [feature][round][2]
    Carry<V> carry[PERIOD];
    V rate0, beta0; // forgetting in the block's first round: 1 where `forget` has done it
};

// Rows r0 .. r0+R-1 of T rounds, up to column r0.
template <int R, int T, size_t S>
INLINE void vaw_bulk(double *const (&row)[R], size_t d, size_t r0, const double *Z, const V *q, V (&out)[R][T]) {
    V v[R][T];
    UNROLL for (int i = 0; i < R; ++i) {
        UNROLL for (int t = 0; t < T; ++t) v[i][t] = all(Z[t * d + r0 + i]);
    }
    for (size_t j = 0; j < r0; ++j, q += 2 * T) {
        V l[R];
        UNROLL for (int i = 0; i < R; ++i) l[i] = load(row[i] + j * S);
        UNROLL for (int t = 0; t < T; ++t) {
            const V p = q[2 * t], be = q[2 * t + 1];
            UNROLL for (int i = 0; i < R; ++i) {
                v[i][t] = fnma(p, l[i], v[i][t]);
                l[i] = fma(be, v[i][t], l[i]);
            }
        }
        UNROLL for (int i = 0; i < R; ++i) store(row[i] + j * S, l[i]);
    }
    UNROLL for (int i = 0; i < R; ++i) {
        UNROLL for (int t = 0; t < T; ++t) out[i][t] = v[i][t];
    }
}

// The same as a function of its own: with every register to itself, the large tile never spills.
template <int R, int T, size_t S>
APART void vaw_bulk_apart(double *const (&row)[R], size_t d, size_t r0, const double *Z, const V *q, V (&out)[R][T]) {
    vaw_bulk<R, T, S>(row, d, r0, Z, q, out);
}

// Rows r0 .. r0+R-1 of T rounds, from round t0 of the block on.
template <int R, int T, size_t S>
INLINE void vaw_tile(Block<S> &b, size_t d, size_t r0, const double *Z, const double *y, size_t t0) {
    const Unit<S> &u = b.unit;
    V *pb = b.pb + 2 * t0 * d, v[R][T];
    double *row[R];
    UNROLL for (int i = 0; i < R; ++i) row[i] = u.L + (r0 + i ? row_of(r0 + i) : 0) * S;
    if constexpr (R * T < 12)
        vaw_bulk<R, T, S>(row, d, r0, Z, pb, v);
    else
        vaw_bulk_apart<R, T, S>(row, d, r0, Z, pb, v);
    UNROLL for (int i = 0; i < R; ++i) {
        const size_t r = r0 + i;
        UNROLL for (int k = 0; k < i; ++k) {
            V l = load(row[i] + (r0 + k) * S);
            UNROLL for (int t = 0; t < T; ++t) {
                const V *w = pb + ((r0 + k) * T + t) * 2;
                v[i][t] = fnma(w[0], l, v[i][t]);
                l = fma(w[1], v[i][t], l);
            }
            store(row[i] + (r0 + k) * S, l);
        }
        V inverse = load(u.inverse + r * S), theta = load(u.theta + r * S), energy = load(u.energy + r * S);
        UNROLL for (int t = 0; t < T; ++t) {
            const bool begins = t == 0 && t0 == 0;
            const Gain<V> gain = pivot(v[i][t], all(Z[t * d + r]), all(y[t]), begins ? b.rate0 : u.rate,
                                       begins ? b.beta0 : u.beta, u.blur, inverse, theta, energy, b.carry[t0 + t]);
            pb[(r * T + t) * 2] = gain.p;
            pb[(r * T + t) * 2 + 1] = gain.be;
        }
        store(u.inverse + r * S, inverse);
        store(u.theta + r * S, theta);
        store(u.energy + r * S, energy);
    }
}

template <int R, int T, size_t S>
INLINE void vaw_rows(Block<S> &b, size_t d, size_t r0, const double *Z, const double *y, size_t n) {
    size_t t = 0;
    for (; t + T <= n; t += T) vaw_tile<R, T>(b, d, r0, Z + t * d, y + t, t);
    for (; t < n; ++t) vaw_tile<R, 1>(b, d, r0, Z + t * d, y + t, t);
}

template <int R, int T, size_t S>
APART void vaw_block(Block<S> &b, size_t d, const double *Z, const double *y, size_t n) {
    size_t r = 0;
    for (; r + R <= d; r += R) vaw_rows<R, T>(b, d, r, Z, y, n);
    for (; r < d; ++r) vaw_rows<1, T>(b, d, r, Z, y, n);
}

// Rows r0 .. r0+R-1 of one round, all of them in registers: columns before r0 from `pb`, then the panel's own.
template <int R, size_t S>
INLINE void vaw_panel(const Unit<S> &u, size_t r0, const double *z, V y, V rate, V beta, V *pb, Carry<V> &carry) {
    V v[R];
    double *row[R];
    UNROLL for (int i = 0; i < R; ++i) {
        row[i] = u.L + (r0 + i ? row_of(r0 + i) : 0) * S;
        v[i] = all(z[r0 + i]);
    }
    for (size_t j = 0; j < r0; ++j) {
        const V p = pb[2 * j], be = pb[2 * j + 1];
        UNROLL for (int i = 0; i < R; ++i) {
            const V l = load(row[i] + j * S);
            v[i] = fnma(p, l, v[i]);
            store(row[i] + j * S, fma(be, v[i], l));
        }
    }
    UNROLL for (int k = 0; k < R; ++k) {
        const size_t r = r0 + k;
        V inverse = load(u.inverse + r * S), theta = load(u.theta + r * S), energy = load(u.energy + r * S);
        const Gain<V> gain = pivot(v[k], all(z[r]), y, rate, beta, u.blur, inverse, theta, energy, carry);
        store(u.inverse + r * S, inverse);
        store(u.theta + r * S, theta);
        store(u.energy + r * S, energy);
        pb[2 * r] = gain.p;
        pb[2 * r + 1] = gain.be;
        UNROLL for (int i = k + 1; i < R; ++i) {
            const V l = load(row[i] + r * S);
            v[i] = fnma(gain.p, l, v[i]);
            store(row[i] + r * S, fma(gain.be, v[i], l));
        }
    }
}

// One round after another: while the factor is in the nearest cache, a round is best done at once.
template <size_t S> APART void vaw_rounds(Block<S> &b, size_t d, const double *Z, const double *y, size_t n) {
    for (size_t t = 0; t < n; ++t) {
        const double *z = Z + t * d;
        const V label = all(y[t]), rate = t ? b.unit.rate : b.rate0, beta = t ? b.unit.beta : b.beta0;
        Carry<V> c = b.carry[t];
        size_t r = 0;
        for (; r + 8 <= d; r += 8) vaw_panel<8>(b.unit, r, z, label, rate, beta, b.pb, c);
        if (r + 4 <= d) {
            vaw_panel<4>(b.unit, r, z, label, rate, beta, b.pb, c);
            r += 4;
        }
        for (; r < d; ++r) vaw_panel<1>(b.unit, r, z, label, rate, beta, b.pb, c);
        b.carry[t] = c;
    }
}

constexpr size_t BROAD = 28, WIDE = 48; // features from which on several rounds at a time, and large tiles, pay

// All rounds of a unit.
template <size_t S> static void vaw_unit(const Run &run, Block<S> &b) {
    const size_t d = run.dim;
    const Unit<S> &u = b.unit;
    for (size_t t = 0, n; t < run.rounds; t += n) {
        const int64_t closed = run.first + (int64_t)t;
        n = stretch(u.hasty, closed, run.rounds - t);
        const bool floored = floors(u, closed);
        if (floored) forget_in_place(u, closed, d);
        b.rate0 = floored ? all(1.0) : u.rate;
        b.beta0 = floored ? all(1.0) : u.beta;
        for (size_t k = 0; k < n; ++k) b.carry[k] = Carry<V>{all(0.0), all(1.0), all(0.0)};
        if (d >= WIDE && n >= 4)
            vaw_block<3, 4>(b, d, run.Z + t * d, run.y + t, n);
        else if (d >= BROAD)
            vaw_block<4, 2>(b, d, run.Z + t * d, run.y + t, n);
        else
            vaw_rounds(b, d, run.Z + t * d, run.y + t, n);
        M lost = load(u.lost) != all(0.0);
        for (size_t k = 0; k < n; ++k) {
            V m = b.carry[k].part, h = b.carry[k].h;
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
