// The Adam loops at one instruction-set level: compiled once per level with its own flags and -DUNDRIFT_LEVEL=0, 2, 3, 4.
// `omp simd` (no threads) lets the compiler split the named sums over lanes, and nothing else out of order.
#include "adam.h"

#include <cmath>
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

#if UNDRIFT_LEVEL >= 3
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
inline float fused(float a, float b, float c) { return a * b + c; }
inline double fused(double a, double b, double c) { return a * b + c; }
#endif

template <class S> double exact_square(const S *x, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; ++i) sum += (double)x[i] * (double)x[i];
    return sum;
}

template <class P, class S, bool L2, bool WITH_M>
inline void look(const P *p, const P *g, const S *m, S sign, S l2, S gap1, S &gi, S &mi, size_t i) {
    gi = sign * widen(g[i]);
    if (L2) gi = fused(l2, widen(p[i]), gi);
    if (WITH_M) mi = fused(gap1, gi - m[i], m[i]);
}

template <class P, class S, bool L2, bool WITH_M> void measure_loop(const AdamPiece &piece, double sums[2]) {
    const P *__restrict p = (const P *)piece.p, *__restrict g = (const P *)piece.g;
    const S *__restrict m = (const S *)piece.m;
    const S sign = (S)piece.row->sign, l2 = (S)piece.row->l2, gap1 = (S)piece.row->gap1;
    double g2 = 0.0, m2 = 0.0;
    for (size_t at = 0; at < piece.count; at += BLOCK) {
        const size_t left = piece.count - at, n = left < BLOCK ? left : BLOCK, half = n / 2;
        S block_g = 0, block_m = 0;
#pragma omp simd reduction(+ : block_g, block_m)
        for (size_t i = at; i < at + half; ++i) { // two at a time: half as many additions wait for each other
            S a, b, c = 0, d = 0;
            look<P, S, L2, WITH_M>(p, g, m, sign, l2, gap1, a, c, i);
            look<P, S, L2, WITH_M>(p, g, m, sign, l2, gap1, b, d, i + half);
            block_g += fused(a, a, b * b);
            if (WITH_M) block_m += fused(c, c, d * d);
        }
        if (n % 2) {
            S a, c = 0;
            look<P, S, L2, WITH_M>(p, g, m, sign, l2, gap1, a, c, at + n - 1);
            block_g += a * a;
            block_m += c * c;
        }
        const bool fine_g = block_g > LOW<S> && block_g < HIGH<S>, fine_m = block_m > LOW<S> && block_m < HIGH<S>;
        if (fine_g && (fine_m || !WITH_M)) {
            g2 += (double)block_g;
            m2 += (double)block_m;
            continue;
        }
        for (size_t i = at; i < at + n; ++i) {
            S a, c = 0;
            look<P, S, L2, WITH_M>(p, g, m, sign, l2, gap1, a, c, i);
            g2 += (double)a * (double)a;
            m2 += (double)c * (double)c;
        }
    }
    sums[0] = g2;
    sums[1] = m2;
}

template <class P, class S, bool L2, bool COORD, bool AVERAGE> void apply_loop(const AdamPiece &piece, double sums[2]) {
    P *__restrict p = (P *)piece.p;
    const P *__restrict g = (const P *)piece.g;
    S *__restrict m = (S *)piece.m, *__restrict v = (S *)piece.v, *__restrict average = (S *)piece.average;
    const AdamRow &row = *piece.row;
    const S sign = (S)row.sign, l2 = (S)row.l2, gap1 = (S)row.gap1, gap2 = (S)row.gap2, damping = (S)row.damping,
            clip = (S)row.clip, step = (S)row.step, weight = (S)row.weight, decay = (S)row.decay,
            m_scale = (S)row.m_scale, v_scale = (S)row.v_scale;
    double m2 = 0.0, away = 0.0;
    for (size_t at = 0; at < piece.count; at += BLOCK) {
        const size_t left = piece.count - at, n = left < BLOCK ? left : BLOCK;
        S block_m = 0, block_d = 0;
#pragma omp simd reduction(+ : block_m, block_d)
        for (size_t i = at; i < at + n; ++i) {
            const S x = widen(p[i]);
            S gi = sign * widen(g[i]);
            if (L2) gi = fused(l2, x, gi);
            const S mi = fused(gap1, gi - m[i], m[i]);
            m[i] = mi;
            block_m = fused(mi, mi, block_m);
            if (AVERAGE) {
                const S d = x - average[i];
                block_d = fused(d, d, block_d);
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
        away += block_d < HIGH<S> ? (double)block_d : HIGH<S>; // farther than any model goes: say so, stay finite
    }
    sums[0] = m2;
    sums[1] = away;
}

template <class P, class S> void measure_typed(const AdamPiece &piece, bool with_m, double sums[2]) {
    if (piece.row->l2 != 0.0)
        return with_m ? measure_loop<P, S, true, true>(piece, sums) : measure_loop<P, S, true, false>(piece, sums);
    return with_m ? measure_loop<P, S, false, true>(piece, sums) : measure_loop<P, S, false, false>(piece, sums);
}

template <class P, class S, bool L2> void apply_typed(const AdamPiece &piece, double sums[2]) {
    if (piece.v)
        return piece.average ? apply_loop<P, S, L2, true, true>(piece, sums)
                             : apply_loop<P, S, L2, true, false>(piece, sums);
    return piece.average ? apply_loop<P, S, L2, false, true>(piece, sums)
                         : apply_loop<P, S, L2, false, false>(piece, sums);
}

template <class P, class S> void apply_any(const AdamPiece &piece, double sums[2]) {
    return piece.row->l2 != 0.0 ? apply_typed<P, S, true>(piece, sums) : apply_typed<P, S, false>(piece, sums);
}

void measure(int kind, const AdamPiece &piece, bool with_m, double sums[2]) {
    if (kind == ADAM_FLOAT) return measure_typed<float, float>(piece, with_m, sums);
    if (kind == ADAM_DOUBLE) return measure_typed<double, double>(piece, with_m, sums);
    return measure_typed<uint16_t, float>(piece, with_m, sums);
}

void apply(int kind, const AdamPiece &piece, double sums[2]) {
    if (kind == ADAM_FLOAT) return apply_any<float, float>(piece, sums);
    if (kind == ADAM_DOUBLE) return apply_any<double, double>(piece, sums);
    return apply_any<uint16_t, float>(piece, sums);
}

} // namespace

namespace undrift {
#if UNDRIFT_LEVEL == 0
extern const AdamTable adam_portable = {measure, apply};
#elif UNDRIFT_LEVEL == 2
extern const AdamTable adam_v2 = {measure, apply};
#elif UNDRIFT_LEVEL == 3
extern const AdamTable adam_v3 = {measure, apply};
#else
extern const AdamTable adam_v4 = {measure, apply};
#endif
} // namespace undrift
