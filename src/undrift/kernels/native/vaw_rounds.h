// One round after another: while a factor is in the nearest cache, a round is best done at once. Panels of rows are
// taken so far as all their v stay in registers; pb is [feature][2], of the round at hand.
#pragma once
#include "vaw_pivot.h"

namespace {

// Pivots from .. count-1 of the panel at r0 in round t, and the panel's own columns. b.left holds the features.
template <size_t S> static void vaw_panel_with_care(Block<S> &b, size_t t, size_t r0, size_t from, size_t count) {
    const Unit<S> &u = b.unit;
    const double *z = b.Z + t * b.d;
    V *v = b.left[t];
    Carry<V> &c = b.carry[t];
    for (size_t i = from; i < count; ++i) {
        const size_t r = r0 + i;
        Pivot<V> f(v[i], b.rate(t), b.beta(t), load(u.inverse + r * S), load(u.energy + r * S), c);
        const bool steep = f.take_care(u.blur, c);
        const Gain<V> next = learn<true>(f, all(z[r]), all(b.y[t]), load(u.theta + r * S), c);
        if (steep) b.note_steep(r, t, next.keep);
        store_pivot(u, r, next);
        b.pb[2 * r] = f.p;
        b.pb[2 * r + 1] = next.be;
        for (size_t o = i + 1; o < count; ++o) {
            double *at = b.row(r0 + o) + r * S;
            V l = load(at);
            learn_element(f.p, next.be, next.keep, l, v[o]);
            store(at, l);
        }
    }
}

// The rest of round t, from pivot `from` of the panel at r0 on: some feature is faint or steep.
template <size_t S> APART void vaw_rest_with_care(Block<S> &b, size_t t, size_t r0, size_t from, size_t count) {
    vaw_panel_with_care(b, t, r0, from, count);
    for (r0 += count; r0 < b.d; r0 += count) {
        count = b.d - r0 < (size_t)BREADTH ? b.d - r0 : (size_t)BREADTH;
        for (size_t i = 0; i < count; ++i) {
            V v = all(b.Z[t * b.d + r0 + i]);
            double *at = b.row(r0 + i);
            for (size_t j = 0; j < r0; ++j, at += S) {
                const V p = b.pb[2 * j], be = b.pb[2 * j + 1];
                V l = load(at);
                if (b.is_steep(j, t)) {
                    learn_element(p, be, b.keep[j * FLOOR_PERIOD + t], l, v);
                } else {
                    v = fnma(p, l, v);
                    l = fma(be, v, l);
                }
                store(at, l);
            }
            b.left[t][i] = v;
        }
        vaw_panel_with_care(b, t, r0, 0, count);
    }
}

// Rows r0 .. r0+R-1 of round t: the columns before r0, then the panel's own. False if the round was finished with care.
template <int R, size_t S> INLINE bool vaw_panel(Block<S> &b, size_t t, size_t r0, V y, V rate, V beta, Carry<V> &c) {
    const Unit<S> &u = b.unit;
    const double *z = b.Z + t * b.d;
    V *pb = b.pb, v[R];
    double *row[R];
    UNROLL for (int i = 0; i < R; ++i) {
        row[i] = b.row(r0 + i);
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
        const Pivot<V> f(v[k], rate, beta, load(u.inverse + r * S), load(u.energy + r * S), c);
        if (RARELY(f.needs_care(c))) {
            UNROLL for (int i = k; i < R; ++i) b.left[t][i] = v[i];
            b.carry[t] = c;
            vaw_rest_with_care(b, t, r0, k, R);
            return false;
        }
        const Gain<V> next = learn<false>(f, all(z[r]), y, load(u.theta + r * S), c);
        store_pivot(u, r, next);
        pb[2 * r] = f.p;
        pb[2 * r + 1] = next.be;
        UNROLL for (int i = k + 1; i < R; ++i) {
            const V l = load(row[i] + r * S);
            v[i] = fnma(f.p, l, v[i]);
            store(row[i] + r * S, fma(next.be, v[i], l));
        }
    }
    return true;
}

template <size_t S> INLINE bool vaw_round(Block<S> &b, size_t t, Carry<V> &c) {
    const V y = all(b.y[t]), rate = b.rate(t), beta = b.beta(t);
    size_t r = 0;
    for (; r + 8 <= b.d; r += 8)
        if (!vaw_panel<8>(b, t, r, y, rate, beta, c)) return false;
    if (r + 4 <= b.d) {
        if (!vaw_panel<4>(b, t, r, y, rate, beta, c)) return false;
        r += 4;
    }
    for (; r < b.d; ++r)
        if (!vaw_panel<1>(b, t, r, y, rate, beta, c)) return false;
    return true;
}

template <size_t S> APART void vaw_rounds(Block<S> &b) {
    for (size_t t = 0; t < b.n; ++t) {
        Carry<V> c = no_features(all(0.0));
        if (vaw_round(b, t, c)) b.carry[t] = c;
    }
}

} // namespace
