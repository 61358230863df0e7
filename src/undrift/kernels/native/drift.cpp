// Rounds of DriftVAW: least squares over paths that pay for moving. reference_drift.py is the twin, and explains the
// recursion. Learners are independent of each other; each keeps a symmetric matrix P, stored whole.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cmath>
#include <optional>
#include <vector>

#include "array.h"
#include "definitions.h"
#include "dispatch.h"

namespace nb = nanobind;
using namespace undrift;

namespace {

double dot(const double *a, const double *b, size_t d) {
    double sum = 0.0;
    for (size_t j = 0; j < d; ++j) sum += a[j] * b[j];
    return sum;
}

struct Look {
    double m, h;
    size_t event;
};

// What a row z is to a learner (P, x): fills w = P z. Beyond the largest leverage it starts afresh, or ignores the row.
// A weight above 1 counts in the leverage.
Look look(const double *P, const double *x, const double *z, size_t d, double reg, double *w, double weight = 1.0) {
    const double limit = weight > 1.0 ? LEVERAGE_LIMIT / weight : LEVERAGE_LIMIT;
    for (size_t j = 0; j < d; ++j) w[j] = dot(P + j * d, z, d);
    double h = dot(z, w, d);
    if (h <= limit) return {dot(z, x, d), h, DriftEvent::LEARNED};
    for (size_t j = 0; j < d; ++j) w[j] = z[j] / reg;
    h = dot(z, w, d);
    if (h <= limit) return {0.0, h, DriftEvent::RESTARTED};
    return {0.0, 0.0, DriftEvent::IGNORED};
}

// P <- (I - K z') P (I - K z')' + K K' with K = w / (1 + h), w = P z: the lower half is computed and mirrored.
void update(double *P, const double *z, size_t d, double part, const double *w, double *K, double *b) {
    for (size_t j = 0; j < d; ++j) K[j] = w[j] * part;
    for (size_t r = 0; r < d; ++r)
        for (size_t c = 0; c <= r; ++c) P[r * d + c] = P[c * d + r] = P[r * d + c] - K[r] * w[c];
    for (size_t j = 0; j < d; ++j) b[j] = dot(P + j * d, z, d) - K[j];
    for (size_t r = 0; r < d; ++r)
        for (size_t c = 0; c <= r; ++c) P[r * d + c] = P[c * d + r] = P[r * d + c] - b[r] * K[c];
}

void check(bool fits) {
    if (!fits) throw nb::value_error("kernels: the arrays of a drift kernel do not fit together");
}

int64_t drift_play(State covariance, Matrix leader, Matrix counts, Input reg, Input step, int64_t first, Inputs Z,
                   Input y, Matrix m, Matrix h, Matrix event, std::optional<Input> weight,
                   std::optional<Input> elapsed) {
    const size_t n = reg.shape(0), d = Z.shape(1), rounds = Z.shape(0);
    check(covariance.shape(0) == n && covariance.shape(1) == d && covariance.shape(2) == d && leader.shape(0) == n &&
          leader.shape(1) == d && counts.shape(0) == n && counts.shape(1) == DriftCount::SIZE && step.shape(0) == n &&
          y.shape(0) == rounds && first >= 0 && (!weight || weight->shape(0) == rounds) &&
          (!elapsed || elapsed->shape(0) == rounds));
    for (const Matrix *out : {&m, &h, &event}) check(out->shape(0) == rounds && out->shape(1) == n);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t bad = level.invalid_input(Z.data(), rounds * d, y.data(), rounds, false);
    if (bad) return bad;
    std::vector<double> scratch(4 * d);
    double *w = scratch.data(), *K = w + d, *b = K + d, *scaled = b + d;
    for (size_t i = 0; i < n; ++i) {
        double *P = covariance.data() + i * d * d, *x = leader.data() + i * d;
        double *sums = counts.data() + i * DriftCount::SIZE;
        for (size_t t = 0; t < rounds; ++t) {
            const double *z = Z.data() + t * d;
            const double count = weight ? weight->data()[t] : 1.0, root = std::sqrt(count);
            const double moved = elapsed ? elapsed->data()[t] * step.data()[i] : step.data()[i];
            if (first + (int64_t)t)
                for (size_t j = 0; j < d; ++j) P[j * d + j] += moved;
            const Look row = look(P, x, z, d, reg.data()[i], w, count);
            m.data()[t * n + i] = row.m;
            h.data()[t * n + i] = row.h;
            event.data()[t * n + i] = (double)row.event;
            if (row.event != DriftEvent::LEARNED) {
                for (size_t j = 0; j < d * d; ++j) P[j] = 0.0;
                for (size_t j = 0; j < d; ++j) P[j * d + j] = 1.0 / reg.data()[i], x[j] = 0.0;
                sums[DriftCount::RESTARTS] += 1.0;
            }
            if (row.event == DriftEvent::IGNORED) {
                sums[DriftCount::IGNORED] += 1.0;
                continue;
            }
            // The row counts `count` times: it is learned as sqrt(count) z with the label sqrt(count) y.
            for (size_t j = 0; j < d; ++j) scaled[j] = root * z[j], w[j] *= root;
            const double miss = root * (y.data()[t] - row.m), part = 1.0 / (1.0 + count * row.h);
            update(P, scaled, d, part, w, K, b);
            for (size_t j = 0; j < d; ++j) x[j] += K[j] * miss;
            sums[DriftCount::LEAST] += 0.5 * miss * miss * part;
        }
    }
    return 0;
}

int64_t drift_predict(State covariance, Matrix leader, Input reg, Input step, int64_t first, Inputs Z, Matrix m,
                      Matrix h, double elapsed) {
    const size_t n = reg.shape(0), d = Z.shape(1), rows = Z.shape(0);
    check(covariance.shape(0) == n && covariance.shape(1) == d && covariance.shape(2) == d && leader.shape(0) == n &&
          leader.shape(1) == d && step.shape(0) == n && m.shape(0) == rows && m.shape(1) == n && h.shape(0) == rows &&
          h.shape(1) == n && first >= 0);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t bad = level.invalid_input(Z.data(), rows * d, nullptr, 0, false);
    if (bad) return bad;
    std::vector<double> P(d * d), w(d);
    for (size_t i = 0; i < n; ++i) {
        P.assign(covariance.data() + i * d * d, covariance.data() + (i + 1) * d * d);
        if (first)
            for (size_t j = 0; j < d; ++j) P[j * d + j] += elapsed * step.data()[i];
        for (size_t t = 0; t < rows; ++t) {
            const Look row = look(P.data(), leader.data() + i * d, Z.data() + t * d, d, reg.data()[i], w.data());
            m.data()[t * n + i] = row.m;
            h.data()[t * n + i] = row.h;
        }
    }
    return 0;
}

} // namespace

void bind_drift(nb::module_ &mod) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    mod.def("drift_play", &drift_play, a("covariance"), a("leader"), a("counts"), a("reg"), a("step"), nb::arg("first"),
            a("Z"), a("y"), a("m"), a("h"), a("event"), nb::arg("weight") = nb::none(), nb::arg("elapsed") = nb::none());
    mod.def("drift_predict", &drift_predict, a("covariance"), a("leader"), a("reg"), a("step"), nb::arg("first"), a("Z"),
            a("m"), a("h"), nb::arg("elapsed") = 1.0);
}
