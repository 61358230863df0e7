// Rounds of DriftVAW: least squares over paths that pay for moving. tests/twins/drift.py is the twin, and explains the
// recursion. Learners are independent of each other; each keeps an upper triangular factor R of its covariance P = R'R,
// stored as a whole matrix, and changes it by plane rotations only: P stays positive definite whatever is rounded.
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

// What a row z is to a learner (R, x) that may have moved: h = |R z|^2 + moved |z|^2. Beyond the largest leverage it starts
// afresh, or ignores the row. A weight above 1 counts in the leverage. Predicting and playing share this, to the bit.
Look look(const double *R, const double *x, const double *z, size_t d, double reg, double moved, double weight = 1.0) {
    const double limit = weight > 1.0 ? LEVERAGE_LIMIT / weight : LEVERAGE_LIMIT, square = dot(z, z, d);
    double h = 0.0;
    for (size_t k = 0; k < d; ++k) {
        const double seen = dot(R + k * d + k, z + k, d - k);
        h += seen * seen;
    }
    h += moved * square;
    if (h <= limit) return {dot(z, x, d), h, DriftEvent::LEARNED};
    h = square / reg;
    if (h <= limit) return {0.0, h, DriftEvent::RESTARTED};
    return {0.0, 0.0, DriftEvent::IGNORED};
}

// Rotate two rows of n numbers: a <- c a + s b, b <- c b - s a.
void rotate(double *a, double *b, size_t n, double c, double s) {
    for (size_t j = 0; j < n; ++j) {
        const double old = a[j];
        a[j] = c * old + s * b[j];
        b[j] = c * b[j] - s * old;
    }
}

// R'R <- R'R + moved I: the rows of sqrt(moved) I are rotated into R one after the other. O(d^3 / 6) rotated numbers.
void add_movement(double *R, size_t d, double moved, double *row) {
    const double root = std::sqrt(moved);
    if (!(root > 0.0)) return;
    for (size_t i = 0; i < d; ++i) {
        for (size_t j = i; j < d; ++j) row[j] = 0.0;
        row[i] = root;
        for (size_t k = i; k < d; ++k) {
            const double a = R[k * d + k], b = row[k], r = std::sqrt(a * a + b * b);
            if (!(r > 0.0)) continue;
            R[k * d + k] = r;
            rotate(R + k * d + k + 1, row + k + 1, d - k - 1, a / r, b / r);
        }
    }
}

// R'R <- R'R - (1 + h) K K', K = R'R z / (1 + h), h = |R z|^2: the column R z is rotated into a first row (1, 0), which
// becomes sqrt(1 + h) (1, K'). From the last row on, so that R stays triangular. Fills K. O(d^2).
void learn_row(double *R, const double *z, size_t d, double *seen, double *K) {
    for (size_t k = 0; k < d; ++k) {
        seen[k] = dot(R + k * d + k, z + k, d - k);
        K[k] = 0.0;
    }
    double top = 1.0;
    for (size_t k = d; k-- > 0;) {
        const double r = std::sqrt(top * top + seen[k] * seen[k]);
        rotate(K + k, R + k * d + k, d - k, top / r, seen[k] / r);
        top = r;
    }
    for (size_t j = 0; j < d; ++j) K[j] /= top;
}

void check(bool fits) {
    if (!fits) throw nb::value_error("kernels: the arrays of a drift kernel do not fit together");
}

int64_t drift_play(State factor, Matrix leader, Matrix counts, Input reg, Input step, int64_t first, Inputs Z,
                   Input y, Matrix m, Matrix h, Matrix event, std::optional<Input> weight,
                   std::optional<Input> elapsed, std::optional<Matrix> gains) {
    const size_t n = reg.shape(0), d = Z.shape(1), rounds = Z.shape(0);
    check(factor.shape(0) == n && factor.shape(1) == d && factor.shape(2) == d && leader.shape(0) == n &&
          leader.shape(1) == d && counts.shape(0) == n && counts.shape(1) == DriftCount::SIZE && step.shape(0) == n &&
          y.shape(0) == rounds && first >= 0 && (!weight || weight->shape(0) == rounds) &&
          (!elapsed || elapsed->shape(0) == rounds) &&
          (!gains || (n == 1 && gains->shape(0) == rounds && gains->shape(1) == d)));
    for (const Matrix *out : {&m, &h, &event}) check(out->shape(0) == rounds && out->shape(1) == n);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t bad = level.invalid_input(Z.data(), rounds * d, y.data(), rounds, false);
    if (bad) return bad;
    std::vector<double> scratch(4 * d);
    double *row = scratch.data(), *K = row + d, *seen = K + d, *scaled = seen + d;
    for (size_t i = 0; i < n; ++i) {
        double *R = factor.data() + i * d * d, *x = leader.data() + i * d;
        double *sums = counts.data() + i * DriftCount::SIZE;
        for (size_t t = 0; t < rounds; ++t) {
            const double *z = Z.data() + t * d;
            const double count = weight ? weight->data()[t] : 1.0, root = std::sqrt(count);
            const double time = elapsed ? elapsed->data()[t] : 1.0;
            const double moved = first + (int64_t)t ? time * step.data()[i] : 0.0;
            const Look found = look(R, x, z, d, reg.data()[i], moved, count);
            m.data()[t * n + i] = found.m;
            h.data()[t * n + i] = found.h;
            event.data()[t * n + i] = (double)found.event;
            if (found.event == DriftEvent::LEARNED) {
                add_movement(R, d, moved, row);
            } else {
                for (size_t j = 0; j < d * d; ++j) R[j] = 0.0;
                for (size_t j = 0; j < d; ++j) R[j * d + j] = 1.0 / std::sqrt(reg.data()[i]), x[j] = 0.0;
                sums[DriftCount::RESTARTS] += 1.0;
            }
            if (found.event == DriftEvent::IGNORED) {
                sums[DriftCount::IGNORED] += 1.0;
                if (gains)
                    for (size_t j = 0; j < d; ++j) gains->data()[t * d + j] = 0.0;
                continue;
            }
            // The row counts `count` times: it is learned as sqrt(count) z with the label sqrt(count) y.
            for (size_t j = 0; j < d; ++j) scaled[j] = root * z[j];
            const double miss = root * (y.data()[t] - found.m);
            learn_row(R, scaled, d, seen, K);
            for (size_t j = 0; j < d; ++j) x[j] += K[j] * miss;
            sums[DriftCount::LEAST] += 0.5 * miss * miss / (1.0 + count * found.h);
            if (gains)
                for (size_t j = 0; j < d; ++j) gains->data()[t * d + j] = K[j];
        }
    }
    return 0;
}

