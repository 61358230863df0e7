// Python bindings of the compiled kernels. Arrays in, changed in place; no Python object is touched while a loop runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "array.h"
#include "dispatch.h"

namespace nb = nanobind;
using namespace undrift;

using Vector = Array<double, 1>;
using Matrix = Array<double, 2>;
using State = Array<double, 3>;
using Input = Array<const double, 1>;
using Inputs = Array<const double, 2>;

static void mean_play(Vector state, Input y, double beta, Vector yhat, Vector stability) {
    double *s = state.data();
    const double *label = y.data();
    double *prediction = yhat.data(), *price = stability.data();
    const size_t rounds = y.shape(0);
    if (state.shape(0) != 2 || yhat.shape(0) != rounds || stability.shape(0) != rounds)
        throw nb::value_error("mean_play: array shapes do not fit together");
    nb::gil_scoped_release unlocked;
    for (size_t t = 0; t < rounds; ++t) {
        const double A = beta * s[0] + 1.0;
        prediction[t] = beta * s[1] / A;
        price[t] = 0.5 * (label[t] * label[t]) / A;
        s[0] = A;
        s[1] = beta * s[1] + label[t];
    }
}

// Everything but labels, outputs and bends; the shapes are checked because the loops trust them.
static Run run_of(const State &state, const Input &beta, int64_t first, const Inputs &Z) {
    Run run{};
    run.state = state.data();
    run.dim = Z.shape(1);
    run.lanes = state.shape(2);
    run.learners = beta.shape(0);
    run.beta = beta.data();
    run.first = first;
    run.rounds = Z.shape(0);
    run.Z = Z.data();
    if ((run.lanes != 1 && run.lanes != LANES) || state.shape(1) != InformationLayout(run.dim).size ||
        state.shape(0) * run.lanes < run.learners || first < 0)
        throw nb::value_error("kernels: state, beta, first and Z do not fit together");
    return run;
}

static double *output(const Run &run, const Matrix &out) {
    if (out.shape(0) != run.rounds || out.shape(1) != run.learners)
        throw nb::value_error("kernels: an output must have shape (rounds, learners)");
    return out.data();
}

static void labels(Run &run, const Input &y) {
    if (y.shape(0) != run.rounds) throw nb::value_error("kernels: y must have one label per row of Z");
    run.y = y.data();
}

static int64_t go(const Table &level, Work work, const Run &run, bool binary, size_t threads) {
    nb::gil_scoped_release unlocked;
    const int64_t bad = level.refusal(run.Z, run.rounds * run.dim, run.y, run.y ? run.rounds : 0, binary);
    if (!bad && run.rounds && run.learners) share(level, work, run, threads);
    return bad;
}

static int64_t vaw_play(State state, Input beta, int64_t first, Inputs Z, Input y, Matrix m, Matrix h, size_t threads) {
    Run run = run_of(state, beta, first, Z);
    labels(run, y);
    run.one = output(run, m);
    run.two = output(run, h);
    return go(table(), table().vaw_play, run, false, threads);
}

static int64_t vaw_predict(State state, Input beta, int64_t first, Inputs Z, Matrix m, Matrix h, size_t threads) {
    Run run = run_of(state, beta, first, Z);
    run.one = output(run, m);
    run.two = output(run, h);
    return go(table(), table().vaw_predict, run, false, threads);
}

static int64_t aioli_play(State state, Input beta, Input bend, int64_t first, Inputs Z, Input y, Matrix yhat,
                          Matrix stability, size_t threads) {
    Run run = run_of(state, beta, first, Z);
    if (bend.shape(0) != run.learners) throw nb::value_error("kernels: bend must have one number per learner");
    run.bend = bend.data();
    labels(run, y);
    run.one = output(run, yhat);
    run.two = output(run, stability);
    return go(table(), table().aioli_play, run, true, threads);
}

static int64_t aioli_predict(State state, Input beta, int64_t first, Inputs Z, Matrix yhat, size_t threads) {
    Run run = run_of(state, beta, first, Z);
    run.one = output(run, yhat);
    return go(table(), table().aioli_predict, run, false, threads);
}

static void log_odds(Input m0, Input kappa, Vector m) {
    if (kappa.shape(0) != m0.shape(0) || m.shape(0) != m0.shape(0))
        throw nb::value_error("log_odds: array shapes do not fit together");
    table().log_odds(m0.data(), kappa.data(), m.data(), m0.shape(0));
}

static Mix mix_of(const Vector &log_weights, const Input &log_prior, double share, const Inputs &E, const Input &y,
                  const Vector &yhat, const Vector &losses, const Matrix &weights) {
    Mix mix{};
    mix.members = log_weights.shape(0);
    mix.rounds = E.shape(0);
    if (!mix.members || log_prior.shape(0) != mix.members || E.shape(1) != mix.members || y.shape(0) != mix.rounds ||
        yhat.shape(0) != mix.rounds || losses.shape(0) != mix.members ||
        (weights.shape(0) && (weights.shape(0) != mix.rounds || weights.shape(1) != mix.members)))
        throw nb::value_error("kernels: the mixer's arrays do not fit together");
    mix.log_weights = log_weights.data();
    mix.log_prior = log_prior.data();
    mix.share = share;
    mix.log_one_minus_share = std::log1p(-share);
    mix.E = E.data();
    mix.y = y.data();
    mix.yhat = yhat.data();
    mix.losses = losses.data();
    mix.weights = weights.shape(0) ? weights.data() : nullptr;
    return mix;
}

