// Python bindings of the compiled kernels. Arrays in, changed in place; no Python object is touched while a loop runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <nanobind/stl/optional.h>

#include <cmath>
#include <optional>

#include "array.h"
#include "dispatch.h"
#include "hint.h"
#include "weighted_rounds.h"

namespace nb = nanobind;
using namespace undrift;

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

// A call without labels, outputs and curvatures. The shapes are checked because the loops trust them.
static LearnerCall learner_call(const State &state, const Input &beta, int64_t first, const Inputs &Z) {
    LearnerCall run{};
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

static double *output(const LearnerCall &run, const Matrix &out) {
    if (out.shape(0) != run.rounds || out.shape(1) != run.learners)
        throw nb::value_error("kernels: an output must have shape (rounds, learners)");
    return out.data();
}

static void set_labels(LearnerCall &run, const Input &y) {
    if (y.shape(0) != run.rounds) throw nb::value_error("kernels: y must have one label per row of Z");
    run.y = y.data();
}

// Run a call unless its numbers may not be used; returns the status of `invalid_input`.
template <class Run> static int64_t run_checked(const LearnerCall &run, bool binary, const Run &rounds) {
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t status = level.invalid_input(run.Z, run.rounds * run.dim, run.y, run.y ? run.rounds : 0, binary);
    if (!status && run.rounds && run.learners) rounds(level);
    return status;
}

using OptionalInput = std::optional<Input>; // one number a round, or None: 1 in all of them

// Play a call: as it is, or with the weights and times of its rounds.
static int64_t play_checked(const LearnerCall &run, bool binary, size_t threads, const OptionalInput &weight,
                            const OptionalInput &elapsed) {
    for (const OptionalInput *one : {&weight, &elapsed})
        if (one->has_value() != weight.has_value() || (*one && (*one)->shape(0) != run.rounds))
            throw nb::value_error("kernels: weight and elapsed must have one number per row of Z, or both be None");
    return run_checked(run, binary, [&](const KernelTable &level) {
        const auto play = [&](const LearnerCall &part) {
            share_units(level, binary ? level.aioli_play : level.vaw_play, part, threads);
        };
        const auto predict = [&](const LearnerCall &part) { share_units(level, level.vaw_predict, part, threads); };
        if (weight)
            play_weighted(binary, run, weight->data(), elapsed->data(), play, predict);
        else
            play(run);
    });
}

// Predict rows that might come after time `elapsed`.
static int64_t predict_checked(LearnerCall run, LearnerKernel KernelTable::*kernel, size_t threads, double elapsed) {
    AgedDiscounts room;
    set_elapsed(run, elapsed, room);
    return run_checked(run, false, [&](const KernelTable &level) { share_units(level, level.*kernel, run, threads); });
}

static int64_t vaw_play(State state, Input beta, int64_t first, Inputs Z, Input y, Matrix m, Matrix h, size_t threads,
                        OptionalInput weight, OptionalInput elapsed) {
    LearnerCall run = learner_call(state, beta, first, Z);
    set_labels(run, y);
    run.m_or_yhat = output(run, m);
    run.h_or_stability = output(run, h);
    return play_checked(run, false, threads, weight, elapsed);
}

static int64_t vaw_predict(State state, Input beta, int64_t first, Inputs Z, Matrix m, Matrix h, size_t threads,
                           double elapsed) {
    LearnerCall run = learner_call(state, beta, first, Z);
    run.m_or_yhat = output(run, m);
    run.h_or_stability = output(run, h);
    return predict_checked(run, &KernelTable::vaw_predict, threads, elapsed);
}

static int64_t aioli_play(State state, Input beta, Input inverse_curvature, int64_t first, Inputs Z, Input y,
                          Matrix yhat, Matrix stability, size_t threads, OptionalInput weight, OptionalInput elapsed,
                          std::optional<Matrix> leverage, std::optional<Matrix> point) {
    LearnerCall run = learner_call(state, beta, first, Z);
    if (inverse_curvature.shape(0) != run.learners)
        throw nb::value_error("kernels: inverse_curvature must have one number per learner");
    run.inverse_curvature = inverse_curvature.data();
    set_labels(run, y);
    run.m_or_yhat = output(run, yhat);
    run.h_or_stability = output(run, stability);
    run.leverage = leverage ? output(run, *leverage) : nullptr;
    run.point = point ? output(run, *point) : nullptr;
    return play_checked(run, true, threads, weight, elapsed);
}

static int64_t aioli_predict(State state, Input beta, int64_t first, Inputs Z, Matrix yhat, size_t threads,
                             double elapsed) {
    LearnerCall run = learner_call(state, beta, first, Z);
    run.m_or_yhat = output(run, yhat);
    return predict_checked(run, &KernelTable::aioli_predict, threads, elapsed);
}

static void hinted_predictions(Inputs m, Inputs h, Inputs hint, Input y, Matrix yhat, Matrix stability) {
    const size_t rounds = m.shape(0), members = m.shape(1);
    const auto fits = [&](const auto &a) { return a.shape(0) == rounds && a.shape(1) == members; };
    if (!fits(h) || !fits(hint) || y.shape(0) != rounds || !fits(yhat) || !fits(stability))
        throw nb::value_error("kernels: the arrays of the hinted predictions do not fit together");
    for (size_t t = 0, i = 0; t < rounds; ++t)
        for (size_t k = 0; k < members; ++k, ++i)
            yhat.data()[i] = hinted_prediction(m.data()[i], h.data()[i], hint.data()[i], y.data()[t], stability.data()[i]);
}

static void log_odds(Input m0, Input kappa, Vector m) {
    if (kappa.shape(0) != m0.shape(0) || m.shape(0) != m0.shape(0))
        throw nb::value_error("log_odds: array shapes do not fit together");
    table().log_odds(m0.data(), kappa.data(), m.data(), m0.shape(0));
}

static MixerCall mixer_call(const Vector &log_weights, const Input &log_prior, double share, const Inputs &E, const Input &y,
                  const Vector &yhat, const Vector &losses, const Matrix &weights) {
    MixerCall mix{};
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
    const MixerCall mix = mixer_call(log_weights, log_prior, share, E, y, yhat, losses, weights);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    level.mix_logistic(mix, scratch_of(level.mixer_scratch(mix)));
}

static void mix_squared(Vector log_weights, Input log_prior, double share, Vector state, int rule, double scale,
                        Inputs E, Input y, Vector yhat, Vector losses, Vector clipped_losses, Matrix weights) {
    MixerCall mix = mixer_call(log_weights, log_prior, share, E, y, yhat, losses, weights);
    if (state.shape(0) != MixerState::SIZE || clipped_losses.shape(0) != mix.members || rule < 0 || (size_t)rule >= MixingRule::SIZE)
        throw nb::value_error("kernels: the mixer's state, rule and charges do not fit together");
    mix.state = state.data();
    mix.rule = rule;
    mix.scale = scale;
    mix.log_members = std::fmax(1.0, std::log((double)mix.members));
    mix.clipped_losses = clipped_losses.data();
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    level.mix_squared(mix, scratch_of(level.mixer_scratch(mix)));
}

// A call that only predicts: without losses nothing changes.
static MixerCall predicting_call(const Input &log_weights, const Inputs &E, const Vector &yhat) {
    MixerCall mix{};
    mix.members = log_weights.shape(0);
    mix.rounds = E.shape(0);
    if (!mix.members || E.shape(1) != mix.members || yhat.shape(0) != mix.rounds)
        throw nb::value_error("kernels: the mixer's arrays do not fit together");
    mix.log_weights = const_cast<double *>(log_weights.data());
    mix.E = E.data();
    mix.yhat = yhat.data();
    return mix;
}

static void mix_logistic_predict(Input log_weights, Inputs E, Vector yhat) {
    const MixerCall mix = predicting_call(log_weights, E, yhat);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    level.mix_logistic(mix, scratch_of(level.mixer_scratch(mix)));
}

static void mix_squared_predict(Input log_weights, Input state, int rule, Inputs E, Vector yhat) {
    MixerCall mix = predicting_call(log_weights, E, yhat);
    if (state.shape(0) != MixerState::SIZE || rule < 0 || (size_t)rule >= MixingRule::SIZE)
        throw nb::value_error("kernels: the mixer's state and rule do not fit together");
    mix.state = const_cast<double *>(state.data());
    mix.rule = rule;
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    level.mix_squared(mix, scratch_of(level.mixer_scratch(mix)));
}

void bind_ensemble(nb::module_ &mod);  // ensemble.cpp
void bind_online(nb::module_ &mod); // online.cpp
void bind_estimator(nb::module_ &mod); // estimator.cpp
void bind_estimator_row(nb::module_ &mod); // estimator_row.cpp
void bind_given(nb::module_ &mod); // given_steps.cpp
void bind_o2nc(nb::module_ &mod); // o2nc.cpp
void bind_drift(nb::module_ &mod); // drift.cpp
void bind_softmax(nb::module_ &mod); // softmax.cpp
void bind_class_level(nb::module_ &mod); // class_level.cpp
void bind_outputs(nb::module_ &mod); // outputs.cpp
void bind_smoothers(nb::module_ &mod); // smoothers.cpp
void bind_steps(nb::module_ &mod); // step_weights.cpp
void bind_feature_watch(nb::module_ &mod); // feature_watch.cpp
void bind_adam(nb::module_ &mod); // adam.cpp
void bind_lock(nb::module_ &mod); // lock.cpp
void bind_trees(nb::module_ &mod); // trees.cpp

NB_MODULE(_native, mod) {
    nb::set_leak_warnings(false); // learners that live until the interpreter ends are no leak
    check_numpy();
    bind_ensemble(mod);
    bind_online(mod);
    bind_estimator(mod);
    bind_estimator_row(mod);
    bind_given(mod);
    bind_o2nc(mod);
    bind_drift(mod);
    bind_softmax(mod);
    bind_class_level(mod);
    bind_outputs(mod);
    bind_smoothers(mod);
    bind_steps(mod);
    bind_feature_watch(mod);
    bind_adam(mod);
    bind_lock(mod);
    bind_trees(mod);
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    mod.def("levels", &levels, "Levels this machine can run, best first.");
    mod.def("choose", &choose, nb::arg("level"), "Use a level from now on; False if this machine lacks it.");
    mod.def("level", [] { return table().name; }, "The level in use.");
    mod.def("mean_play", &mean_play, a("state"), a("y"), nb::arg("beta"), a("yhat"), a("stability"));
    const auto none = [](const char *name) { return nb::arg(name) = nb::none(); };
    mod.def("vaw_play", &vaw_play, a("state"), a("beta"), nb::arg("first"), a("Z"), a("y"), a("m"), a("h"),
            nb::arg("threads") = 1, none("weight"), none("elapsed"));
    mod.def("vaw_predict", &vaw_predict, a("state"), a("beta"), nb::arg("first"), a("Z"), a("m"), a("h"),
            nb::arg("threads") = 1, nb::arg("elapsed") = 1.0);
    mod.def("aioli_play", &aioli_play, a("state"), a("beta"), a("inverse_curvature"), nb::arg("first"), a("Z"), a("y"), a("yhat"),
            a("stability"), nb::arg("threads") = 1, none("weight"), none("elapsed"), none("leverage"),
            none("point"));
    mod.def("aioli_predict", &aioli_predict, a("state"), a("beta"), nb::arg("first"), a("Z"), a("yhat"),
            nb::arg("threads") = 1, nb::arg("elapsed") = 1.0);
    mod.def("hinted_predictions", &hinted_predictions, a("m"), a("h"), a("hint"), a("y"), a("yhat"), a("stability"));
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
