// Python bindings of the compiled kernels. Arrays in, changed in place; no Python object is touched while a loop runs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;
using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Input = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

static void mean_play(Vector state, Input y, double beta, Vector yhat, Vector stability) {
    double *s = state.data();
    const double *label = y.data();
    double *prediction = yhat.data(), *price = stability.data();
    const size_t rounds = y.shape(0);
    nb::gil_scoped_release unlocked;
    for (size_t t = 0; t < rounds; ++t) {
        const double A = beta * s[0] + 1.0;
        prediction[t] = beta * s[1] / A;
        price[t] = 0.5 * (label[t] * label[t]) / A;
        s[0] = A;
        s[1] = beta * s[1] + label[t];
    }
}

void bind_o2nc(nb::module_ &m);  // o2nc.cpp

NB_MODULE(_native, m) {
    bind_o2nc(m);
    m.def("mean_play", &mean_play, nb::arg("state").noconvert(), nb::arg("y").noconvert(), nb::arg("beta"),
          nb::arg("yhat").noconvert(), nb::arg("stability").noconvert());
}
