// Small dense matrices, stored by rows: what the kernels of several classes need of linear algebra. Internal linkage, because
// some of them are compiled once per instruction-set level.
#pragma once
#include <cmath>
#include <cstddef>

namespace undrift {

static inline void swap(double &a, double &b) {
    const double c = a;
    a = b;
    b = c;
}

static inline double dot(const double *a, const double *b, size_t n) {
    double sum = 0.0;
    for (size_t j = 0; j < n; ++j) sum += a[j] * b[j];
    return sum;
}

static inline void add_scaled(double *a, double by, const double *b, size_t n) {
    for (size_t j = 0; j < n; ++j) a[j] += by * b[j];
}

// C (rows, cols) = A (rows, inner) B (inner, cols).
static inline void multiply(const double *A, const double *B, size_t rows, size_t inner, size_t cols, double *C) {
    for (size_t i = 0; i < rows; ++i) {
        for (size_t j = 0; j < cols; ++j) C[i * cols + j] = 0.0;
        for (size_t k = 0; k < inner; ++k) add_scaled(C + i * cols, A[i * inner + k], B + k * cols, cols);
    }
}

// C (rows, cols) = A' B with A (inner, rows).
static inline void multiply_transposed(const double *A, const double *B, size_t inner, size_t rows, size_t cols, double *C) {
    for (size_t i = 0; i < rows * cols; ++i) C[i] = 0.0;
    for (size_t k = 0; k < inner; ++k)
        for (size_t i = 0; i < rows; ++i) add_scaled(C + i * cols, A[k * rows + i], B + k * cols, cols);
}

// Solve S X = B for X, in place of B (n, cols); S is destroyed. Elimination with the largest pivot of each column.
static inline bool solve_in_place(double *S, double *B, size_t n, size_t cols) {
    for (size_t k = 0; k < n; ++k) {
        size_t best = k;
        for (size_t i = k + 1; i < n; ++i)
            if (std::fabs(S[i * n + k]) > std::fabs(S[best * n + k])) best = i;
        const double pivot = S[best * n + k];
        if (!(std::fabs(pivot) > 0.0) || !(std::fabs(pivot) < INFINITY)) return false;
        if (best != k) {
            for (size_t j = 0; j < n; ++j) swap(S[k * n + j], S[best * n + j]);
            for (size_t j = 0; j < cols; ++j) swap(B[k * cols + j], B[best * cols + j]);
        }
        for (size_t i = k + 1; i < n; ++i) {
            const double factor = S[i * n + k] / pivot;
            if (factor == 0.0) continue;
            add_scaled(S + i * n + k, -factor, S + k * n + k, n - k);
            add_scaled(B + i * cols, -factor, B + k * cols, cols);
        }
    }
    for (size_t k = n; k-- > 0;) {
        for (size_t i = k + 1; i < n; ++i) add_scaled(B + k * cols, -S[k * n + i], B + i * cols, cols);
        for (size_t j = 0; j < cols; ++j) B[k * cols + j] /= S[k * n + k];
    }
    return true;
}

// Factor a symmetric matrix as L L', in its lower half. A pivot at most `least` is taken for 0, and its column with it;
// returns whether none was (`least` < 0: none may be negative or 0).
static inline bool cholesky(double *S, size_t n, double least) {
    bool whole = true;
    for (size_t j = 0; j < n; ++j) {
        const double pivot = S[j * n + j] - dot(S + j * n, S + j * n, j);
        const bool usable = pivot > (least > 0.0 ? least : 0.0) && pivot < INFINITY;
        whole = whole && usable;
        const double root = usable ? std::sqrt(pivot) : 0.0;
        S[j * n + j] = root;
        for (size_t i = j + 1; i < n; ++i)
            S[i * n + j] = usable ? (S[i * n + j] - dot(S + i * n, S + j * n, j)) / root : 0.0;
    }
    return whole;
}

// P = (L L')^-1 from the lower half of L; X is scratch of the same size.
static inline void invert_factor(const double *L, size_t n, double *X, double *P) {
    for (size_t i = 0; i < n * n; ++i) X[i] = 0.0, P[i] = 0.0;
    for (size_t i = 0; i < n; ++i) { // X = L^-1, row by row
        double *row = X + i * n;
        for (size_t k = 0; k < i; ++k) add_scaled(row, -L[i * n + k], X + k * n, k + 1);
        row[i] = 1.0;
        for (size_t j = 0; j <= i; ++j) row[j] /= L[i * n + i];
    }
    for (size_t k = 0; k < n; ++k)
        for (size_t i = 0; i <= k; ++i) add_scaled(P + i * n, X[k * n + i], X + k * n, i + 1);
    for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < i; ++j) P[j * n + i] = P[i * n + j];
}

} // namespace undrift
