// Squared loss, several rounds at a time, for factors L that do not fit into the nearest cache. The update of row r needs
// p_j and gain_j of the columns j < r only, so all rounds of a block are applied while a panel of rows is in cache (a
// wavefront): first the columns before the panel, in tiles of rows, rounds and columns that fill the registers; then the
// panel's own columns and pivots. Every number goes through the same operations in the same order as in vaw_rounds.h, so
// the two agree in bits.
#pragma once
#include "vaw_pivot.h"

namespace {

constexpr int PANEL = 6;                        // rows
constexpr int ROWS = REGISTERS >= 32 ? 6 : 3;   // of a tile: ROWS * ROUNDS + ROWS + 1 vectors are in use at a time
constexpr int ROUNDS = 4;
constexpr size_t COLUMNS = 160 / W;             // of a tile, so that its elements of L are in cache for all rounds
static_assert(PANEL <= MAX_PANEL_ROWS && PANEL % ROWS == 0, "a panel is whole tiles of rows");

// Where the pair (p, gain) of feature j of round t lies: at[step * j] and the number after it. Tiles of ROUNDS rounds lie
// one after the other, each [feature][round][2]; rounds that fill no tile are tiles of one round.
struct GainPairs {
    V *at;
    size_t step;
    template <size_t S> GainPairs(const Block<S> &b, size_t t) {
        const bool whole = t < b.n / ROUNDS * ROUNDS;
        const size_t first = whole ? t / ROUNDS * ROUNDS : t;
        at = b.p_gain + 2 * (first * b.d + (t - first));
        step = whole ? 2 * ROUNDS : 2;
    }
};

// Columns begin .. end-1 of R rows in T rounds. Z points to these rows' features in the first of the rounds.
template <int R, int T, size_t S>
APART void vaw_tile(double *const *row, size_t begin, size_t end, const V *p_gain, const double *Z, size_t d,
                    V *remainder) {
    V v[R][T];
    double *at[R];
    UNROLL for (int i = 0; i < R; ++i) {
        at[i] = row[i];
        UNROLL for (int t = 0; t < T; ++t) v[i][t] = begin ? remainder[t * MAX_PANEL_ROWS + i] : all(Z[t * d + i]);
    }
    p_gain += 2 * T * begin;
    for (size_t j = begin; j < end; ++j, p_gain += 2 * T) {
        V l[R];
        UNROLL for (int i = 0; i < R; ++i) l[i] = load(at[i] + j * S);
        UNROLL for (int t = 0; t < T; ++t) {
            const V p = p_gain[2 * t], gain = p_gain[2 * t + 1];
            UNROLL for (int i = 0; i < R; ++i) {
                v[i][t] = fnma(p, l[i], v[i][t]);
                l[i] = fma(gain, v[i][t], l[i]);
            }
        }
        UNROLL for (int i = 0; i < R; ++i) store(at[i] + j * S, l[i]);
    }
    UNROLL for (int i = 0; i < R; ++i) {
        UNROLL for (int t = 0; t < T; ++t) remainder[t * MAX_PANEL_ROWS + i] = v[i][t];
    }
}

// The same in rounds t0 .. t0+T-1 with some columns in the convex form: tiles between these columns, and them one by one.
template <int R, int T, size_t S>
APART void vaw_convex_tile(const Block<S> &b, double *const *row, size_t begin, size_t end, size_t t0, const V *p_gain,
                          const double *Z, V *remainder) {
    constexpr unsigned all_rounds = (1u << T) - 1;
    for (size_t j = begin; j < end; ++j) {
        size_t next = j;
        while (next < end && !(b.convex[next] >> t0 & all_rounds)) ++next;
        vaw_tile<R, T, S>(row, j, next, p_gain, Z, b.d, remainder);
        j = next;
        for (int i = 0; i < R && j < end; ++i) {
            V l = load(row[i] + j * S);
            for (int t = 0; t < T; ++t) {
                const V *pair = p_gain + (j * T + t) * 2;
                const V keep = b.is_convex(j, t0 + t) ? b.keep[j * FLOOR_PERIOD + t0 + t] : all(1.0);
                update_element(pair[0], pair[1], keep, l, remainder[t * MAX_PANEL_ROWS + i]);
            }
            store(row[i] + j * S, l);
        }
    }
}

template <int T, size_t S>
INLINE void vaw_tiles(Block<S> &b, size_t r, double *const *row, size_t begin, size_t end, size_t t0) {
    const V *p_gain = b.p_gain + 2 * t0 * b.d;
    for (int i = 0; i < PANEL; i += ROWS) {
        const double *Z = b.Z + t0 * b.d + r + i;
        V *remainder = b.remainder[t0] + i;
        if (RARELY(b.convex_rounds >> t0 & ((1u << T) - 1)))
            vaw_convex_tile<ROWS, T>(b, row + i, begin, end, t0, p_gain, Z, remainder);
        else
            vaw_tile<ROWS, T, S>(row + i, begin, end, p_gain, Z, b.d, remainder);
    }
}

// The panel's own columns and its R pivots, in all rounds. Features that need care are rare, and a branch at every pivot
// is slow. Without CARE there is no branch; if some feature needed care after all, nothing is stored, and false returned.
template <int R, bool CARE, size_t S> APART bool vaw_pivots(Block<S> &b, size_t r0) {
    const Unit<S> &u = b.unit;
    V inverse[R], theta[R], energy[R], L[R][R]; // L: [column][row]
    V energy_ratio = all(0.0), keep = all(1.0); // the largest and the smallest there were
    RunningSums<V> sums[FLOOR_PERIOD];
    UNROLL for (int i = 0; i < R; ++i) {
        const size_t r = r0 + i;
        inverse[i] = load(u.inverse + r * S);
        theta[i] = load(u.theta + r * S);
        energy[i] = load(u.energy + r * S);
        energy_ratio = larger(inverse[i] * energy[i], energy_ratio);
        UNROLL for (int k = 0; k < i; ++k) L[k][i] = load(b.row(r) + (r0 + k) * S);
    }
    if (!CARE && any_less(all(COLLINEAR), energy_ratio)) return false;
    for (size_t t = 0; t < b.n; ++t) {
        const double *z = b.Z + t * b.d + r0;
        const GainPairs pairs(b, t);
        V *p_gain = pairs.at + r0 * pairs.step, v[R];
        const V y = all(b.y[t]), inverse_beta = b.inverse_beta(t), beta = b.beta(t);
        RunningSums<V> c = b.sums[t];
        UNROLL for (int i = 0; i < R; ++i) v[i] = b.remainder[t][i];
        UNROLL for (int i = 0; i < R; ++i) {
            Pivot<V> f(v[i], inverse_beta, beta, inverse[i], energy[i], c);
            const bool convex = CARE && f.take_care(u.rounding, c);
            const PivotUpdate<V> next = update_pivot<CARE>(f, all(z[i]), y, theta[i], c);
            if (!CARE) {
                energy_ratio = larger(f.energy_ratio(), energy_ratio);
                keep = smaller(next.keep, keep);
            }
            inverse[i] = next.inverse;
            theta[i] = next.theta;
            energy[i] = next.energy;
            p_gain[i * pairs.step] = f.p;
            p_gain[i * pairs.step + 1] = next.gain;
            if (CARE && RARELY(convex)) {
                b.mark_convex(r0 + i, t, next.keep);
                UNROLL for (int o = i + 1; o < R; ++o) update_element(f.p, next.gain, next.keep, L[i][o], v[o]);
            } else {
                UNROLL for (int o = i + 1; o < R; ++o) {
                    v[o] = fnma(f.p, L[i][o], v[o]);
                    L[i][o] = fma(next.gain, v[o], L[i][o]);
                }
            }
        }
        sums[t] = c;
    }
    const V least_keep = all(1.0001 * CONVEX_SHARE); // keep is rounded
    if (!CARE && RARELY(any_less(all(COLLINEAR), energy_ratio, keep, least_keep))) return false;
    UNROLL for (int i = 0; i < R; ++i) {
        store_pivot(u, r0 + i, PivotUpdate<V>{V{}, V{}, inverse[i], theta[i], energy[i]});
        UNROLL for (int k = 0; k < i; ++k) store(b.row(r0 + i) + (r0 + k) * S, L[k][i]);
    }
    for (size_t t = 0; t < b.n; ++t) b.sums[t] = sums[t];
    return true;
}

template <int R, size_t S> INLINE void vaw_panel_pivots(Block<S> &b, size_t r0, size_t rows) {
    if (rows == (size_t)R) {
        if (!vaw_pivots<R, false>(b, r0)) vaw_pivots<R, true>(b, r0);
    } else if constexpr (R > 1) {
        vaw_panel_pivots<R - 1>(b, r0, rows);
    }
}

template <size_t S> APART void vaw_wave(Block<S> &b) {
    const size_t d = b.d, tiled = b.n / ROUNDS * ROUNDS;
    for (size_t t = 0; t < b.n; ++t) b.sums[t] = zero_sums(all(0.0));
    size_t rows = d % PANEL ? d % PANEL : PANEL; // the first panel has no columns before it, and may have fewer rows
    for (size_t r = 0; r < d; r += rows, rows = PANEL) {
        double *row[PANEL];
        for (size_t i = 0; i < rows; ++i) row[i] = b.row(r + i);
        for (size_t t = 0; t < b.n && r == 0; ++t)
            for (size_t i = 0; i < rows; ++i) b.remainder[t][i] = all(b.Z[t * d + i]);
        const size_t parts = (r + COLUMNS - 1) / COLUMNS;
        for (size_t k = 0; k < parts; ++k) {
            const size_t begin = r * k / parts, end = r * (k + 1) / parts;
            size_t t = 0;
            for (; t < tiled; t += ROUNDS) vaw_tiles<ROUNDS>(b, r, row, begin, end, t);
            for (; t < b.n; ++t) vaw_tiles<1>(b, r, row, begin, end, t);
        }
        vaw_panel_pivots<PANEL>(b, r, rows);
    }
}

} // namespace