static void mix_logistic(Vector log_weights, Input log_prior, double share, Inputs E, Input y, Vector yhat,
                         Vector losses, Matrix weights) {
    const Mix mix = mix_of(log_weights, log_prior, share, E, y, yhat, losses, weights);
    const Table &level = table();
    nb::gil_scoped_release unlocked;
    level.mix_logistic(mix, scratch_of(level.mix_scratch(mix)));
}

static void mix_squared(Vector log_weights, Input log_prior, double share, Vector state, int rule, double scale,
                        Inputs E, Input y, Vector yhat, Vector losses, Vector clipped_losses, Matrix weights) {
    Mix mix = mix_of(log_weights, log_prior, share, E, y, yhat, losses, weights);
    if (state.shape(0) != MixerState::SIZE || clipped_losses.shape(0) != mix.members || rule < 0 || (size_t)rule >= MixingRule::SIZE)
        throw nb::value_error("kernels: the mixer's state, rule and charges do not fit together");
    mix.state = state.data();
    mix.rule = rule;
    mix.scale = scale;
    mix.log_members = std::fmax(1.0, std::log((double)mix.members));
    mix.clipped_losses = clipped_losses.data();
    const Table &level = table();
    nb::gil_scoped_release unlocked;
    level.mix_squared(mix, scratch_of(level.mix_scratch(mix)));
}

static Mix peek_of(const Input &log_weights, const Inputs &E, const Vector &yhat) {
    Mix mix{};
    mix.members = log_weights.shape(0);
    mix.rounds = E.shape(0);
    if (!mix.members || E.shape(1) != mix.members || yhat.shape(0) != mix.rounds)
        throw nb::value_error("kernels: the mixer's arrays do not fit together");
    mix.log_weights = const_cast<double *>(log_weights.data()); // without losses nothing changes
    mix.E = E.data();
    mix.yhat = yhat.data();
    return mix;
}

static void mix_logistic_predict(Input log_weights, Inputs E, Vector yhat) {
    const Mix mix = peek_of(log_weights, E, yhat);
    const Table &level = table();
    nb::gil_scoped_release unlocked;
    level.mix_logistic(mix, scratch_of(level.mix_scratch(mix)));
}

static void mix_squared_predict(Input log_weights, Input state, int rule, Inputs E, Vector yhat) {
    Mix mix = peek_of(log_weights, E, yhat);
    if (state.shape(0) != MixerState::SIZE || rule < 0 || (size_t)rule >= MixingRule::SIZE)
        throw nb::value_error("kernels: the mixer's state and rule do not fit together");
    mix.state = const_cast<double *>(state.data());
    mix.rule = rule;
    const Table &level = table();
    nb::gil_scoped_release unlocked;
    level.mix_squared(mix, scratch_of(level.mix_scratch(mix)));
}

void bind_round(nb::module_ &mod);  // round.cpp
void bind_online(nb::module_ &mod); // online.cpp
void bind_o2nc(nb::module_ &mod); // o2nc.cpp
void bind_adam(nb::module_ &mod); // adam.cpp
void bind_tensors(nb::module_ &mod); // tensors.cpp
void bind_lock(nb::module_ &mod); // lock.cpp

NB_MODULE(_native, mod) {
    nb::set_leak_warnings(false); // learners that live until the interpreter ends are no leak
    learn_numpy();
    bind_round(mod);
    bind_online(mod);
    bind_o2nc(mod);
    bind_adam(mod);
    bind_tensors(mod);
    bind_lock(mod);
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    mod.def("levels", &levels, "Levels this machine can run, best first.");
    mod.def("choose", &choose, nb::arg("level"), "Use a level from now on; False if this machine lacks it.");
    mod.def("level", [] { return table().name; }, "The level in use.");
    mod.def("mean_play", &mean_play, a("state"), a("y"), nb::arg("beta"), a("yhat"), a("stability"));
    mod.def("vaw_play", &vaw_play, a("state"), a("beta"), nb::arg("first"), a("Z"), a("y"), a("m"), a("h"),
            nb::arg("threads") = 1);
    mod.def("vaw_predict", &vaw_predict, a("state"), a("beta"), nb::arg("first"), a("Z"), a("m"), a("h"),
            nb::arg("threads") = 1);
    mod.def("aioli_play", &aioli_play, a("state"), a("beta"), a("bend"), nb::arg("first"), a("Z"), a("y"), a("yhat"),
            a("stability"), nb::arg("threads") = 1);
    mod.def("aioli_predict", &aioli_predict, a("state"), a("beta"), nb::arg("first"), a("Z"), a("yhat"),
            nb::arg("threads") = 1);
    mod.def("multiply_adds", [](size_t n) { return table().multiply_adds(n); }, nb::arg("n"),
            "Do n times a fixed number of independent multiply-adds; return how many.");
    mod.def("stream", [](Vector data, size_t n) { table().stream(data.data(), data.shape(0), n); }, a("data"),
            nb::arg("n"), "Read and write an array n times.");
    mod.def("mix_logistic", &mix_logistic, a("log_weights"), a("log_prior"), nb::arg("share"), a("E"), a("y"),
            a("yhat"), a("losses"), a("weights"));
    mod.def("mix_squared", &mix_squared, a("log_weights"), a("log_prior"), nb::arg("share"), a("state"),
            nb::arg("rule"), nb::arg("scale"), a("E"), a("y"), a("yhat"), a("losses"), a("clipped_losses"), a("weights"));
    mod.def("mix_logistic_predict", &mix_logistic_predict, a("log_weights"), a("E"), a("yhat"));
    mod.def("mix_squared_predict", &mix_squared_predict, a("log_weights"), a("state"), nb::arg("rule"), a("E"),
            a("yhat"));
    mod.def("log_odds", &log_odds, a("m0"), a("kappa"), a("m"),
            "Fill m with the roots of m + kappa tanh(m/2) = m0.");
}
