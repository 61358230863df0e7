// The prediction of softmax regression whose price is the same whatever the label. tests/twins/softmax.py is the twin, and
// says what the letters mean: K classes, m = K - 1 coordinates, the basis Q (K, m), a row's m0 (m) and M0 (m, m).
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "definitions.h"
#include "dense.h"
#include "softmax_limits.h"

namespace undrift {

inline double log_sum(const double *a, size_t K) {
    const double most = *std::max_element(a, a + K);
    double sum = 0.0;
    for (size_t i = 0; i < K; ++i) sum += std::exp(a[i] - most);
    return most + std::log(sum);
}

inline void softmax(const double *a, size_t K, double *p) {
    const double most = *std::max_element(a, a + K);
    double sum = 0.0;
    for (size_t i = 0; i < K; ++i) sum += p[i] = std::exp(a[i] - most);
    for (size_t i = 0; i < K; ++i) p[i] /= sum;
}

// One candidate prediction b, and how far it is from the one with equal prices.
struct Candidate {
    std::vector<double> b, p, H, M, MK, c, v, F;
    double size = 0.0;
    Candidate(size_t K, size_t m) : b(m), p(K), H(m * m), M(m * m), MK(K * K), c(m), v(m), F(m) {}
};

class EqualPrices {
  public:
    EqualPrices(const double *Q, size_t K, size_t m, double k)
        : Q(Q), K(K), m(m), k(k), now(K, m), there(K, m), a(K), q(K * m), S(m * m), T(m * m), step(m), off(m), moved(m),
          bend(m), dp(K * m), dD(K * m), U(K * m), divided(m), bent(m * m) {}

    // Fill v (m) for a row; M0 is symmetric and not negative.
    void find(const double *m0, const double *M0, double *v) {
        least_loss(m0, M0, 1.0, nullptr, v);
        if (K > (size_t)SOFTMAX_EXACT_CLASSES) return;
        multiply(M0, v, m, m, 1, moved.data());
        for (size_t i = 0; i < m; ++i) now.b[i] = m0[i] - moved[i];
        look(now, m0, M0);
        for (int round = 0; round < 40; ++round) {
            double far = 0.0;
            for (double one : now.b) far = std::fmax(far, std::fabs(one));
            if (now.size <= 1e-9 * (1.0 + far)) break;
            slope(M0);
            for (size_t i = 0; i < m; ++i) step[i] = -now.F[i];
            if (!solve_in_place(S.data(), step.data(), m, 1)) break;
            double longest = 0.0;
            for (double one : step) longest = std::fmax(longest, std::fabs(one));
            double length = std::fmin(1.0, 4.0 / std::fmax(longest, 1e-300));
            bool better = false;
            for (int trial = 0; trial < 20 && !better; ++trial, length *= 0.5) {
                for (size_t i = 0; i < m; ++i) there.b[i] = now.b[i] + length * step[i];
                look(there, m0, M0);
                better = there.size < now.size * (1.0 - 1e-4 * length);
            }
            if (!better) break;
            std::swap(now, there);
        }
        double far = 1.0;
        for (double one : now.b) far = std::fmax(far, std::fabs(one));
        if (now.size <= 1e-6 * far) std::copy(now.v.begin(), now.v.end(), v); // else the first guess, which is exact
    }

