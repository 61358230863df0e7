// Squared loss, W learners in lanes. The factor's update does not depend on the label, so predicting and learning are
// one pass: with p = L^-1 z and the gain be_j = p_j / (beta D_j s_j), every element of L sees v -= p_j L; L += be_j v.
// Row r needs p_j and be_j of j < r only, so several rounds are applied while a row is at hand (a wavefront), and
// several rows at a time. Neither changes what happens to a number, nor in which order: all tile shapes agree in bits.
#pragma once
#include "unit.h"

namespace {

constexpr int ROWS = 16; // rows times rounds of a tile, at most

template <class X> struct Carry { // what a round hands from feature to feature
    X h, s, part;
};

template <class X> struct Pivot { // feature j of a round, up to its leverage: p is what is left of it
    X p, now, energy, g, h, s;
    bool steep; // some lane is

    INLINE_MEMBER Pivot(X left, X rate, X beta, X blur, X inverse, X before, const Carry<X> &c) {
        p = left;
        now = inverse * rate;
        energy = beta * before;
        lever(c);
        steep = false;
        const auto faint = is_faint(now, energy);
        if (RARELY(any(faint | is_steep(c.s, s)))) { // one branch for both: most features are neither
            p = news(faint, p, energy, c.h, blur);
            lever(c);
            steep = any(is_steep(c.s, s));
        }
    }
    INLINE_MEMBER void lever(const Carry<X> &c) {
        g = p * now;
        h = fma(g, p, c.h);
        s = h + 1.0;
    }
};

template <class X> struct Gain {
    X be, keep, inverse, theta, energy;
};

// Everything else about j. Where it is steep, theta counts only if that was `foreseen`.
template <bool FORESEEN, class X> INLINE Gain<X> learn(const Pivot<X> &f, X z, X y, X theta, Carry<X> &c) {
    const X rs = 1.0 / f.s, gain = f.g * rs, keep = c.s * rs, before = c.part;
    const auto steep = is_steep(c.s, f.s);
    c = {f.h, f.s, fma(f.p, theta, before)};
    X next = fma(gain, y - c.part, theta);
    if (FORESEEN) next = select(steep, fma(keep, theta, gain * (y - before)), next);
    return {gain, FORESEEN ? select(steep, keep, like(keep, 1.0)) : keep, f.now * keep, next, fma(z, z, f.energy)};
}

// One unit's block of at most PERIOD rounds. Tiles of T rounds begin at round t0; their numbers begin at place t0 d.
template <size_t S> struct Block {
    Unit<S> unit;
    size_t d;
    const double *Z, *y;
    V *pb; // (p, be), in each tile [feature][round][2]
    Carry<V> carry[PERIOD];
    V rate0, beta0; // forgetting in the block's first round: 1 where `forget` has done it
    // The columns of a tile in which some lane is steep, in ascending order, and their keep, [column][round]: rare, and
    // left to code of its own, which finds in `rest` what a tile had left of its features when it came upon one.
    size_t steep[PERIOD], *columns;
    V *keep, rest[ROWS];
};

template <size_t S> INLINE void store_pivot(const Unit<S> &u, size_t r, V inverse, V theta, V energy) {
    store(u.inverse + r * S, inverse);
    store(u.theta + r * S, theta);
    store(u.energy + r * S, energy);
}

template <size_t S> INLINE double *row_at(const Unit<S> &u, size_t r) { return u.L + (r ? row_of(r) : 0) * S; }

// Columns begin .. end-1 of R rows, T rounds, where nobody is steep.
template <int R, int T, size_t S>
INLINE void vaw_columns(double *const (&row)[R], size_t begin, size_t end, const V *q, V (&v)[R][T]) {
    q += 2 * T * begin;
    for (size_t j = begin; j < end; ++j, q += 2 * T) {
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
}

// Column j of one row, T rounds, steep or not.
template <int T> INLINE void vaw_column(double *at, const V *q, const V *keep, V (&v)[T]) {
    V l = load(at);
    for (int t = 0; t < T; ++t) learn_element(q[2 * t], q[2 * t + 1], keep[t], l, v[t]);
    store(at, l);
}

// The rest of a tile of rows r0 .. r0+count-1 from its pivot (i0, t1) on, steep or not; rows below i0 have seen the
// columns before `seen`.
template <int T, size_t S>
APART void vaw_rest(Block<S> &b, size_t r0, size_t count, size_t i0, int t1, size_t seen, size_t t0, V *pb) {
    const Unit<S> &u = b.unit;
    const double *Z = b.Z + t0 * b.d, *y = b.y + t0;
    V keep[ROWS], (*v)[T] = (V(*)[T])b.rest;
    for (size_t k = 0; k < count * T; ++k) keep[k] = all(1.0);
    for (size_t i = i0; i < count; ++i, t1 = 0) {
        const size_t r = r0 + i;
        for (size_t j = seen; i > i0 && j < r; ++j)
            vaw_column<T>(row_at(u, r) + j * S, pb + 2 * T * j, keep + (j - r0) * T, v[i]);
        M steep = all(0.0) != all(0.0);
        for (int t = t1; t < T; ++t) {
            const bool begins = t0 + t == 0;
            Carry<V> &c = b.carry[t0 + t];
            const Pivot<V> p(v[i][t], begins ? b.rate0 : u.rate, begins ? b.beta0 : u.beta, u.blur,
                                    load(u.inverse + r * S), load(u.energy + r * S), c);
            steep = steep | is_steep(c.s, p.s);
            const Gain<V> next = learn<true>(p, all(Z[t * b.d + r]), all(y[t]), load(u.theta + r * S), c);
            store_pivot(u, r, next.inverse, next.theta, next.energy);
            pb[(r * T + t) * 2] = p.p;
            pb[(r * T + t) * 2 + 1] = next.be;
            keep[i * T + t] = next.keep;
        }
        if (!any(steep)) continue;
        const size_t k = b.steep[t0]++;
        b.columns[t0 * b.d + k] = r;
        for (int t = 0; t < T; ++t) b.keep[t0 * b.d + k * T + t] = keep[i * T + t];
    }
}

// A tile of rounds that were steep in an earlier column.
template <int R, int T, size_t S> APART void vaw_late(Block<S> &b, size_t r0, size_t t0, V *pb) {
    const double *Z = b.Z + t0 * b.d;
    const size_t *column = b.columns + t0 * b.d, count = b.steep[t0];
    V v[R][T];
    double *row[R];
    for (int i = 0; i < R; ++i) {
        row[i] = row_at(b.unit, r0 + i);
        for (int t = 0; t < T; ++t) v[i][t] = all(Z[t * b.d + r0 + i]);
    }
    vaw_columns<R, T, S>(row, 0, column[0], pb, v);
    for (size_t k = 0; k < count; ++k) {
        const size_t j = column[k];
        for (int i = 0; i < R; ++i) vaw_column<T>(row[i] + j * S, pb + 2 * T * j, b.keep + t0 * b.d + k * T, v[i]);
        vaw_columns<R, T, S>(row, j + 1, k + 1 < count ? column[k + 1] : r0, pb, v);
    }
    memcpy(b.rest, v, sizeof v);
    vaw_rest<T>(b, r0, R, 0, 0, r0, t0, pb);
}

// Rows r0 .. r0+R-1 of T rounds, up to column r0.
template <int R, int T, size_t S>
INLINE void vaw_bulk(double *const (&row)[R], size_t d, size_t r0, const double *Z, const V *q, V (&out)[R][T]) {
    V v[R][T];
    UNROLL for (int i = 0; i < R; ++i) {
        UNROLL for (int t = 0; t < T; ++t) v[i][t] = all(Z[t * d + r0 + i]);
    }
    vaw_columns<R, T, S>(row, 0, r0, q, v);
    UNROLL for (int i = 0; i < R; ++i) {
        UNROLL for (int t = 0; t < T; ++t) out[i][t] = v[i][t];
    }
}

// The same as a function of its own: with every register to itself, the large tile never spills.
template <int R, int T, size_t S>
APART void vaw_bulk_apart(double *const (&row)[R], size_t d, size_t r0, const double *Z, const V *q, V (&out)[R][T]) {
    vaw_bulk<R, T, S>(row, d, r0, Z, q, out);
}

// Copy v from place `from` on. No loop: the compiler would make it one copy of memory, and v would have to lie there.
template <int K = 0, int R, int T> INLINE void put_away(V *to, const V (&v)[R][T], int from) {
    if (K >= from) to[K] = v[K / T][K % T];
    if constexpr (K + 1 < R * T) put_away<K + 1>(to, v, from);
}

// Rows r0 .. r0+R-1 of T rounds, from round t0 of the block on. Returns R T, or the pivot (i, t) at i T + t that is steep,
// with nothing done from there on. (There is no call in here: numbers alive across one would leave their registers.)
template <int R, int T, size_t S> INLINE int vaw_tile(Block<S> &b, size_t r0, size_t t0, V *pb) {
    const Unit<S> &u = b.unit;
    const size_t d = b.d;
    const double *Z = b.Z + t0 * d, *y = b.y + t0;
    V v[R][T];
    double *row[R];
    UNROLL for (int i = 0; i < R; ++i) row[i] = row_at(u, r0 + i);
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
            Carry<V> &c = b.carry[t0 + t];
            const Pivot<V> p(v[i][t], begins ? b.rate0 : u.rate, begins ? b.beta0 : u.beta, u.blur, inverse, energy, c);
            if (RARELY(p.steep)) {
                store_pivot(u, r, inverse, theta, energy);
                put_away(b.rest, v, i * T + t);
                return i * T + t;
            }
            const Gain<V> next = learn<false>(p, all(Z[t * d + r]), all(y[t]), theta, c);
            inverse = next.inverse;
            theta = next.theta;
            energy = next.energy;
            pb[(r * T + t) * 2] = p.p;
            pb[(r * T + t) * 2 + 1] = next.be;
        }
        store_pivot(u, r, inverse, theta, energy);
    }
    return R * T;
}

