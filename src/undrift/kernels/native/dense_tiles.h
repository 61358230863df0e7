// Small dense matrices at one instruction-set level, computed by tiles of ROWS rows and STRIP columns. Rows of scratch matrices
// lie a stride apart that `padded` gives, so that a tile never ends beyond them; what is computed in the padding counts for
// nothing, but must be numbers.
#pragma once
#include <cmath>

#include "dense.h"
#include "vec.h"

namespace {
using namespace undrift;

constexpr size_t STRIP = 2 * W; // columns that are computed together
constexpr int ROWS = 4;         // rows that are computed together

size_t padded(size_t count) {
    constexpr size_t unit = STRIP > ROWS ? STRIP : ROWS;
    return (count + unit - 1) / unit * unit;
}

double sum_of(const double *a, size_t n) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < n; ++j) sum += a[j];
    return sum;
}

double product(const double *a, const double *b, size_t n) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < n; ++j) sum += a[j] * b[j];
    return sum;
}

double largest(const double *a, size_t n) {
    double most = 0.0;
    for (size_t j = 0; j < n; ++j) most = larger(std::fabs(a[j]), most);
    return most;
}

void subtract_mean(double *a, size_t n) {
    const double mean = sum_of(a, n) / (double)n;
    for (size_t j = 0; j < n; ++j) a[j] -= mean;
}

// y = M x with a symmetric M (n rows of `stride`).
void symmetric_times(const double *M, size_t stride, const double *x, size_t n, double *y) {
    for (size_t j = 0; j < n; ++j) y[j] = 0.0;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const double *a = M + i * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        const double p = x[i], q = x[i + 1], r = x[i + 2], s = x[i + 3];
        for (size_t j = 0; j < n; ++j) y[j] += (p * a[j] + q * b[j]) + (r * c[j] + s * d[j]);
    }
    for (; i < n; ++i) add_scaled(y, x[i], M + i * stride, n);
}

// ROWS or 1 rows of the solution of U'X = T from row i on, in a strip of STRIP columns; X takes the place of T.
template <int R>
INLINE void solve_rows_of_strip(const double *U, size_t stride, const double *inverse, size_t i, double *T, size_t ld) {
    V a[R], b[R];
    UNROLL for (int r = 0; r < R; ++r) {
        a[r] = load(T + (i + r) * ld);
        b[r] = load(T + (i + r) * ld + W);
    }
    for (size_t k = 0; k < i; ++k) {
        const V left = load(T + k * ld), right = load(T + k * ld + W);
        UNROLL for (int r = 0; r < R; ++r) {
            const V by = all(U[k * stride + i + r]);
            a[r] = fnma(by, left, a[r]);
            b[r] = fnma(by, right, b[r]);
        }
    }
    UNROLL for (int r = 0; r < R; ++r) {
        UNROLL for (int k = 0; k < r; ++k) {
            const V by = all(U[(i + k) * stride + i + r]);
            a[r] = fnma(by, a[k], a[r]);
            b[r] = fnma(by, b[k], b[r]);
        }
        const V scale = all(inverse[i + r]);
        a[r] = a[r] * scale;
        b[r] = b[r] * scale;
        store(T + (i + r) * ld, a[r]);
        store(T + (i + r) * ld + W, b[r]);
    }
}

// Solve U'X = T for X (K rows of ld, `columns` of them used) in place of T; `inverse` holds 1 / U_ii.
void solve_transposed(const double *U, size_t stride, const double *inverse, size_t K, double *T, size_t ld, size_t columns) {
    for (size_t c = 0; c < columns; c += STRIP) {
        size_t i = 0;
        for (; i + ROWS <= K; i += ROWS) solve_rows_of_strip<ROWS>(U, stride, inverse, i, T + c, ld);
        for (; i < K; ++i) solve_rows_of_strip<1>(U, stride, inverse, i, T + c, ld);
    }
}

// Copy what is above the diagonal of S (K rows of `stride`) below it.
void mirror(double *S, size_t stride, size_t K) {
    for (size_t i = 0; i < K; ++i)
        for (size_t j = 0; j < i; ++j) S[i * stride + j] = S[j * stride + i];
}

