// The stages of an online estimator's round: families of memories, level 2 over their mixtures, the last mixer.
#include "estimator.h"

namespace undrift {

namespace {
size_t padded(size_t n) { return (n + 7) & ~size_t(7); }
double odds(double more, double less) { return std::log((more + 1.0) / (less + 1.0)); }
double sigmoid(double x) { return x >= 0.0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x)); }
double softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
} // namespace

EstimatorScratch::EstimatorScratch(const EstimatorPlan &p, const KernelTable &level, size_t rows) {
    size_t most_members = p.last.members, most_memories = p.level2.memories(), kernel_size = 0;
    const auto look = [&](const Stage &one) {
        most_members = std::max(most_members, one.members);
        most_memories = std::max(most_memories, one.memories());
        MixerCall mix{};
        mix.members = one.members;
        kernel_size = std::max(kernel_size, level.mixer_scratch(mix));
        if (one.memories()) kernel_size = std::max(kernel_size, level.learner_scratch(one.run(nullptr, 0, rows, nullptr)));
    };
    for (const Stage &one : p.families) look(one);
    look(p.level2);
    look(p.last);
    const size_t d = p.dim, width = p.width();
    double **const parts[] = {&filled, &holes, &wide, &X, &linear, &waved, &m, &h, &E, &mixtures, &F, &y, &soft, &target,
                              &hint, &error, &miss, &candidates, &yhat, &record, &kernel};
    const size_t sizes[] = {rows * d, rows * d, width, rows * width, rows * (1 + width), rows * (1 + width + p.waves_count()),
                            rows * most_memories, rows * most_memories, rows * most_members, rows * p.families.size(),
                            rows * p.level2.dim, rows, rows, rows, rows, rows, rows, rows * p.candidates(), rows,
                            p.record_size(), kernel_size};
    size_t total = 0;
    for (const size_t size : sizes) total += padded(size);
    double *next = scratch_of(total);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i) {
        *parts[i] = next;
        next += padded(sizes[i]);
    }
}

// The row as a design: a constant, the features, and in between the waves of those the core began with.
void Estimator::design(const double *X, double *out, bool with_waves) const {
    const size_t wide = plan.width(), count = with_waves ? plan.waves_count() : 0;
    const size_t began = with_waves ? (plan.indicators ? 2 * plan.began : plan.began) : wide;
    out[0] = 1.0;
    std::copy(X, X + began, out + 1);
    if (count) waves_of(plan.waves.data(), count, X, out + 1 + began);
    std::copy(X + began, X + wide, out + 1 + began + count);
}

// What a family's memories answer, in label units: each with the last label as hint, (m + h hint) / (1 + h), and without.
void Estimator::answer(const Stage &stage, const double *m, const double *h, double hint, double center, double *E) const {
    const size_t n = stage.memories();
    if (plan.binary) {
        std::copy(m, m + n, E);
        return;
    }
    for (size_t k = 0; k < n; ++k) {
        E[k] = center + (m[k] + h[k] * (hint - center)) / (1.0 + h[k]);
        E[n + k] = center + m[k];
    }
}

// Level 2's features. Regression: the richest mixture, the others, the last label and the last error, as differences from
// the richest in label scales, so that a constant added to all labels changes nothing. Two classes: log-odds.
void Estimator::level2_row(const double *mixtures, size_t stride, double hint, double error, double center, double scale,
                           double *F) const {
    const size_t n = plan.families.size();
    const double richest = mixtures[(n - 1) * stride];
    if (plan.binary) {
        for (size_t k = 0; k < n; ++k) F[k] = mixtures[k * stride];
        F[n] = hint;
        F[n + 1] = 2.0 * error;
        F[n + 2] = 1.0;
        for (size_t k = 0; k < plan.level2.dim; ++k) F[k] = std::min(std::max(F[k], -SURE), SURE);
        return;
    }
    F[0] = (richest - center) / scale;
    for (size_t k = 0; k + 1 < n; ++k) F[1 + k] = (mixtures[k * stride] - richest) / scale;
    F[n] = (hint - richest) / scale;
    F[n + 1] = error / scale;
    for (size_t k = 0; k < plan.level2.dim; ++k) F[k] = std::min(std::max(F[k], -MOST_SCALES), MOST_SCALES);
}

void Estimator::mix_predict(const KernelTable &level, const Stage &stage, double *S, const double *E, double *yhat,
                            double *scratch) const {
    MixerCall mix = stage.mix(S, 1, E);
    mix.yhat = yhat;
    (plan.binary ? level.mix_logistic : level.mix_squared)(mix, scratch);
}