template <int R, int T, size_t S> INLINE void vaw_rows(Block<S> &b, size_t r0, size_t t0) {
    V *pb = b.pb + 2 * t0 * b.d;
    if (RARELY(b.steep[t0] != 0)) return vaw_late<R, T>(b, r0, t0, pb);
    const int at = vaw_tile<R, T>(b, r0, t0, pb);
    if (RARELY(at < R * T)) vaw_rest<T>(b, r0, R, at / T, at % T, r0, t0, pb);
}

template <int R, int T, size_t S> INLINE void vaw_wave(Block<S> &b, size_t r0, size_t n) {
    size_t t = 0;
    for (; t + T <= n; t += T) vaw_rows<R, T>(b, r0, t);
    for (; t < n; ++t) vaw_rows<R, 1>(b, r0, t);
}

template <int R, int T, size_t S> APART void vaw_block(Block<S> &b, size_t n) {
    size_t r = 0;
    for (; r + R <= b.d; r += R) vaw_wave<R, T>(b, r, n);
    for (; r < b.d; ++r) vaw_wave<1, T>(b, r, n);
}

// Rows r0 .. r0+R-1 of one round, all of them in registers: columns before r0 from `pb`, then the panel's own. Returns R,
// or the row of the first steep pivot, as `vaw_tile` does.
template <int R, size_t S>
INLINE size_t vaw_panel(Block<S> &b, size_t r0, const double *z, V y, V rate, V beta, Carry<V> &carry) {
    const Unit<S> &u = b.unit;
    V v[R][1];
    double *row[R];
    UNROLL for (int i = 0; i < R; ++i) {
        row[i] = row_at(u, r0 + i);
        v[i][0] = all(z[r0 + i]);
    }
    for (size_t j = 0; j < r0; ++j) {
        const V p = b.pb[2 * j], be = b.pb[2 * j + 1];
        UNROLL for (int i = 0; i < R; ++i) {
            const V l = load(row[i] + j * S);
            v[i][0] = fnma(p, l, v[i][0]);
            store(row[i] + j * S, fma(be, v[i][0], l));
        }
    }
    UNROLL for (int k = 0; k < R; ++k) {
        const size_t r = r0 + k;
        const Pivot<V> p(v[k][0], rate, beta, u.blur, load(u.inverse + r * S), load(u.energy + r * S), carry);
        if (RARELY(p.steep)) {
            put_away(b.rest, v, k);
            return k;
        }
        const Gain<V> next = learn<false>(p, all(z[r]), y, load(u.theta + r * S), carry);
        store_pivot(u, r, next.inverse, next.theta, next.energy);
        b.pb[2 * r] = p.p;
        b.pb[2 * r + 1] = next.be;
        UNROLL for (int i = k + 1; i < R; ++i) {
            const V l = load(row[i] + r * S);
            v[i][0] = fnma(p.p, l, v[i][0]);
            store(row[i] + r * S, fma(next.be, v[i][0], l));
        }
    }
    return R;
}