int64_t drift_predict(State factor, Matrix leader, Input reg, Input step, int64_t first, Inputs Z, Matrix m, Matrix h,
                      double elapsed) {
    const size_t n = reg.shape(0), d = Z.shape(1), rows = Z.shape(0);
    check(factor.shape(0) == n && factor.shape(1) == d && factor.shape(2) == d && leader.shape(0) == n &&
          leader.shape(1) == d && step.shape(0) == n && m.shape(0) == rows && m.shape(1) == n && h.shape(0) == rows &&
          h.shape(1) == n && first >= 0);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t bad = level.invalid_input(Z.data(), rows * d, nullptr, 0, false);
    if (bad) return bad;
    for (size_t i = 0; i < n; ++i) {
        const double *R = factor.data() + i * d * d, *x = leader.data() + i * d;
        const double moved = first ? elapsed * step.data()[i] : 0.0;
        for (size_t t = 0; t < rows; ++t) {
            const Look found = look(R, x, Z.data() + t * d, d, reg.data()[i], moved);
            m.data()[t * n + i] = found.m;
            h.data()[t * n + i] = found.h;
        }
    }
    return 0;
}

// The two recursions over stored gains of a single learner; tests/twins/drift.py says what they are for.
void drift_residuals(Inputs Z, Inputs gains, Input error, Input start, Vector out) {
    const size_t d = Z.shape(1), rounds = Z.shape(0);
    check(gains.shape(0) == rounds && gains.shape(1) == d && error.shape(0) == rounds && start.shape(0) == rounds &&
          out.shape(0) == rounds);
    nb::gil_scoped_release unlocked;
    std::vector<double> to_come(d, 0.0);
    for (size_t t = rounds; t-- > 0;) {
        const double *z = Z.data() + t * d;
        const double s = -error.data()[t] - dot(gains.data() + t * d, to_come.data(), d);
        out.data()[t] = s;
        for (size_t j = 0; j < d; ++j) to_come[j] = start.data()[t] != 0.0 ? 0.0 : to_come[j] + s * z[j];
    }
}

void drift_errors(Inputs Z, Inputs gains, Input y, Input start, Vector out) {
    const size_t d = Z.shape(1), rounds = Z.shape(0);
    check(gains.shape(0) == rounds && gains.shape(1) == d && y.shape(0) == rounds && start.shape(0) == rounds &&
          out.shape(0) == rounds);
    nb::gil_scoped_release unlocked;
    std::vector<double> x(d, 0.0);
    for (size_t t = 0; t < rounds; ++t) {
        if (start.data()[t] != 0.0) x.assign(d, 0.0);
        const double missed = y.data()[t] - dot(Z.data() + t * d, x.data(), d);
        out.data()[t] = missed;
        for (size_t j = 0; j < d; ++j) x[j] += missed * gains.data()[t * d + j];
    }
}

} // namespace

void bind_drift(nb::module_ &mod) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    mod.def("drift_play", &drift_play, a("factor"), a("leader"), a("counts"), a("reg"), a("step"), nb::arg("first"),
            a("Z"), a("y"), a("m"), a("h"), a("event"), nb::arg("weight") = nb::none(), nb::arg("elapsed") = nb::none(),
            nb::arg("gains") = nb::none());
    mod.def("drift_predict", &drift_predict, a("factor"), a("leader"), a("reg"), a("step"), nb::arg("first"), a("Z"),
            a("m"), a("h"), nb::arg("elapsed") = 1.0);
    mod.def("drift_residuals", &drift_residuals, a("Z"), a("gains"), a("error"), a("start"), a("out"));
    mod.def("drift_errors", &drift_errors, a("Z"), a("gains"), a("y"), a("start"), a("out"));
}