    // v = copies (Q'p(b) - label) at b = m0 - M0 v, by Newton's method on the convex function whose minimum it is:
    // copies (ln sum exp - b.label) + |b - m0|^2 / 2 in the norm of M0^-1. `label` is a row of Q, or null for none.
    void least_loss(const double *m0, const double *M0, double copies, const double *label, double *v) {
        std::fill(v, v + m, 0.0);
        double value = convex_value(v, m0, M0, copies, label);
        for (int round = 0; round < 200; ++round) {
            logits(v, m0, M0);
            softmax(a.data(), K, now.p.data());
            hessian(now.p.data(), now.H.data());
            multiply_transposed(Q, now.p.data(), K, m, 1, off.data());
            for (size_t i = 0; i < m; ++i) off[i] = v[i] - copies * (off[i] - (label ? label[i] : 0.0)), step[i] = -off[i];
            multiply(now.H.data(), M0, m, m, m, S.data());
            for (size_t j = 0; j < m * m; ++j) S[j] *= copies;
            for (size_t j = 0; j < m; ++j) S[j * m + j] += 1.0;
            if (!solve_in_place(S.data(), step.data(), m, 1)) return;
            double longest = 0.0, size = 1.0;
            for (size_t i = 0; i < m; ++i) longest = std::fmax(longest, std::fabs(step[i])), size = std::fmax(size, std::fabs(v[i]));
            const bool close = longest <= 1e-8 * size; // so close that one more step is exact
            multiply(M0, off.data(), m, m, 1, moved.data());
            const double fall = std::fabs(dot(moved.data(), step.data(), m));
            double length = 1.0, lower = value;
            for (int trial = 0; trial < 30; ++trial) {
                for (size_t i = 0; i < m; ++i) there.b[i] = v[i] + length * step[i];
                lower = convex_value(there.b.data(), m0, M0, copies, label);
                if (close || lower <= value - 1e-6 * length * fall) break;
                length *= 0.5;
            }
            for (size_t i = 0; i < m; ++i) v[i] += length * step[i];
            if (close) return;
            value = lower;
        }
    }

    // H (m, m) = Q'(diag(p) - p p')Q, as a sum of squares around the mean.
    void hessian(const double *p, double *H) {
        multiply_transposed(Q, p, K, m, 1, off.data());
        for (size_t i = 0; i < K; ++i)
            for (size_t j = 0; j < m; ++j) q[i * m + j] = Q[i * m + j] - off[j];
        for (size_t j = 0; j < m * m; ++j) H[j] = 0.0;
        for (size_t i = 0; i < K; ++i)
            for (size_t j = 0; j < m; ++j) add_scaled(H + j * m, p[i] * q[i * m + j], &q[i * m], m);
    }

    // M (m, m) = (M0^-1 + scale H)^-1, from (I + scale M0 H) M = M0.
    bool shrink(const double *M0, const double *H, double scale, double *M) {
        multiply(M0, H, m, m, m, S.data());
        for (size_t j = 0; j < m * m; ++j) S[j] *= scale;
        for (size_t j = 0; j < m; ++j) S[j * m + j] += 1.0;
        std::copy(M0, M0 + m * m, M);
        if (!solve_in_place(S.data(), M, m, m)) return false;
        for (size_t i = 0; i < m; ++i)
            for (size_t j = 0; j < i; ++j) M[i * m + j] = M[j * m + i] = 0.5 * (M[i * m + j] + M[j * m + i]);
        return true;
    }

  private:
    const double *Q;
    const size_t K, m;
    const double k;
    Candidate now, there;
    std::vector<double> a, q, S, T, step, off, moved, bend, dp, dD, U, divided, bent;

    // Fill bend = m0 - M0 v, a = Q bend and moved = M0 v.
    void logits(const double *v, const double *m0, const double *M0) {
        multiply(M0, v, m, m, 1, moved.data());
        for (size_t i = 0; i < m; ++i) bend[i] = m0[i] - moved[i];
        multiply(Q, bend.data(), K, m, 1, a.data());
    }

    double convex_value(const double *v, const double *m0, const double *M0, double copies, const double *label) {
        logits(v, m0, M0);
        return copies * (log_sum(a.data(), K) - (label ? dot(label, bend.data(), m) : 0.0)) + 0.5 * dot(v, moved.data(), m);
    }

