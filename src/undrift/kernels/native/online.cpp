// Interval tracking and waves, round by round; reference_interval.py and reference_waves.py define them, to the bit.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>

namespace nb = nanobind;
using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Input = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using InputTable = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

namespace {

void interval_play(Vector state, Input up, Input down, Input residual) {
    constexpr double LATELY = 200.0, WILD = 10.0;
    const size_t levels = up.shape(0), rounds = residual.shape(0);
    if (down.shape(0) != levels || state.shape(0) != 2 + 2 * levels)
        throw nb::value_error("kernels: the interval's arrays do not fit together");
    double &unit = state.data()[0], &count = state.data()[1], *q = state.data() + 2, *hits = q + levels;
    nb::gil_scoped_release unlocked;
    for (size_t t = 0; t < rounds; ++t) {
        const double r = residual.data()[t];
        for (size_t k = 0; k < levels; ++k) {
            const bool inside = r <= unit * q[k];
            q[k] *= inside ? down.data()[k] : up.data()[k];
            hits[k] += inside;
        }
        count += 1.0;
        const double counted = unit > 0.0 ? std::min(r, WILD * unit) : r;
        unit += (counted - unit) / std::min(count, LATELY);
    }
}

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

}  // namespace

void bind_online(nb::module_ &m) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    m.def("interval_play", &interval_play, a("state"), a("up"), a("down"), a("residual"));
    m.def("waves", &waves, a("table"), a("X"), nb::arg("bound"), a("out"), nb::arg("first"));
}
