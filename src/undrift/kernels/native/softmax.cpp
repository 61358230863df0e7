// Rounds of DiscountedSoftmax. tests/twins/softmax.py is the twin, and explains the recursion.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <vector>

#include "array.h"
#include "dispatch.h"
#include "softmax_prices.h"

namespace nb = nanobind;
using namespace undrift;

namespace {

void check(bool fits) {
    if (!fits) throw nb::value_error("kernels: the arrays of a softmax kernel do not fit together");
}

// What a coming row is to a learner with the covariance P and the leader x (n): its design, m0 and M0.
class ServedRow {
  public:
    std::vector<double> design, G, m0, M0;
    ServedRow(size_t m, size_t n) : design(m * n), G(m * n), m0(m), M0(m * m), m(m), n(n) {}

    // One copy of the features z (n / m) for each coordinate.
    void set_design(const double *z) {
        const size_t d = n / m;
        for (size_t i = 0; i < m; ++i) std::copy(z, z + d, &design[i * n + i * d]);
    }

    // G = design P / beta, with zeros of the design left out. Returns whether the leverage is usable.
    bool look(const double *P, const double *x, double beta) {
        std::fill(G.begin(), G.end(), 0.0);
        for (size_t i = 0; i < m; ++i)
            for (size_t j = 0; j < n; ++j)
                if (const double by = design[i * n + j]; by != 0.0) add_scaled(&G[i * n], by / beta, P + j * n, n);
        for (size_t i = 0; i < m; ++i) m0[i] = dot(&design[i * n], x, n);
        return finish();
    }

    // The same for a fresh learner.
    bool look_fresh(double reg) {
        for (size_t j = 0; j < m * n; ++j) G[j] = design[j] / reg;
        std::fill(m0.begin(), m0.end(), 0.0);
        return finish();
    }

  private:
    const size_t m, n;