struct Place { // a panel of `count` rows from r on, and the row in it that is steep
    size_t r, count, at;
};

// Rounds t .. n-1 up to the first one that is steep somewhere, which is returned.
template <size_t S> APART size_t vaw_smooth(Block<S> &b, size_t t, size_t n, Place &place) {
    const size_t d = b.d;
    for (; t < n; ++t) {
        const double *z = b.Z + t * d;
        const V label = all(b.y[t]), rate = t ? b.unit.rate : b.rate0, beta = t ? b.unit.beta : b.beta0;
        Carry<V> c = b.carry[t];
        size_t r = 0, count = 0, at = 0;
        for (; r + 8 <= d && at == count; r += count) at = vaw_panel<8>(b, r, z, label, rate, beta, c), count = 8;
        if (r + 4 <= d && at == count) at = vaw_panel<4>(b, r, z, label, rate, beta, c), r += count = 4;
        for (; r < d && at == count; r += count) at = vaw_panel<1>(b, r, z, label, rate, beta, c), count = 1;
        b.carry[t] = c;
        if (RARELY(at < count)) {
            place = {r - count, count, at};
            break;
        }
    }
    return t;
}

// One round after another: while the factor is in the nearest cache, a round is best done at once.
template <size_t S> static void vaw_rounds(Block<S> &b, size_t n) {
    Place p;
    for (size_t t = 0; (t = vaw_smooth(b, t, n, p)) < n; ++t) {
        vaw_rest<1>(b, p.r, p.count, p.at, 0, p.r + p.at, t, b.pb);
        for (size_t r = p.r + p.count; r < b.d; ++r) vaw_late<1, 1>(b, r, t, b.pb);
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
        b.Z = run.Z + t * d;
        b.y = run.y + t;
        for (size_t k = 0; k < n; ++k) {
            b.carry[k] = Carry<V>{all(0.0), all(1.0), all(0.0)};
            b.steep[k] = 0;
        }
        if (d >= WIDE && n >= 4)
            vaw_block<3, 4>(b, n);
        else if (d >= BROAD)
            vaw_block<4, 2>(b, n);
        else
            vaw_rounds(b, n);
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
