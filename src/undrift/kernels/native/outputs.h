// Several outputs over one information matrix: rounds of one learner by itself (single_learner.h) whose right-hand side is
// a matrix, theta (dim, outputs). The update of L does not depend on labels: one pass over L serves all outputs, and a
// second one over theta does for each output what vaw_single does for its only one, operation by operation.
#pragma once
#include "single_learner.h"

namespace {

// What a round leaves of each feature for the pass over theta: p, the gain, and keep < 1 where the form is convex.
struct SolvedRow {
    double *p, *gain, *keep;
    SolvedRow(double *scratch, size_t d) : p(scratch), gain(p + d), keep(gain + d) {}
};

// Sum up p_j theta_j for N vectors of outputs from column k on.
template <int N> INLINE void predict_outputs(const double *theta, size_t outputs, size_t k, const double *p, size_t d, double *m) {
    V sum[N];
    UNROLL for (int i = 0; i < N; ++i) sum[i] = all(0.0);
    for (size_t j = 0; j < d; ++j)
        UNROLL for (int i = 0; i < N; ++i) sum[i] = fma(all(p[j]), load(theta + j * outputs + k + i * W), sum[i]);
    UNROLL for (int i = 0; i < N; ++i) store(m + k + i * W, sum[i]);
}

static void predict_outputs(const double *theta, size_t outputs, const double *p, size_t d, double *m) {
    size_t k = 0;
    for (; k + 4 * W <= outputs; k += 4 * W) predict_outputs<4>(theta, outputs, k, p, d, m);
    for (; k + W <= outputs; k += W) predict_outputs<1>(theta, outputs, k, p, d, m);
    for (; k < outputs; ++k) {
        double sum = 0.0;
        for (size_t j = 0; j < d; ++j) sum = fma(p[j], theta[j * outputs + k], sum);
        m[k] = sum;
    }
}

// theta_j after a round; `part` is the prediction summed up to feature j - 1, and then up to j.
template <class X> INLINE X update_output(X p, X gain, double keep, X y, X theta, X &part) {
    const X before = part;
    part = fma(p, theta, before);
    if (RARELY(keep < 1.0)) return fma(like(p, keep), theta, gain * (y - before));
    return fma(gain, y - part, theta);
}

template <int N>
INLINE void learn_outputs(double *theta, size_t outputs, size_t k, const SolvedRow &row, size_t d, const double *y, double *m) {
    V part[N], label[N];
    UNROLL for (int i = 0; i < N; ++i) part[i] = all(0.0), label[i] = load(y + k + i * W);
    for (size_t j = 0; j < d; ++j) {
        const V p = all(row.p[j]), gain = all(row.gain[j]);
        double *at = theta + j * outputs + k;
        UNROLL for (int i = 0; i < N; ++i)
            store(at + i * W, update_output(p, gain, row.keep[j], label[i], load(at + i * W), part[i]));
    }
    UNROLL for (int i = 0; i < N; ++i) store(m + k + i * W, part[i]);
}

// Learn the labels of a round, and fill the predictions from before it.
static void learn_outputs(double *theta, size_t outputs, const SolvedRow &row, size_t d, const double *y, double *m) {
    size_t k = 0;
    for (; k + 4 * W <= outputs; k += 4 * W) learn_outputs<4>(theta, outputs, k, row, d, y, m);
    for (; k + W <= outputs; k += W) learn_outputs<1>(theta, outputs, k, row, d, y, m);
    for (; k < outputs; ++k) {
        double part = 0.0;
        for (size_t j = 0; j < d; ++j)
            theta[j * outputs + k] = update_output(row.p[j], row.gain[j], row.keep[j], y[k], theta[j * outputs + k], part);
        m[k] = part;
    }
}

// Set all predictions and h to 0 where the learner is lost, or where one of them has left the range.
static bool drop_lost_outputs(bool lost, double *m, size_t outputs, double &h) {
    for (size_t k = 0; k < outputs; ++k) lost = lost || !(magnitude(m[k]) <= PREDICTION_LIMIT);
    double none = 0.0;
    lost = drop_lost(lost, none, h);
    if (lost && outputs) memset(m, 0, outputs * sizeof(double));
    return lost;
}

static void outputs_single(const OutputsCall &call, const SingleLearner &u, double *scratch) {
    const LearnerCall &run = call.run;
    const size_t d = run.dim, outputs = call.outputs;
    double *theta = call.theta + u.learner * d * outputs, *v = scratch, *filled = v + d;
    const SolvedRow row(filled + outputs, d);
    for (size_t t = 0; t < run.rounds; ++t) {
        const double *z = run.Z + t * d, *y = call.Y + t * outputs;
        double inverse_beta = u.inverse_beta, beta = u.beta;
        if (u.is_floor_round(run.first + (int64_t)t)) {
            forget_in_place(u, d);
            inverse_beta = beta = 1.0;
        }
        if (d) memcpy(v, z, d * sizeof(double));
        RunningSums<double> c{0.0, 1.0, 0.0};
        double *L = u.L;
        for (size_t j = 0; j < d; L += d - 1 - j, ++j) {
            Pivot<double> p(v[j], inverse_beta, beta, u.inverse[j], u.energy[j], c);
            if (RARELY(p.needs_care(c))) p.take_care(u.rounding, c);
            const PivotUpdate<double> next = update_pivot<true>(p, z[j], 0.0, 0.0, c);
            u.inverse[j] = next.inverse;
            u.energy[j] = next.energy;
            row.p[j] = p.p;
            row.gain[j] = next.gain;
            row.keep[j] = next.keep;
            update_column(L, v + j + 1, d - 1 - j, p.p, next.gain, next.keep);
        }
        const size_t at = t * run.learners + u.learner;
        double *m = call.m + at * outputs, h = c.h;
        bool missing = false;
        for (size_t k = 0; k < outputs; ++k) missing = missing || y[k] != y[k];
        if (missing) { // a missing label counts as the leader's own prediction
            predict_outputs(theta, outputs, row.p, d, m);
            for (size_t k = 0; k < outputs; ++k) filled[k] = y[k] != y[k] ? m[k] : y[k];
            y = filled;
        }
        learn_outputs(theta, outputs, row, d, y, m);
        if (drop_lost_outputs(*u.lost != 0.0, m, outputs, h)) {
            clear_lost(u, d);
            if (d && outputs) memset(theta, 0, d * outputs * sizeof(double));
        }
        run.h_or_stability[at] = h;
    }
}

static void outputs_play(const OutputsCall &call, double *scratch) {
    for (size_t i = 0; i < call.run.learners; ++i) outputs_single(call, SingleLearner(call.run, i), scratch);
}

static void outputs_predict(const OutputsCall &call, double *scratch) {
    const LearnerCall &run = call.run;
    const size_t d = run.dim;
    double *inverse = scratch, *energy = inverse + d, *p = energy + d, *hs = p + d, *ms = hs + d;
    for (size_t i = 0; i < run.learners; ++i) {
        const SingleLearner u(run, i);
        const bool lost = discount_past(u, run.first, d, inverse, energy);
        for (size_t t = 0; t < run.rounds; ++t) {
            if (d) memcpy(p, run.Z + t * d, d * sizeof(double));
            solve(u, d, inverse, energy, p, hs, ms);
            const size_t at = t * run.learners + i;
            double *m = call.m + at * call.outputs, h = d ? hs[d - 1] : 0.0;
            predict_outputs(call.theta + i * d * call.outputs, call.outputs, p, d, m);
            drop_lost_outputs(lost, m, call.outputs, h);
            run.h_or_stability[at] = h;
        }
    }
}

size_t outputs_scratch(const OutputsCall &call) { return 8 * call.run.dim + call.outputs + 8; }

} // namespace