    void look(Candidate &one, const double *m0, const double *M0) {
        multiply(Q, one.b.data(), K, m, 1, a.data());
        softmax(a.data(), K, one.p.data());
        hessian(one.p.data(), one.H.data());
        one.size = INFINITY;
        if (!shrink(M0, one.H.data(), k, one.M.data())) return;
        multiply(Q, one.M.data(), K, m, m, U.data());
        for (size_t i = 0; i < K; ++i)
            for (size_t j = 0; j < K; ++j) one.MK[i * K + j] = dot(&U[i * m], Q + j * m, m);
        for (size_t i = 0; i < K; ++i) a[i] = one.MK[i * K + i];
        multiply_transposed(Q, a.data(), K, m, 1, one.c.data());
        multiply(one.H.data(), one.c.data(), m, m, 1, bend.data());
        multiply_transposed(Q, one.p.data(), K, m, 1, one.v.data());
        for (size_t i = 0; i < m; ++i) bend[i] *= k, off[i] = one.v[i] - 0.5 * bend[i];
        multiply(M0, off.data(), m, m, 1, one.F.data());
        double sum = 0.0;
        for (size_t i = 0; i < m; ++i) {
            one.F[i] += one.b[i] - m0[i] - 0.5 * one.c[i];
            sum += one.F[i] * one.F[i];
        }
        divide(one.c.data(), M0, divided.data());
        for (size_t i = 0; i < m; ++i) one.v[i] = off[i] - 0.5 * divided[i];
        if (std::isfinite(sum)) one.size = std::sqrt(sum);
    }

    // x = M0^-1 c; directions in which M0 is 0 to rounding, where nothing can be moved, are left out.
    void divide(const double *c, const double *M0, double *x) {
        double most = 0.0;
        for (size_t j = 0; j < m; ++j) most = std::fmax(most, M0[j * m + j]);
        std::copy(M0, M0 + m * m, T.begin());
        cholesky(T.data(), m, 1e-13 * most);
        for (size_t j = 0; j < m; ++j) {
            const double root = T[j * m + j];
            x[j] = root > 0.0 ? (c[j] - dot(&T[j * m], x, j)) / root : 0.0;
        }
        for (size_t j = m; j-- > 0;) {
            double sum = x[j];
            for (size_t i = j + 1; i < m; ++i) sum -= T[i * m + j] * x[i];
            const double root = T[j * m + j];
            x[j] = root > 0.0 ? sum / root : 0.0;
        }
    }

    // S = the derivative of F at `now`.
    void slope(const double *M0) {
        const double *p = now.p.data(), *MK = now.MK.data();
        multiply_transposed(Q, p, K, m, 1, off.data());
        for (size_t i = 0; i < K; ++i)
            for (size_t j = 0; j < m; ++j) dp[i * m + j] = p[i] * (Q[i * m + j] - off[j]);
        // dD = -k ((MK * MK) dp - 2 (MK p) (MK dp)), the derivative of the diagonal of MK
        multiply(MK, dp.data(), K, K, m, U.data());
        for (size_t i = 0; i < K; ++i) {
            const double towards = 2.0 * dot(MK + i * K, p, K);
            for (size_t j = 0; j < m; ++j) dD[i * m + j] = k * towards * U[i * m + j];
            for (size_t l = 0; l < K; ++l) add_scaled(&dD[i * m], -k * MK[i * K + l] * MK[i * K + l], &dp[l * m], m);
        }
        multiply_transposed(Q, dD.data(), K, m, m, T.data()); // dc
        // the derivative of H c: Q'((e - p.e) dp - p (e'dp)) + H dc with e = Q c
        multiply(Q, now.c.data(), K, m, 1, a.data());
        const double mean = dot(p, a.data(), K);
        multiply_transposed(dp.data(), a.data(), K, m, 1, off.data());
        for (size_t i = 0; i < K; ++i)
            for (size_t j = 0; j < m; ++j) U[i * m + j] = (a[i] - mean) * dp[i * m + j] - p[i] * off[j];
        multiply_transposed(Q, U.data(), K, m, m, bent.data());
        for (size_t i = 0; i < m; ++i)
            for (size_t l = 0; l < m; ++l) add_scaled(&bent[i * m], now.H[i * m + l], &T[l * m], m);
        for (size_t j = 0; j < m * m; ++j) bent[j] = now.H[j] - 0.5 * k * bent[j];
        multiply(M0, bent.data(), m, m, m, S.data());
        for (size_t j = 0; j < m * m; ++j) S[j] -= 0.5 * T[j];
        for (size_t j = 0; j < m; ++j) S[j * m + j] += 1.0;
    }
};

} // namespace undrift
