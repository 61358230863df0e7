// The Adam loops at one instruction-set level: compiled once per level with its own flags and its number as UNDRIFT_LEVEL
// (see vec.h). `omp simd` (no threads) lets the compiler split the named sums over lanes, and nothing else out of order.
#include "adam.h"

#include <cmath>
#include <initializer_list>
#include <string.h>

namespace {
using namespace undrift;

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float out;
    memcpy(&out, &bits, 4);
    return out;
}
inline void narrow(float x, float &out) { out = x; }
inline void narrow(double x, double &out) { out = x; }
inline void narrow(float x, uint16_t &out) { // to nearest, ties to even; a NaN stays one
    uint32_t bits;
    memcpy(&bits, &x, 4);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    out = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

// Sums of squares are taken in the type of the state over BLOCK numbers, then in double precision: as accurate as the
// numbers themselves and twice as fast. Where that overflows or loses digits the block is summed again.
constexpr size_t BLOCK = 512;
template <class S> constexpr double HIGH = sizeof(S) == 4 ? 1e37 : 1e300; // a block's sum below this is no overflow,
template <class S> constexpr double LOW = sizeof(S) == 4 ? 1e-28 : 1e-280; // and above this all that counts is in it

#if UNDRIFT_LEVEL == 1 || UNDRIFT_LEVEL >= 3
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
inline float fused(float a, float b, float c) { return a * b + c; }
inline double fused(double a, double b, double c) { return a * b + c; }
#endif

// sum + x^2. Clang splits a sum over lanes only where it is a plain addition.
#if defined(__clang__)
template <class S> inline S add_square(S x, S sum) { return sum + x * x; }
#else
template <class S> inline S add_square(S x, S sum) { return fused(x, x, sum); }
#endif

template <class S> double exact_square(const S *x, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; ++i) sum += (double)x[i] * (double)x[i];
    return sum;
}

// What one number adds to the two sums.
template <class P, class S, bool L2, bool WITH_M> struct Look {
    const P *__restrict p, *__restrict g;
    const S *__restrict m;
    S sign, l2, gap1;

    explicit Look(const AdamPiece &piece)
        : p((const P *)piece.p), g((const P *)piece.g), m((const S *)piece.m), sign((S)piece.row->sign),
          l2((S)piece.row->l2), gap1((S)piece.row->gap1) {}

    inline S gradient(size_t i) const {
        const S gi = sign * widen(g[i]);
        return L2 ? fused(l2, widen(p[i]), gi) : gi;
    }
    inline S moment(size_t i, S gi) const { return WITH_M ? fused(gap1, gi - m[i], m[i]) : (S)0; }

    inline void add(size_t i, S &g2, S &m2) const {
        const S gi = gradient(i), mi = moment(i, gi);
        g2 = add_square(gi, g2);
        if (WITH_M) m2 = add_square(mi, m2);
    }
    void add_exactly(size_t from, size_t n, double sums[2]) const {
        for (size_t i = from; i < from + n; ++i) {
            const S gi = gradient(i), mi = moment(i, gi);
            sums[0] += (double)gi * (double)gi;
            sums[1] += (double)mi * (double)mi;
        }
    }
    static bool fine(S g2, S m2) {
        return g2 > LOW<S> && g2 < HIGH<S> && (!WITH_M || (m2 > LOW<S> && m2 < HIGH<S>));
    }
};

// Reading is all this does, so four places are read at a time: one stream of addresses does not keep the memory busy.
template <class P, class S, bool L2, bool WITH_M> void measure_loop(const AdamPiece &piece, double sums[2]) {
    const Look<P, S, L2, WITH_M> look(piece);
    const size_t quarter = piece.count / 4;
    constexpr size_t SPAN = BLOCK / 4;
    sums[0] = sums[1] = 0.0;
    for (size_t at = 0; at < quarter; at += SPAN) {
        const size_t n = quarter - at < SPAN ? quarter - at : SPAN;
        const size_t a = at, b = at + quarter, c = b + quarter, d = c + quarter;
        S ga = 0, gb = 0, gc = 0, gd = 0, ma = 0, mb = 0, mc = 0, md = 0;
#pragma omp simd reduction(+ : ga, gb, gc, gd, ma, mb, mc, md)
        for (size_t i = 0; i < n; ++i) {
            look.add(a + i, ga, ma);
            look.add(b + i, gb, mb);
            look.add(c + i, gc, mc);
            look.add(d + i, gd, md);
        }
        const S g2 = (ga + gb) + (gc + gd), m2 = (ma + mb) + (mc + md);
        if (look.fine(g2, m2)) {
            sums[0] += (double)g2;
            sums[1] += (double)m2;
        } else {
            for (size_t from : {a, b, c, d}) look.add_exactly(from, n, sums);
        }
    }
    look.add_exactly(4 * quarter, piece.count - 4 * quarter, sums);
}