void Estimator::mix_learn(const KernelTable &level, const Stage &stage, double *S, const double *E, const double *y, size_t rows,
                          double late, double *yhat, double *scratch) const {
    MixerCall mix = stage.mix(S, rows, E);
    if (late > 1.0) { // slower by as many rounds as were served meanwhile, which could not know this label
        mix.scale *= late;
        mix.log_members /= late;
        mix.share /= late;
        mix.log_one_minus_share = std::log1p(-mix.share);
    }
    mix.y = y;
    mix.yhat = yhat;
    mix.losses = S + stage.losses;
    mix.clipped_losses = S + stage.clipped_losses;
    (plan.binary ? level.mix_logistic : level.mix_squared)(mix, scratch);
    if (plan.binary) S[stage.mixer] += static_cast<double>(rows); // what a fixed share may have cost is counted in rounds
}

// How many rows were served before this record was settled, itself included: 1 for a prompt label.
double Estimator::lateness(const double *S, const double *record) const {
    return record ? S[plan.numbers + EstimatorNumber::SERVED] - record[RecordPart::SERIAL] + 1.0 + record[RecordPart::UNCOUNTED] : 1.0;
}

// The label of a row for which nothing was predicted: the mixer only learns that labels reach that far.
void Estimator::widen_range(const Stage &stage, double *S, double label) const {
    if (plan.binary) return;
    double *state = S + stage.mixer;
    const bool first = state[MixerState::ROUNDS] == 0.0;
    state[MixerState::LABEL_MIN] = first ? label : std::min(state[MixerState::LABEL_MIN], label);
    state[MixerState::LABEL_MAX] = first ? label : std::max(state[MixerState::LABEL_MAX], label);
    if (first) state[MixerState::ROUNDS] = 1.0;
}

// Let families and level 2 learn rows (w.X, w.soft, w.hint, and w.error[0], the error before the first). Without a record
// their answers are those of right now, and the candidates they make are left in w.candidates; with one, mixers and level
// 2 judge what it says. Rows that are not judged were served before any label was known: only memories learn them.
void Estimator::learn_stages(const KernelTable &level, double *S, EstimatorScratch &w, size_t rows, const double *record,
                             bool judged, int64_t first, int64_t level2_first) const {
    const size_t wide = plan.width(), families = plan.families.size(), all = plan.candidates();
    const double center = S[plan.numbers + EstimatorNumber::CENTER];
    for (size_t t = 0; t < rows; ++t) w.target[t] = plan.binary ? w.soft[t] : w.soft[t] - center;
    const double *served = record ? record + plan.answers_at() : nullptr;
    const double late = lateness(S, record);
    for (size_t f = 0; f < families; ++f) {
        const Stage &stage = plan.families[f];
        double *Z = plan.waved(f) ? w.waved : w.linear;
        if (f == 0 || plan.waved(f))
            for (size_t t = 0; t < rows; ++t) design(w.X + t * wide, Z + t * stage.dim, plan.waved(f));
        LearnerCall run = stage.run(S, first, rows, Z);
        run.y = w.target;
        run.m_or_yhat = w.m;
        run.h_or_stability = w.h;
        (plan.binary ? level.aioli_play : level.vaw_play)(run, 0, stage.units(level), w.kernel);
        double *mixture = w.mixtures + f * rows;
        if (!judged) {
            for (size_t t = 0; t < rows; ++t) widen_range(stage, S, w.soft[t]);
            continue;
        }
        const double *E = served ? served : w.E;
        if (served)
            served += stage.members;
        else
            for (size_t t = 0; t < rows; ++t)
                answer(stage, w.m + t * stage.memories(), w.h + t * stage.memories(), w.hint[t], center, w.E + t * stage.members);
        mix_learn(level, stage, S, E, w.soft, rows, late, mixture, w.kernel);
        if (record) mixture[0] = record[plan.candidates_at() + 1 + f];
    }
    if (!judged) {
        for (size_t t = 0; t < rows; ++t) widen_range(plan.level2, S, w.soft[t]);
        return;
    }
    const Stage &stage = plan.level2;
    const double *richest = w.mixtures + (families - 1) * rows;
    double &unit = S[plan.numbers + EstimatorNumber::LABEL_SCALE];
    for (size_t t = 0; t < rows; ++t) {
        const double miss = plan.binary ? (w.soft[t] > 0.0) - sigmoid(richest[t]) : w.soft[t] - richest[t];
        if (unit == 0.0) unit = std::fabs(miss);
        if (t + 1 < rows) w.error[t + 1] = miss;
        w.miss[t] = miss;
    }
    const double scale = unit > 0.0 ? unit : 1.0;
    for (size_t t = 0; t < rows; ++t) {
        level2_row(w.mixtures + t, rows, w.hint[t], w.error[t], center, scale, w.F + t * stage.dim);
        w.target[t] = plan.binary ? w.soft[t] : std::min(std::max((w.soft[t] - richest[t]) / scale, -MOST_SCALES), MOST_SCALES);
    }
    LearnerCall run = stage.run(S, level2_first, rows, w.F);
    run.y = w.target;
    run.m_or_yhat = w.m;
    run.h_or_stability = w.h;
    (plan.binary ? level.aioli_play : level.vaw_play)(run, 0, stage.units(level), w.kernel);
    const size_t n = stage.memories();
    if (!served)
        for (size_t t = 0; t < rows; ++t)
            for (size_t k = 0; k < n; ++k)
                w.E[t * n + k] = plan.binary ? w.m[t * n + k] : richest[t] + scale * (w.m[t * n + k] / (1.0 + w.h[t * n + k]));
    mix_learn(level, stage, S, served ? served : w.E, w.soft, rows, late, w.yhat, w.kernel);
    if (record) return;
    for (size_t t = 0; t < rows; ++t) {
        w.candidates[t * all] = w.yhat[t];
        for (size_t f = 0; f < families; ++f) w.candidates[t * all + 1 + f] = w.mixtures[f * rows + t];
    }
}