    bool finish() {
        double trace = 0.0;
        for (size_t i = 0; i < m; ++i)
            for (size_t j = 0; j <= i; ++j) M0[i * m + j] = M0[j * m + i] = dot(&G[i * n], &design[j * n], n);
        for (size_t i = 0; i < m; ++i) trace += M0[i * m + i];
        return trace <= LEVERAGE_LIMIT;
    }
};

struct Learner {
    double *A, *P, *pull, *x, *numbers;
    size_t n;
    double reg;
};

void restart(const Learner &one) {
    std::fill(one.A, one.A + one.n * one.n, 0.0);
    std::fill(one.P, one.P + one.n * one.n, 0.0);
    std::fill(one.pull, one.pull + one.n, 0.0);
    std::fill(one.x, one.x + one.n, 0.0);
    for (size_t j = 0; j < one.n; ++j) one.P[j * one.n + j] = 1.0 / one.reg;
    one.numbers[SoftmaxNumber::RIDGE] = one.reg;
    one.numbers[SoftmaxNumber::AGE] = 0.0;
    one.numbers[SoftmaxNumber::RESTARTS] += 1.0;
}

// Add the round's quadratic g.(a - b) + |a - b|^2_H / 2; H and g include the round's weight and curvature.
void settle(const Learner &one, const ServedRow &row, const std::vector<double> &b, const std::vector<double> &g,
            const std::vector<double> &H, double beta, double before, std::vector<double> &scratch) {
    const size_t n = one.n, m = b.size();
    scratch.resize(2 * n * n + 3 * m * n + 2 * m * m + m);
    double *L = scratch.data(), *X = L + n * n, *HD = X + n * n, *C = HD + m * n, *W = C + m * n, *B = W + m * n,
           *inner = B + m * m, *target = inner + m * m;
    multiply(H.data(), row.design.data(), m, m, n, HD);
    for (size_t j = 0; j < n * n; ++j) one.A[j] *= beta;
    for (size_t j = 0; j < n; ++j) one.pull[j] *= beta;
    for (size_t i = 0; i < m; ++i) target[i] = dot(&H[i * m], b.data(), m) - g[i];
    for (size_t i = 0; i < m; ++i)
        for (size_t j = 0; j < n; ++j)
            if (const double by = row.design[i * n + j]; by != 0.0) {
                add_scaled(one.A + j * n, by, HD + i * n, n);
                one.pull[j] += by * target[i];
            }
    double ridge = beta * before, most = 0.0, leverage = 0.0;
    for (size_t j = 0; j < n; ++j) most = std::fmax(most, one.A[j * n + j]);
    for (size_t i = 0; i < m; ++i) leverage = std::fmax(leverage, H[i * m + i] * row.M0[i * m + i]);
    const double least = std::fmax(SOFTMAX_LEAST_RIDGE * one.reg, SOFTMAX_LEAST_SHARE * most);
    double &age = one.numbers[SoftmaxNumber::AGE];
    age += 1.0;
    if (ridge < least || leverage > SOFTMAX_FRESH_LEVERAGE || age >= (double)SOFTMAX_FRESH_AGE) {
        if (ridge < least) ridge = 2.0 * least;
        std::copy(one.A, one.A + n * n, L);
        for (size_t j = 0; j < n; ++j) L[j * n + j] += ridge;
        if (!cholesky(L, n, -1.0)) return restart(one);
        invert_factor(L, n, X, one.P);
        age = 0.0;
    } else {
        double widest = 0.0;
        for (size_t i = 0; i < m; ++i) widest = std::fmax(widest, H[i * m + i]);
        std::copy(H.begin(), H.end(), B);
        cholesky(B, m, 1e-15 * widest);
        for (size_t i = 0; i < m; ++i)
            for (size_t j = i + 1; j < m; ++j) B[i * m + j] = 0.0;
        // inner = I + B'M0 B, C = B'G, W = the factor's inverse times C: P / beta - W'W is the new covariance
        multiply(row.M0.data(), B, m, m, m, C);
        multiply_transposed(B, C, m, m, m, inner);
        for (size_t i = 0; i < m; ++i) inner[i * m + i] += 1.0;
        if (!cholesky(inner, m, -1.0)) return restart(one);
        multiply_transposed(B, row.G.data(), m, m, n, W);
        for (size_t i = 0; i < m; ++i) {
            for (size_t k = 0; k < i; ++k) add_scaled(W + i * n, -inner[i * m + k], W + k * n, n);
            for (size_t j = 0; j < n; ++j) W[i * n + j] /= inner[i * m + i];
        }
        const double grown = 1.0 / beta;
        for (size_t r = 0; r < n; ++r) {
            double *P = one.P + r * n;
            for (size_t j = 0; j <= r; ++j) P[j] *= grown;
            for (size_t i = 0; i < m; ++i) add_scaled(P, -W[i * n + r], W + i * n, r + 1);
        }
        for (size_t r = 0; r < n; ++r)
            for (size_t j = 0; j < r; ++j) one.P[j * n + r] = one.P[r * n + j];
    }
    one.numbers[SoftmaxNumber::RIDGE] = ridge;
    for (size_t j = 0; j < n; ++j) one.x[j] = dot(one.P + j * n, one.pull, n);
}

// Copies of a round beyond the first. At the logits played they would be as many steps as long as the first one, and
// diverge; they are expanded at their own least loss on top of the past and of the first copy.
struct Copies {
    std::vector<double> logits, p, m1, u, at, slope, off, bend, M2;
    Copies(size_t K, size_t m) : logits(K), p(K), m1(m), u(m), at(m), slope(m), off(m), bend(m * m), M2(m * m) {}

