// Bindings of the kernels of a shared design: several outputs over one information matrix. tests/twins/outputs.py is the twin.
#include <nanobind/nanobind.h>

#include <cmath>

#include "array.h"
#include "dispatch.h"

namespace nb = nanobind;
using namespace undrift;

namespace {

OutputsCall outputs_call(const State &state, const State &theta, const Input &beta, int64_t first, const Inputs &Z,
                         const State &m, const Matrix &h) {
    OutputsCall call{};
    LearnerCall &run = call.run;
    run.state = state.data();
    run.dim = Z.shape(1);
    run.lanes = 1;
    run.learners = beta.shape(0);
    run.beta = beta.data();
    run.first = first;
    run.rounds = Z.shape(0);
    run.Z = Z.data();
    run.h_or_stability = h.data();
    call.theta = theta.data();
    call.outputs = theta.shape(2);
    call.m = m.data();
    if (state.shape(2) != 1 || state.shape(1) != InformationLayout(run.dim).size || state.shape(0) != run.learners ||
        theta.shape(0) != run.learners || theta.shape(1) != run.dim || m.shape(0) != run.rounds ||
        m.shape(1) != run.learners || m.shape(2) != call.outputs || h.shape(0) != run.rounds ||
        h.shape(1) != run.learners || first < 0)
        throw nb::value_error("kernels: the arrays of a shared design do not fit together");
    return call;
}

int64_t vaw_outputs_play(State state, State theta, Input beta, int64_t first, Inputs Z, Inputs Y, State m, Matrix h) {
    OutputsCall call = outputs_call(state, theta, beta, first, Z, m, h);
    if (Y.shape(0) != call.run.rounds || Y.shape(1) != call.outputs)
        throw nb::value_error("kernels: Y must have shape (rounds, outputs)");
    call.Y = Y.data();
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t bad = level.invalid_input(Z.data(), call.run.rounds * call.run.dim, nullptr, 0, false);
    if (bad) return bad;
    for (size_t k = 0; k < call.run.rounds * call.outputs; ++k)
        if (std::fabs(call.Y[k]) > INPUT_LIMIT) return -1 - (int64_t)k; // NaN is a label that is missing
    level.outputs_play(call, scratch_of(level.outputs_scratch(call)));
    return 0;
}

int64_t vaw_outputs_predict(State state, State theta, Input beta, int64_t first, Inputs Z, State m, Matrix h) {
    const OutputsCall call = outputs_call(state, theta, beta, first, Z, m, h);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t bad = level.invalid_input(Z.data(), call.run.rounds * call.run.dim, nullptr, 0, false);
    if (!bad) level.outputs_predict(call, scratch_of(level.outputs_scratch(call)));
    return bad;
}

} // namespace

void bind_outputs(nb::module_ &mod) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    mod.def("vaw_outputs_play", &vaw_outputs_play, a("state"), a("theta"), a("beta"), nb::arg("first"), a("Z"), a("Y"),
            a("m"), a("h"));
    mod.def("vaw_outputs_predict", &vaw_outputs_predict, a("state"), a("theta"), a("beta"), nb::arg("first"), a("Z"),
            a("m"), a("h"));
}
