// One native vector of doubles per level, with the few operations the kernels need. Everything has internal linkage.
//
// V is a vector of W doubles, I one of 64-bit integers, M a mask (all bits of a lane set, or none). all(a) has the number a
// in every lane, and like(x, a) is a as a number or as a vector, whichever x is, so that a template serves both.
// select(m, a, b) takes lanes of a where m is set and of b elsewhere; invert(m) sets the other lanes; any(m) asks whether
// a lane is set. fma(a, b, c) = a b + c and fnma(a, b, c) = c - a b.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Levels by number: 0 portable, 1 NEON, 2 SSE4.2, 3 AVX2, 4 AVX-512.
#define UNDRIFT_FUSED (UNDRIFT_LEVEL == 1 || UNDRIFT_LEVEL >= 3)

#if UNDRIFT_LEVEL == 1
#include <arm_neon.h>
#elif UNDRIFT_LEVEL >= 2
#include <immintrin.h>
#endif

// INLINE: always inlined. COLD: rarely called, and APART: kept out of its callers, whose registers it would take.
#if defined(_MSC_VER)
#define INLINE static __forceinline
#define INLINE_MEMBER __forceinline
#define COLD static __declspec(noinline)
#define UNROLL
#define APART static __declspec(noinline)
#define RARELY(c) (c)
#else
#define INLINE static inline __attribute__((always_inline))
#define INLINE_MEMBER inline __attribute__((always_inline))
#define COLD static __attribute__((noinline, cold))
#define APART static __attribute__((noinline))
#define UNROLL _Pragma("GCC unroll 16") // loops over a tile's shape
#define RARELY(c) __builtin_expect(c, 0)
#endif

namespace {

// Fused where the level has it; elsewhere two roundings, never contracted by the compiler (-ffp-contract=off).
#if UNDRIFT_FUSED
INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
INLINE double fnma(double a, double b, double c) { return __builtin_fma(-a, b, c); }
#else
INLINE double fma(double a, double b, double c) { return a * b + c; }
INLINE double fnma(double a, double b, double c) { return c - a * b; }
#endif
INLINE double like(double, double a) { return a; }
INLINE double select(bool m, double a, double b) { return m ? a : b; }
INLINE bool any(bool m) { return m; }
INLINE bool invert(bool m) { return !m; }
// The bits of a number, and the number with these bits.
INLINE int64_t bits(double a) { int64_t i; memcpy(&i, &a, 8); return i; }
INLINE double number(int64_t i) { double a; memcpy(&a, &i, 8); return a; }

INLINE int64_t to_exponent(int64_t k) { return (int64_t)((uint64_t)k << 52); } // signed shifts may not overflow

#if UNDRIFT_LEVEL == 4 || defined(__aarch64__)
constexpr int REGISTERS = 32; // of vectors
#else
constexpr int REGISTERS = 16;
#endif

#if UNDRIFT_LEVEL == 0
typedef double V;
typedef int64_t I;
typedef bool M;
constexpr size_t W = 1;
INLINE V load(const double *p) { return *p; }
INLINE void store(double *p, V v) { *p = v; }
INLINE V all(double a) { return a; }
INLINE double lane(V v, size_t) { return v; }
#else
constexpr size_t W = UNDRIFT_LEVEL <= 2 ? 2 : UNDRIFT_LEVEL == 3 ? 4 : 8;
typedef double V __attribute__((vector_size(8 * W)));
typedef decltype(V{} < V{}) I; // 64-bit integers
typedef I M;
typedef double U __attribute__((vector_size(8 * W), aligned(8), may_alias));
INLINE V load(const double *p) { return *(const U *)p; }
INLINE void store(double *p, V v) { *(U *)p = v; }
INLINE V all(double a) { return a - V{}; }
INLINE double lane(V v, size_t i) { return v[i]; }
INLINE V like(V, double a) { return all(a); }
INLINE V select(M m, V a, V b) { return m ? a : b; }
INLINE M invert(M m) { return ~m; }
INLINE I bits(V a) { return (I)a; }
INLINE V number(I i) { return (V)i; }
INLINE I to_exponent(I k) { return k << 52; }
#if UNDRIFT_LEVEL == 1
INLINE V fma(V a, V b, V c) { return vfmaq_f64(c, a, b); }
INLINE V fnma(V a, V b, V c) { return vfmsq_f64(c, a, b); }
INLINE bool any(M m) { return (m[0] | m[1]) != 0; }
#elif UNDRIFT_LEVEL == 2
INLINE V fma(V a, V b, V c) { return a * b + c; }
INLINE V fnma(V a, V b, V c) { return c - a * b; }
INLINE bool any(M m) { return _mm_movemask_pd((__m128d)m) != 0; }
#elif UNDRIFT_LEVEL == 3
INLINE V fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
INLINE V fnma(V a, V b, V c) { return _mm256_fnmadd_pd(a, b, c); }
INLINE bool any(M m) { return _mm256_movemask_pd((__m256d)m) != 0; }
#else
INLINE V fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
INLINE V fnma(V a, V b, V c) { return _mm512_fnmadd_pd(a, b, c); }
INLINE bool any(M m) { return _mm512_movepi64_mask((__m512i)m) != 0; }
#endif
#endif

// Whether a < b in some lane; whether a < b or c < d in some lane.
template <class X> INLINE bool any_less(X a, X b) { return any(a < b); }
template <class X> INLINE bool any_less(X a, X b, X c, X d) { return any((a < b) | (c < d)); }
#if UNDRIFT_LEVEL == 4
INLINE bool any_less(V a, V b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ) != 0; }
INLINE bool any_less(V a, V b, V c, V d) {
    return (_mm512_cmp_pd_mask(a, b, _CMP_LT_OQ) | _mm512_cmp_pd_mask(c, d, _CMP_LT_OQ)) != 0;
}
#endif

// b if either is NaN, or if they are equal; NEON's own maximum and minimum would give the NaN.
template <class X> INLINE X larger(X a, X b) { return select(a > b, a, b); }
template <class X> INLINE X smaller(X a, X b) { return select(a < b, a, b); }
#if UNDRIFT_LEVEL == 2
INLINE V larger(V a, V b) { return _mm_max_pd(a, b); }
INLINE V smaller(V a, V b) { return _mm_min_pd(a, b); }
#elif UNDRIFT_LEVEL == 3
INLINE V larger(V a, V b) { return _mm256_max_pd(a, b); }
INLINE V smaller(V a, V b) { return _mm256_min_pd(a, b); }
#elif UNDRIFT_LEVEL == 4
INLINE V larger(V a, V b) { return _mm512_max_pd(a, b); }
INLINE V smaller(V a, V b) { return _mm512_min_pd(a, b); }
#endif
template <class X> INLINE X magnitude(X a) { return number(bits(a) & 0x7fffffffffffffffLL); }
template <class X> INLINE X with_sign(X a, X s) { return number(bits(a) | (bits(s) & (int64_t)0x8000000000000000ULL)); }

} // namespace