// P (n rows of `stride`) = scale P - X'X with X (K rows of ld); P is symmetric.
void subtract_squares(double *P, size_t stride, size_t n, double scale, const double *X, size_t ld, size_t K) {
    for (size_t r = 0; r < n; r += ROWS)
        for (size_t c = r / STRIP * STRIP; c < n; c += STRIP) {
            V a[ROWS], b[ROWS];
            UNROLL for (int i = 0; i < ROWS; ++i) a[i] = b[i] = all(0.0);
            for (size_t k = 0; k < K; ++k) {
                const V left = load(X + k * ld + c), right = load(X + k * ld + c + W);
                UNROLL for (int i = 0; i < ROWS; ++i) {
                    const V by = all(X[k * ld + r + i]);
                    a[i] = fma(by, left, a[i]);
                    b[i] = fma(by, right, b[i]);
                }
            }
            const size_t rows = n - r < ROWS ? n - r : ROWS, columns = n - c < STRIP ? n - c : STRIP;
            for (size_t i = 0; i < rows; ++i) {
                double *to = P + (r + i) * stride + c;
                double squares[STRIP];
                store(squares, a[i]);
                store(squares + W, b[i]);
                for (size_t j = 0; j < columns; ++j) to[j] = scale * to[j] - squares[j];
            }
        }
    mirror(P, stride, n);
}

// Factor S = U'U in its upper half (K rows of `stride`), by blocks of ROWS rows; inverse[i] = 1 / U_ii. Numbers below the
// diagonal are not used. Returns whether S is positive.
bool factor(double *S, size_t stride, size_t K, double *inverse) {
    for (size_t i = 0; i < K; i += ROWS) {
        const size_t rows = K - i < ROWS ? K - i : ROWS;
        if (rows == ROWS && i)
            for (size_t c = i / STRIP * STRIP; c < K; c += STRIP) {
                V a[ROWS], b[ROWS];
                UNROLL for (int r = 0; r < ROWS; ++r) {
                    a[r] = load(S + (i + r) * stride + c);
                    b[r] = load(S + (i + r) * stride + c + W);
                }
                for (size_t k = 0; k < i; ++k) {
                    const V left = load(S + k * stride + c), right = load(S + k * stride + c + W);
                    UNROLL for (int r = 0; r < ROWS; ++r) {
                        const V by = all(S[k * stride + i + r]);
                        a[r] = fnma(by, left, a[r]);
                        b[r] = fnma(by, right, b[r]);
                    }
                }
                UNROLL for (int r = 0; r < ROWS; ++r) {
                    store(S + (i + r) * stride + c, a[r]);
                    store(S + (i + r) * stride + c + W, b[r]);
                }
            }
        else
            for (size_t r = i; r < i + rows; ++r)
                for (size_t k = 0; k < i; ++k) add_scaled(S + r * stride + r, -S[k * stride + r], S + k * stride + r, K - r);
        for (size_t r = i; r < i + rows; ++r) {
            double *row = S + r * stride;
            for (size_t k = i; k < r; ++k) add_scaled(row + r, -S[k * stride + r], S + k * stride + r, K - r);
            if (!(row[r] > 0.0) || !(row[r] < INFINITY)) return false;
            inverse[r] = 1.0 / std::sqrt(row[r]);
            for (size_t j = r; j < K; ++j) row[j] *= inverse[r];
        }
    }
    return true;
}

// x = (U'U)^-1 x, with U' below the diagonal of U, see `mirror`.
void solve_factored(const double *U, size_t stride, const double *inverse, size_t K, double *x) {
    for (size_t k = 0; k < K; ++k) {
        x[k] *= inverse[k];
        add_scaled(x + k + 1, -x[k], U + k * stride + k + 1, K - k - 1);
    }
    for (size_t k = K; k-- > 0;) {
        x[k] *= inverse[k];
        add_scaled(x, -x[k], U + k * stride, k);
    }
}

} // namespace
