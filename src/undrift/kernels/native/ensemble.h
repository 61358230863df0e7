// Whole rounds of an ensemble in one call: its learners, what each member predicts from them, and the mixture. The twin is
// tests/twins/ensemble.py.
#pragma once
#include "hint.h"

namespace {

constexpr size_t BLOCK_ROUNDS = 128; // rounds at a time, so that the predictions between the steps stay in cache

size_t padded(size_t n) { return (n + 7) & ~size_t(7); } // to whole cache lines

// Scratch of a call: the learners' own, m and h of each learner, the members' predictions E, and the mixer's own.
struct EnsembleScratch {
    double *learners, *m, *h, *E, *mixer, *end;
    EnsembleScratch(const EnsembleCall &r, double *scratch) {
        const size_t rows = r.run.rounds < BLOCK_ROUNDS ? r.run.rounds : BLOCK_ROUNDS;
        const size_t outputs = padded(rows * r.run.learners);
        learners = scratch;
        m = learners + padded(learner_scratch(r.run));
        h = m + outputs;
        E = h + outputs;
        mixer = E + padded(rows * r.members);
        end = mixer + mixer_scratch(r.mix);
    }
};

size_t ensemble_scratch(const EnsembleCall &r) {
    return (size_t)(EnsembleScratch(r, nullptr).end - (double *)nullptr);
}

size_t units_of(const LearnerCall &run) { return run.lanes == 1 ? run.learners : (run.learners + W - 1) / W; }

template <int HINT, class X> INLINE X hint_value(X m, double last_label) {
    return HINT == Hint::ZERO ? like(m, 0.0) : HINT == Hint::LAST ? like(m, last_label) : m;
}

// Predictions of the first n members, of which member i follows learner i and all have one hint.
template <int HINT>
static void predict_in_order(size_t n, const double *m, const double *h, double y, double last_label, double *E,
                             double *sums) {
    size_t i = 0;
    for (; i + W <= n; i += W) {
        const V leader = load(m + i);
        V stability;
        store(E + i, hinted_prediction(leader, load(h + i), hint_value<HINT>(leader, last_label), all(y), stability));
        if (sums) store(sums + i, load(sums + i) + stability);
    }
    for (; i < n; ++i) {
        double stability;
        E[i] = hinted_prediction(m[i], h[i], hint_value<HINT>(m[i], last_label), y, stability);
        if (sums) sums[i] += stability;
    }
}

// Fill E with the members' predictions for one row from the learners' m and h, and add their stability to `sums`. Without
// `sums` the label y does not matter.
static void predict_members(const EnsembleCall &r, const double *m, const double *h, double y, double last_label,
                            double *E, double *sums) {
    if (r.in_order) {
        const auto predict = r.hint[0] == Hint::ZERO   ? predict_in_order<Hint::ZERO>
                             : r.hint[0] == Hint::LAST ? predict_in_order<Hint::LAST>
                                                       : predict_in_order<Hint::RIDGE>;
        predict(r.in_order, m, h, y, last_label, E, sums);
    }
    for (size_t i = r.in_order; i < r.members; ++i) {
        const int64_t a = r.leader[i];
        double stability = 0.5 * (y * y); // the loss of a member that predicts 0
        if (a < 0) {
            E[i] = 0.0;
        } else {
            const double hint = r.hint[i] == Hint::ZERO ? 0.0 : r.hint[i] == Hint::LAST ? last_label : m[a];
            E[i] = hinted_prediction(m[a], h[a], hint, y, stability);
        }
        if (sums) sums[i] += stability;
    }
}

// The same for logistic loss: the learners' own log-odds and stability, in the order of the members.
static void predict_members_log_odds(const EnsembleCall &r, const double *log_odds, const double *stability, double *E,
                                     double *sums) {
    memcpy(E, log_odds, r.in_order * sizeof(double));
    for (size_t i = 0; sums && i < r.in_order; ++i) sums[i] += stability[i];
    for (size_t i = r.in_order; i < r.members; ++i) {
        const int64_t a = r.leader[i];
        E[i] = a < 0 ? 0.0 : log_odds[a];
        if (sums) sums[i] += a < 0 ? 0.6931471805599453 : stability[a]; // ln 2: the loss of a member that predicts 0
    }
}

// Mix the members' predictions E for the rows from t on; with `close` their rounds are closed.
static void mix_members(const EnsembleCall &r, const double *E, size_t t, size_t rows, bool close, double *scratch) {
    if (!r.mix.log_weights) {
        memcpy(r.yhat + t, E, rows * sizeof(double)); // one member
        return;
    }
    MixerCall mix = r.mix;
    mix.E = E;
    mix.y = close ? r.run.y + t : nullptr;
    mix.rounds = rows;
    mix.yhat = r.yhat + t;
    if (mix.weights) mix.weights += t * r.members;
    if (!close) mix.losses = nullptr;
    (r.binary ? mix_logistic : mix_squared)(mix, scratch);
    if (close && r.binary) r.mix.state[0] += (double)rows; // the cost of a fixed share is counted in rounds
}

// The members' predictions and their mixture for the rows of `run`, which begin at row t of the call, once the learners'
// outputs are in the scratch.
static void predict_and_mix(const EnsembleCall &r, const LearnerCall &run, size_t t, bool close,
                            const EnsembleScratch &scratch) {
    double last_label = r.binary ? 0.0 : r.last_label[0];
    for (size_t k = 0; k < run.rounds; ++k) {
        const double *m = scratch.m + k * run.learners, *h = scratch.h + k * run.learners;
        double *E = scratch.E + k * r.members, *sums = close ? r.stability : nullptr;
        if (r.binary)
            predict_members_log_odds(r, m, h, E, sums);
        else
            predict_members(r, m, h, close ? run.y[k] : 0.0, last_label, E, sums);
        if (close) last_label = run.y[k];
    }
    if (close && !r.binary) r.last_label[0] = last_label;
    mix_members(r, scratch.E, t, run.rounds, close, scratch.mixer);
}

static void ensemble_rounds(const EnsembleCall &r, bool close, double *memory) {
    const EnsembleScratch scratch(r, memory);
    for (size_t t = 0; t < r.run.rounds; t += BLOCK_ROUNDS) {
        LearnerCall run = r.run;
        run.first += close ? (int64_t)t : 0;
        run.Z += t * run.dim;
        if (close) run.y += t;
        run.rounds = run.rounds - t < BLOCK_ROUNDS ? run.rounds - t : BLOCK_ROUNDS;
        run.m_or_yhat = scratch.m;
        run.h_or_stability = scratch.h;
        const auto work = close ? (r.binary ? aioli_play : vaw_play) : (r.binary ? aioli_predict : vaw_predict);
        work(run, 0, units_of(run), scratch.learners);
        predict_and_mix(r, run, t, close, scratch);
    }
}

void ensemble_play(const EnsembleCall &r, double *scratch) { ensemble_rounds(r, true, scratch); }
void ensemble_predict(const EnsembleCall &r, double *scratch) { ensemble_rounds(r, false, scratch); }

} // namespace