// What the naive baselines answer now, and the hint: the last label as learners saw it, or the log-odds of no change.
void Estimator::baselines(const double *S, double *out, double *hint) const {
    const double *n = S + plan.numbers;
    if (plan.binary) {
        out[0] = odds(n[EstimatorNumber::POSITIVE], n[EstimatorNumber::NEGATIVE]);
        out[1] = *hint = n[EstimatorNumber::LAST] * odds(n[EstimatorNumber::STAYED], n[EstimatorNumber::CHANGED]);
    } else {
        out[0] = n[EstimatorNumber::LAST];
        out[1] = n[EstimatorNumber::MEAN];
        *hint = n[EstimatorNumber::HINT];
    }
}

// The label of this serial number has become known: what the baselines and the hint are made of.
void Estimator::take_label(double *S, double serial, double y, double soft) const {
    double *n = S + plan.numbers;
    const bool first = n[EstimatorNumber::ROUNDS] == 0.0, newest = serial > n[EstimatorNumber::LAST_SERIAL];
    if (plan.binary) {
        if (!first && newest) n[y == n[EstimatorNumber::LAST] ? EstimatorNumber::STAYED : EstimatorNumber::CHANGED] += 1.0;
        n[y > 0.0 ? EstimatorNumber::POSITIVE : EstimatorNumber::NEGATIVE] += 1.0;
    }
    n[EstimatorNumber::ROUNDS] += 1.0;
    n[EstimatorNumber::MEAN] += (y - n[EstimatorNumber::MEAN]) / n[EstimatorNumber::ROUNDS];
    if (!newest) return;
    n[EstimatorNumber::LAST_SERIAL] = serial;
    n[EstimatorNumber::LAST] = y;
    n[EstimatorNumber::HINT] = soft;
}

// Let the last mixer judge the candidates (w.candidates) of rows with the labels w.y, seen as w.soft; w.yhat receives what
// its weights make of them. The record, if there is one, holds what was predicted earlier. With s the label as seen, y as it came:
// (p - y)^2/2 = (p - s)^2/2 + (s - y)(p - (s + y)/2), so that losses by the labels as they came are known exactly.
void Estimator::judge(const KernelTable &level, double *S, EstimatorScratch &w, size_t rows, const double *record) const {
    const size_t n = plan.candidates();
    mix_learn(level, plan.last, S, w.candidates, w.soft, rows, lateness(S, record), w.yhat, w.kernel);
    double *losses = S + plan.corrections, *excess = losses + n;
    for (size_t t = 0; t < rows; ++t) {
        const double now = w.yhat[t], said = record ? record[RecordPart::YHAT] : now, s = w.soft[t], y = w.y[t];
        if (record) {
            const double gap = plan.binary ? softplus(-s * said) - softplus(-s * now)
                                           : 0.5 * (said - s) * (said - s) - 0.5 * (now - s) * (now - s);
            S[plan.numbers + EstimatorNumber::LATE] += gap;
        }
        if (s == y) continue;
        const double *E = w.candidates + t * n;
        for (size_t k = 0; k < n; ++k) {
            losses[k] += (s - y) * (E[k] - 0.5 * (s + y));
            excess[k] += (s - y) * (said - E[k]);
        }
    }
}

} // namespace undrift