    // Add `count` copies to the quadratic (g, H) around b; M = (M0^-1 + H)^-1 belongs to the first one, which was played as
    // m0 - M0 v. Returns their price less their loss at b.
    double learn(EqualPrices &prices, const double *Q, double count, double curvature, size_t label, const std::vector<double> &v,
                 const std::vector<double> &M, const std::vector<double> &b, std::vector<double> &g, std::vector<double> &H) {
        const size_t K = p.size(), m = b.size();
        for (size_t i = 0; i < m; ++i) off[i] = v[i] - g[i];
        multiply(M.data(), off.data(), m, m, 1, m1.data());
        for (size_t i = 0; i < m; ++i) m1[i] += b[i];
        prices.least_loss(m1.data(), M.data(), count, Q + label * m, u.data());
        multiply(M.data(), u.data(), m, m, 1, at.data());
        double price = -0.5 * dot(u.data(), at.data(), m);
        for (size_t i = 0; i < m; ++i) at[i] = m1[i] - at[i];
        multiply(Q, at.data(), K, m, 1, logits.data());
        price -= count * (log_sum(logits.data(), K) - logits[label]);
        softmax(logits.data(), K, p.data());
        prices.hessian(p.data(), bend.data());
        for (double &h : bend) h *= count * curvature;
        multiply_transposed(Q, p.data(), K, m, 1, slope.data());
        for (size_t i = 0; i < m; ++i) slope[i] = count * (slope[i] - Q[label * m + i]), off[i] = slope[i] - u[i];
        if (prices.shrink(M.data(), bend.data(), 1.0, M2.data())) // 0 but for what the search for u left
            for (size_t i = 0; i < m; ++i)
                for (size_t j = 0; j < m; ++j) price += 0.5 * off[i] * M2[i * m + j] * off[j];
        for (size_t i = 0; i < m; ++i) {
            g[i] += slope[i];
            for (size_t j = 0; j < m; ++j) g[i] += bend[i * m + j] * (b[j] - at[j]);
        }
        for (size_t j = 0; j < m * m; ++j) H[j] += bend[j];
        return price;
    }
};

int64_t softmax_play(Matrix information, Matrix covariance, Vector pull, Vector leader, Vector numbers, Inputs basis,
                     double curvature, double reg, Input beta, Input weight, Inputs Z, Input y, Matrix logits,
                     Vector stability, Vector potential, std::optional<Matrix> point) {
    const size_t n = pull.shape(0), K = basis.shape(0), m = basis.shape(1), rounds = Z.shape(0), width = Z.shape(1);
    check(m >= 1 && K == m + 1 && information.shape(0) == n && information.shape(1) == n && covariance.shape(0) == n &&
          covariance.shape(1) == n && leader.shape(0) == n && numbers.shape(0) == SoftmaxNumber::SIZE &&
          width * m == n && beta.shape(0) == rounds && weight.shape(0) == rounds &&
          y.shape(0) == rounds && logits.shape(0) == rounds && logits.shape(1) == K && stability.shape(0) == rounds &&
          potential.shape(0) == rounds && (!point || (point->shape(0) == rounds && point->shape(1) == K)));
    for (size_t t = 0; t < rounds; ++t) check(y.data()[t] >= 0.0 && y.data()[t] < (double)K);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t bad = level.invalid_input(Z.data(), rounds * width, y.data(), rounds, false);
    if (bad) return bad;
    const Learner one{information.data(), covariance.data(), pull.data(), leader.data(), numbers.data(), n, reg};
    const double *Q = basis.data();
    ServedRow row(m, n);
    EqualPrices prices(Q, K, m, curvature);
    std::vector<double> v(m), b(m), p(K), H(m * m), g(m), M(m * m), moved(m), scratch;
    Copies copies(K, m);
    for (size_t t = 0; t < rounds; ++t) {
        const double forget = beta.data()[t], by = weight.data()[t], once = std::fmin(by, 1.0);
        double *out = logits.data() + t * K;
        row.set_design(Z.data() + t * width);
        double before = numbers.data()[SoftmaxNumber::RIDGE];
        bool usable = row.look(one.P, one.x, forget);
        if (!usable) {
            restart(one);
            before = reg / forget;
            for (size_t j = 0; j < n * n; ++j) one.P[j] *= forget;
            usable = row.look_fresh(reg);
        }
        if (!usable) {
            for (size_t i = 0; i < K; ++i) out[i] = 0.0;
            for (size_t j = 0; j < n; ++j) one.P[j * n + j] = 1.0 / reg;
            if (point) std::fill_n(point->data() + t * K, K, 0.0);
            stability.data()[t] = by * std::log((double)K);
            potential.data()[t] = reg;
            numbers.data()[SoftmaxNumber::IGNORED] += 1.0;
            continue;
        }
        prices.find(row.m0.data(), row.M0.data(), v.data());
        multiply(row.M0.data(), v.data(), m, m, 1, moved.data());
        for (size_t i = 0; i < m; ++i) b[i] = row.m0[i] - moved[i];
        multiply(Q, b.data(), K, m, 1, out);
        softmax(out, K, p.data());
        prices.hessian(p.data(), H.data());
        for (double &h : H) h *= once * curvature;
        multiply_transposed(Q, p.data(), K, m, 1, g.data());
        const double *label = Q + (size_t)y.data()[t] * m;
        for (size_t i = 0; i < m; ++i) g[i] = once * (g[i] - label[i]);
        double price = -0.5 * dot(v.data(), moved.data(), m);
        const bool shrunk = prices.shrink(row.M0.data(), H.data(), 1.0, M.data());
        if (shrunk)
            for (size_t i = 0; i < m; ++i)
                for (size_t j = 0; j < m; ++j) price += 0.5 * (g[i] - v[i]) * M[i * m + j] * (g[j] - v[j]);
        const double *at = out;
        if (by > 1.0) {
            const size_t seen = (size_t)y.data()[t];
            price += (by - 1.0) * (log_sum(out, K) - out[seen]); // what the copies cost where they are not learned
            if (shrunk) price += copies.learn(prices, Q, by - 1.0, curvature, seen, v, M, b, g, H), at = copies.logits.data();
        }
        if (point) std::copy(at, at + K, point->data() + t * K);
        stability.data()[t] = price;
        settle(one, row, b, g, H, forget, before, scratch);
        potential.data()[t] = numbers.data()[SoftmaxNumber::RIDGE];
    }
    return 0;
}

int64_t softmax_predict(Inputs covariance, Input leader, Inputs basis, double curvature, double reg, double beta,
                        Inputs Z, Matrix logits) {
    const size_t n = leader.shape(0), K = basis.shape(0), m = basis.shape(1), rows = Z.shape(0), width = Z.shape(1);
    check(m >= 1 && K == m + 1 && covariance.shape(0) == n && covariance.shape(1) == n &&
          width * m == n && logits.shape(0) == rows && logits.shape(1) == K);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t bad = level.invalid_input(Z.data(), rows * width, nullptr, 0, false);
    if (bad) return bad;
    ServedRow row(m, n);
    EqualPrices prices(basis.data(), K, m, curvature);
    std::vector<double> v(m), b(m), moved(m);
    for (size_t t = 0; t < rows; ++t) {
        double *out = logits.data() + t * K;
        row.set_design(Z.data() + t * width);
        if (!row.look(covariance.data(), leader.data(), beta) && !row.look_fresh(reg)) {
            for (size_t i = 0; i < K; ++i) out[i] = 0.0;
            continue;
        }
        prices.find(row.m0.data(), row.M0.data(), v.data());
        multiply(row.M0.data(), v.data(), m, m, 1, moved.data());
        for (size_t i = 0; i < m; ++i) b[i] = row.m0[i] - moved[i];
        multiply(basis.data(), b.data(), K, m, 1, out);
    }
    return 0;
}

} // namespace

void bind_softmax(nb::module_ &mod) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    mod.def("softmax_play", &softmax_play, a("information"), a("covariance"), a("pull"), a("leader"), a("numbers"),
            a("basis"), nb::arg("curvature"), nb::arg("reg"), a("beta"), a("weight"), a("Z"), a("y"), a("logits"),
            a("stability"), a("potential"), nb::arg("point").noconvert() = nb::none());
    mod.def("softmax_predict", &softmax_predict, a("covariance"), a("leader"), a("basis"), nb::arg("curvature"),
            nb::arg("reg"), nb::arg("beta"), a("Z"), a("logits"));
}
