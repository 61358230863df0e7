// Rows of a whole run as an online estimator scales them, for its design, and waves; tests/twins/rows.py and tests/twins/waves.py
// define it, to the bit.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace nb = nanobind;
using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Input = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using InputTable = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

namespace {

// The integer below x; exact below 2^51, where waves live.
inline double below(double x) {
    const double near = (x + 6755399441055744.0) - 6755399441055744.0;
    return near > x ? near - 1.0 : near;
}

void waves(InputTable table, InputTable X, double bound, Table out, size_t first) {
    const size_t count = table.shape(0), rows = X.shape(0), dim = X.shape(1), stride = out.shape(1);
    if (table.shape(1) != 5 || out.shape(0) != rows || first + count > stride)
        throw nb::value_error("kernels: the waves' arrays do not fit together");
    for (size_t k = 0; k < 5 * count; k += 5)
        if (!(table.data()[k] >= 0.0 && table.data()[k] < dim && table.data()[k + 1] >= 0.0 && table.data()[k + 1] < dim))
            throw nb::value_error("kernels: a wave asks for a feature that is not there");
    nb::gil_scoped_release unlocked;
    const double size = 16.0 * std::sqrt(2.0 / static_cast<double>(count));
    for (size_t t = 0; t < rows; ++t) {
        const double *x = X.data() + t * dim;
        double *to = out.data() + t * stride + first;
        for (size_t k = 0; k < count; ++k) {
            const double *w = table.data() + 5 * k;
            const double a = std::min(std::max(x[static_cast<size_t>(w[0])], -bound), bound) * w[2];
            const double b = std::min(std::max(x[static_cast<size_t>(w[1])], -bound), bound) * w[3];
            to[k] = (a + b) + w[4];
        }
        for (size_t k = 0; k < count; ++k) {
            const double turn = to[k] - below(to[k]) - 0.5;
            to[k] = (turn * (0.5 - std::fabs(turn))) * size;
        }
    }
}

constexpr double CREEP = 1.05, LEAP = 2.0, WIDEST = 1e60;

void fill_rows(Vector value, Vector seen, Vector missing, InputTable Z, Table out) {
    const size_t rounds = Z.shape(0), dim = Z.shape(1);
    if (value.shape(0) != dim || seen.shape(0) != dim || missing.shape(0) != dim || out.shape(0) != rounds ||
        out.shape(1) != dim)
        throw nb::value_error("kernels: the arrays of the rows do not fit together");
    const double never = std::numeric_limits<double>::quiet_NaN();
    double *last = value.data(), *known = seen.data(), *holes = missing.data();
    nb::gil_scoped_release unlocked;
    for (size_t t = 0; t < rounds; ++t) {
        const double *z = Z.data() + t * dim;
        double *to = out.data() + t * dim;
        std::copy(z, z + dim, to);
        size_t whole = 1;
        for (size_t j = 0; j < dim; ++j) whole &= z[j] == z[j];
        if (whole) continue;
        for (size_t j = 0; j < dim; ++j)
            if (z[j] != z[j]) {
                to[j] = t > 0 ? (to - dim)[j] : known[j] != 0.0 ? last[j] : never;
                holes[j] += 1.0;
            }
    }
    for (size_t j = 0; rounds > 0 && j < dim; ++j) {
        const double now = out.data()[(rounds - 1) * dim + j];
        if (now == now) {
            last[j] = now;
            known[j] = 1.0;
        }
    }
}

void scale_rows(Input center, Vector scale, Vector limit, Vector exceeded, double first, InputTable Z, Table out) {
    const size_t rounds = Z.shape(0), dim = Z.shape(1);
    if (center.shape(0) != dim || scale.shape(0) != dim || limit.shape(0) != dim || exceeded.shape(0) != dim ||
        out.shape(0) != rounds || out.shape(1) != dim)
        throw nb::value_error("kernels: the arrays of the rows do not fit together");
    const double *mid = center.data();
    double *unit = scale.data(), *most = limit.data(), *when = exceeded.data();
    nb::gil_scoped_release unlocked;
    for (size_t t = 0; t < rounds; ++t) {
        const double *z = Z.data() + t * dim, now = first + static_cast<double>(t);
        double *to = out.data() + t * dim, odd = 0.0;
        for (size_t j = 0; j < dim; ++j) {
            const double away = z[j] == z[j] ? z[j] - mid[j] : 0.0, x = away / unit[j];
            to[j] = x;
            odd += std::fabs(x) <= most[j] ? 0.0 : 1.0;  // beyond, or asleep: 0 / 0 and infinity
        }
        if (odd == 0.0) continue;
        for (size_t j = 0; j < dim; ++j) {
            if (std::fabs(to[j]) <= most[j]) continue;
            const double away = z[j] == z[j] ? z[j] - mid[j] : 0.0;
            if (unit[j] == 0.0) unit[j] = std::fabs(away);
            double x = unit[j] > 0.0 ? away / unit[j] : away;
            if (std::fabs(x) > most[j]) {
                most[j] = std::min(most[j] * (when[j] == now - 1.0 ? LEAP : CREEP), WIDEST);
                x = std::copysign(std::min(std::fabs(x), most[j]), x);
                when[j] = now;
            }
            to[j] = x;
        }
    }
}

}  // namespace

void bind_online(nb::module_ &m) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    m.def("waves", &waves, a("table"), a("X"), nb::arg("bound"), a("out"), nb::arg("first"));
    m.def("fill_rows", &fill_rows, a("value"), a("seen"), a("missing"), a("Z"), a("out"));
    m.def("scale_rows", &scale_rows, a("center"), a("scale"), a("limit"), a("exceeded"), nb::arg("first"), a("Z"), a("out"));
}