// A block's sum of squared distances. Farther than any model goes: say so, stay finite.
template <class S> double distance(S sum) { return sum < HIGH<S> ? (double)sum : HIGH<S>; }

template <class P, class S, bool L2, bool COORD, bool AVERAGE> void apply_loop(const AdamPiece &piece, double sums[3]) {
    P *__restrict p = (P *)piece.p;
    const P *__restrict g = (const P *)piece.g;
    S *__restrict m = (S *)piece.m, *__restrict v = (S *)piece.v, *__restrict average = (S *)piece.average;
    const AdamRow &row = *piece.row;
    const S sign = (S)row.sign, l2 = (S)row.l2, gap1 = (S)row.gap1, gap2 = (S)row.gap2, damping = (S)row.damping,
            clip = (S)row.clip, step = (S)row.step, weight = (S)row.weight, decay = (S)row.decay,
            m_scale = (S)row.m_scale, v_scale = (S)row.v_scale;
    double m2 = 0.0, away = 0.0, g2 = 0.0;
    for (size_t at = 0; at < piece.count; at += BLOCK) {
        const size_t left = piece.count - at, n = left < BLOCK ? left : BLOCK;
        S block_m = 0, block_d = 0, block_g = 0;
#pragma omp simd reduction(+ : block_m, block_d, block_g)
        for (size_t i = at; i < at + n; ++i) {
            const S x = widen(p[i]);
            S gi = sign * widen(g[i]);
            if (L2) gi = fused(l2, x, gi);
            const S mi = fused(gap1, gi - m[i], m[i]);
            m[i] = mi;
            block_m = add_square(mi, block_m);
            block_g = add_square(gi, block_g);
            if (AVERAGE) {
                const S d = x - average[i];
                block_d = add_square(d, block_d);
                average[i] = fused(weight, d, average[i]);
            }
            S move = mi;
            if (COORD) {
                const S vi = fused(gap2, fused(gi, gi, -v[i]), v[i]);
                v[i] = vi;
                const S root = damping + std::sqrt(vi * v_scale);
                move = mi * m_scale / (root == (S)0 ? (S)1 : root);
                move = move > clip ? clip : move;
                move = move < -clip ? -clip : move;
            }
            narrow(fused(-step, move, decay * x), p[i]);
        }
        m2 += block_m > LOW<S> && block_m < HIGH<S> ? (double)block_m : exact_square(m + at, n);
        g2 += (double)block_g;
        away += distance(block_d);
    }
    sums[0] = m2;
    sums[1] = away;
    sums[2] = g2;
}

template <class P, class S> void measure_typed(const AdamPiece &piece, bool with_m, double sums[2]) {
    if (piece.row->l2 != 0.0)
        return with_m ? measure_loop<P, S, true, true>(piece, sums) : measure_loop<P, S, true, false>(piece, sums);
    return with_m ? measure_loop<P, S, false, true>(piece, sums) : measure_loop<P, S, false, false>(piece, sums);
}

template <class P, class S, bool L2, bool COORD> void apply_scope(const AdamPiece &piece, double sums[3]) {
    return piece.average ? apply_loop<P, S, L2, COORD, true>(piece, sums)
                         : apply_loop<P, S, L2, COORD, false>(piece, sums);
}

template <class P, class S> void apply_any(const AdamPiece &piece, double sums[3]) {
    if (piece.row->l2 != 0.0)
        return piece.v ? apply_scope<P, S, true, true>(piece, sums) : apply_scope<P, S, true, false>(piece, sums);
    return piece.v ? apply_scope<P, S, false, true>(piece, sums) : apply_scope<P, S, false, false>(piece, sums);
}

void measure(int kind, const AdamPiece &piece, bool with_m, double sums[2]) {
    if (kind == ADAM_FLOAT) return measure_typed<float, float>(piece, with_m, sums);
    if (kind == ADAM_DOUBLE) return measure_typed<double, double>(piece, with_m, sums);
    return measure_typed<uint16_t, float>(piece, with_m, sums);
}

void apply(int kind, const AdamPiece &piece, double sums[3]) {
    if (kind == ADAM_FLOAT) return apply_any<float, float>(piece, sums);
    if (kind == ADAM_DOUBLE) return apply_any<double, double>(piece, sums);
    return apply_any<uint16_t, float>(piece, sums);
}

} // namespace

namespace undrift {
#if UNDRIFT_LEVEL == 0
extern const AdamTable adam_portable = {measure, apply};
#elif UNDRIFT_LEVEL == 1
extern const AdamTable adam_neon = {measure, apply};
#elif UNDRIFT_LEVEL == 2
extern const AdamTable adam_v2 = {measure, apply};
#elif UNDRIFT_LEVEL == 3
extern const AdamTable adam_v3 = {measure, apply};
#else
extern const AdamTable adam_v4 = {measure, apply};
#endif
} // namespace undrift
