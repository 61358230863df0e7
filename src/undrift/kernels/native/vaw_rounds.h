// Squared loss, one round after another, for factors L that fit into the nearest cache. A panel has as many rows as their
// v find room in registers. p_gain is [feature][2], of the round at hand.
#pragma once
#include "vaw_pivot.h"

namespace {

// Pivots from .. count-1 of the panel at row r0 in round t, and the panel's own columns, with any feature collinear or in
// the convex form. b.remainder[t] holds v of the panel's rows.
template <size_t S> static void vaw_panel_with_care(Block<S> &b, size_t t, size_t r0, size_t from, size_t count) {
    const Unit<S> &u = b.unit;
    const double *z = b.Z + t * b.d;
    V *v = b.remainder[t];
    RunningSums<V> &c = b.sums[t];
    for (size_t i = from; i < count; ++i) {
        const size_t r = r0 + i;
        Pivot<V> f(v[i], b.inverse_beta(t), b.beta(t), load(u.inverse + r * S), load(u.energy + r * S), c);
        const bool convex = f.take_care(u.rounding, c);
        const PivotUpdate<V> next = update_pivot<true>(f, all(z[r]), all(b.y[t]), load(u.theta + r * S), c);
        if (convex) b.mark_convex(r, t, next.keep);
        store_pivot(u, r, next);
        b.p_gain[2 * r] = f.p;
        b.p_gain[2 * r + 1] = next.gain;
        for (size_t o = i + 1; o < count; ++o) {
            double *at = b.row(r0 + o) + r * S;
            V l = load(at);
            update_element(f.p, next.gain, next.keep, l, v[o]);
            store(at, l);
        }
    }
}

// The rest of round t, from pivot `from` of the panel at row r0 on, after a feature that needs care.
template <size_t S> APART void vaw_rest_with_care(Block<S> &b, size_t t, size_t r0, size_t from, size_t count) {
    vaw_panel_with_care(b, t, r0, from, count);
    for (r0 += count; r0 < b.d; r0 += count) {
        count = b.d - r0 < (size_t)MAX_PANEL_ROWS ? b.d - r0 : (size_t)MAX_PANEL_ROWS;
        for (size_t i = 0; i < count; ++i) {
            V v = all(b.Z[t * b.d + r0 + i]);
            double *at = b.row(r0 + i);
            for (size_t j = 0; j < r0; ++j, at += S) {
                const V p = b.p_gain[2 * j], gain = b.p_gain[2 * j + 1];
                V l = load(at);
                if (b.is_convex(j, t)) {
                    update_element(p, gain, b.keep[j * FLOOR_PERIOD + t], l, v);
                } else {
                    v = fnma(p, l, v);
                    l = fma(gain, v, l);
                }
                store(at, l);
            }
            b.remainder[t][i] = v;
        }
        vaw_panel_with_care(b, t, r0, 0, count);
    }
}

// The panel of rows r0 .. r0+R-1 in round t: the columns before r0, then its own. Returns false if a feature needed care
// and the whole rest of the round was done that way.
template <int R, size_t S>
INLINE bool vaw_panel(Block<S> &b, size_t t, size_t r0, V y, V inverse_beta, V beta, RunningSums<V> &c) {
    const Unit<S> &u = b.unit;
    const double *z = b.Z + t * b.d;
    V *p_gain = b.p_gain, v[R];
    double *row[R];
    UNROLL for (int i = 0; i < R; ++i) {
        row[i] = b.row(r0 + i);
        v[i] = all(z[r0 + i]);
    }
    for (size_t j = 0; j < r0; ++j) {
        const V p = p_gain[2 * j], gain = p_gain[2 * j + 1];
        UNROLL for (int i = 0; i < R; ++i) {
            const V l = load(row[i] + j * S);
            v[i] = fnma(p, l, v[i]);
            store(row[i] + j * S, fma(gain, v[i], l));
        }
    }
    UNROLL for (int k = 0; k < R; ++k) {
        const size_t r = r0 + k;
        const Pivot<V> f(v[k], inverse_beta, beta, load(u.inverse + r * S), load(u.energy + r * S), c);
        if (RARELY(f.needs_care(c))) {
            UNROLL for (int i = k; i < R; ++i) b.remainder[t][i] = v[i];
            b.sums[t] = c;
            vaw_rest_with_care(b, t, r0, k, R);
            return false;
        }
        const PivotUpdate<V> next = update_pivot<false>(f, all(z[r]), y, load(u.theta + r * S), c);
        store_pivot(u, r, next);
        p_gain[2 * r] = f.p;
        p_gain[2 * r + 1] = next.gain;
        UNROLL for (int i = k + 1; i < R; ++i) {
            const V l = load(row[i] + r * S);
            v[i] = fnma(f.p, l, v[i]);
            store(row[i] + r * S, fma(next.gain, v[i], l));
        }
    }
    return true;
}

template <size_t S> INLINE bool vaw_round(Block<S> &b, size_t t, RunningSums<V> &c) {
    const V y = all(b.y[t]), inverse_beta = b.inverse_beta(t), beta = b.beta(t);
    size_t r = 0;
    for (; r + 8 <= b.d; r += 8)
        if (!vaw_panel<8>(b, t, r, y, inverse_beta, beta, c)) return false;
    if (r + 4 <= b.d) {
        if (!vaw_panel<4>(b, t, r, y, inverse_beta, beta, c)) return false;
        r += 4;
    }
    for (; r < b.d; ++r)
        if (!vaw_panel<1>(b, t, r, y, inverse_beta, beta, c)) return false;
    return true;
}

template <size_t S> APART void vaw_rounds(Block<S> &b) {
    for (size_t t = 0; t < b.n; ++t) {
        RunningSums<V> c = zero_sums(all(0.0));
        if (vaw_round(b, t, c)) b.sums[t] = c;
    }
}

} // namespace
