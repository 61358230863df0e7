// The stages of an online estimator's round: families of memories, level 2 over their mixtures, the last mixer.
#include "estimator.h"
#include "weighted_rounds.h"

#include <algorithm>

namespace undrift {

namespace {

// Level 2 sees log-odds up to this, a probability of one in a million.
constexpr double SURE = 13.8;

size_t padded(size_t n) { return (n + 7) & ~size_t(7); }
double odds(double more, double less) { return std::log((more + 1.0) / (less + 1.0)); }
double softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
} // namespace

EstimatorScratch::EstimatorScratch(const EstimatorPlan &p, const KernelTable &level, size_t rows) {
    size_t most_members = p.last.members, most_memories = p.level2.memories(), kernel_size = 0;
    const auto look = [&](const Stage &one) {
        if (one.given()) return;
        most_members = std::max(most_members, one.members);
        most_memories = std::max(most_memories, one.memories());
        MixerCall mix{};
        mix.members = one.members;
        kernel_size = std::max(kernel_size, level.mixer_scratch(mix));
        if (!one.memories()) return;
        const KernelTable &own = level_for_lanes(level, one.lanes());
        kernel_size = std::max(kernel_size, own.learner_scratch(one.run(nullptr, 0, rows, nullptr)));
    };
    for (const Stage &one : p.families) look(one);
    look(p.level2);
    look(p.last);
    if (p.gate.members) look(p.gate);
    const size_t d = p.dim, width = p.width();
    const size_t families = p.families.size();
    double **const parts[] = {&filled, &holes, &wide, &X, &design, &m, &h, &E, &mixtures, &F, &y, &soft, &target, &hint,
                              &level2_hint, &given, &labels, &differences, &errors, &singles, &low, &high, &candidates, &yhat,
                              &weight, &elapsed, &record, &kernel};
    const size_t sizes[] = {rows * d, rows * d, width, rows * width, rows * p.widest(), rows * most_memories, rows * most_memories,
                            rows * most_members, rows * families, rows * p.level2.dim, rows, rows, rows, rows,
                            rows, rows * p.given, rows * LabelContext::SIZE, rows * p.differences(), (rows + 1) * families, rows * p.singles(),
                            rows, rows, rows * p.candidates(), rows, rows, rows, p.record_size(), kernel_size};
    size_t total = 0;
    for (const size_t size : sizes) total += padded(size);
    double *next = scratch_of(total);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i) {
        *parts[i] = next;
        next += padded(sizes[i]);
    }
}

// The row of a family: a constant, and what its design says; features that were added after the warm-up come last, so that
// memories can grow. `labels` and `differences` are scaled.
void Estimator::design(const double *S, const Stage &stage, const double *X, const double *labels, const double *differences, double *out) const {
    const size_t wide = plan.width(), began = plan.inputs();
    *out++ = 1.0;
    if (stage.design == FamilyDesign::CONTEXT) out = std::copy(labels, labels + LabelContext::SIZE, out);
    if (stage.spans < 0) return; // the last labels alone
    double *const inputs = out;
    out = std::copy(X, X + began, out);
    if (stage.design == FamilyDesign::WAVES) {
        waves_of(plan.waves.data(), plan.waves_count(), X, out);
        out += plan.waves_count();
    }
    out = std::copy(differences, differences + static_cast<size_t>(stage.spans) * began, out);
    if (stage.design == FamilyDesign::EXPANDED) {
        *out++ = labels[LabelContext::LAST];
        expand(inputs, static_cast<size_t>(out - inputs), S + stage.columns, stage.columns_count, out);
        out += stage.columns_count;
    }
    std::copy(X + began, X + wide, out);
}

// The numbers of LabelContext as columns, in the label scale of now.
void Estimator::scale_labels(const double *S, const double *labels, double *out) const {
    const double *n = S + plan.numbers;
    const double unit = n[EstimatorNumber::LABEL_SCALE];
    label_columns(labels, n[EstimatorNumber::CENTER], plan.binary || !(unit > 0.0) ? 1.0 : unit, out);
}

// What a family's memories answer, in label units: each with the last label as hint, (m + h hint) / (1 + h), and without;
// clipped to the range of the labels so far, widened by its width to both sides.
void Estimator::answer(const Stage &stage, const double *m, const double *h, double hint, double center, double low, double high, double *E) const {
    const size_t n = stage.memories();
    if (plan.binary) {
        std::copy(m, m + n, E);
        return;
    }
    const double width = high - low, least = low - width, most = high + width;
    for (size_t k = 0; k < n; ++k) {
        E[k] = std::min(std::max(center + (m[k] + h[k] * (hint - center)) / (1.0 + h[k]), least), most);
        E[n + k] = std::min(std::max(center + m[k], least), most);
    }
}

// Level 2's features. Regression: the reference mixture, the others, the memories heard by themselves, the last label, and
// each mixture plus its last error, as differences from the reference in label scales, so that a constant added to all labels
// changes nothing. Two classes: log-odds, and the last error of the reference.
void Estimator::level2_row(const double *mixtures, size_t stride, const double *singles, double hint, const double *errors,
                           double center, double scale, double *F) const {
    const size_t n = plan.families.size(), alone = plan.singles(), dim = plan.level2.dim;
    double *to = F;
    if (plan.binary) {
        for (size_t f = 0; f < n; ++f) *to++ = mixtures[f * stride];
        to = std::copy(singles, singles + alone, to);
        *to++ = hint;
        *to++ = 2.0 * errors[plan.reference];
        *to++ = 1.0;
        for (size_t k = 0; k < dim; ++k) F[k] = std::min(std::max(F[k], -SURE), SURE);
        return;
    }
    const double r = mixtures[plan.reference * stride];
    *to++ = r - center;
    for (size_t f = 0; f < n; ++f)
        if (f != plan.reference) *to++ = mixtures[f * stride] - r;
    for (size_t k = 0; k < alone; ++k) *to++ = singles[k] - r;
    *to++ = hint - r;
    for (size_t f = 0; f < n; ++f) *to++ = (mixtures[f * stride] - r) + errors[f];
    for (size_t k = 0; k < dim; ++k) F[k] = std::min(std::max(F[k] / scale, -MOST_SCALES), MOST_SCALES);
}

// What level 2 is pulled towards where it knows little: the mixture with the least loss so far, as it sees it.
double Estimator::level2_hint(const double *S, const double *mixtures, size_t stride, double scale) const {
    const double *losses = S + plan.family_losses;
    const size_t best = static_cast<size_t>(std::min_element(losses, losses + plan.families.size()) - losses);
    const double away = (mixtures[best * stride] - mixtures[plan.reference * stride]) / scale;
    return std::min(std::max(away, -MOST_SCALES), MOST_SCALES);
}

// Label minus prediction, for two classes as probabilities of the positive one.
double Estimator::miss(double mixture, double label) const {
    return plan.binary ? (label > 0.0) - sigmoid(mixture) : label - mixture;
}

void Estimator::mix_predict(const KernelTable &level, const Stage &stage, double *S, const double *E, double *yhat,
                            double *scratch) const {
    MixerCall mix = stage.mix(S, 1, E);
    mix.yhat = yhat;
    (plan.binary ? level.mix_logistic : level.mix_squared)(mix, scratch);
}

void Estimator::mix_learn(const KernelTable &level, const Stage &stage, double *S, const double *E, const double *y, size_t rows,
                          const double *served, double late, double *yhat, double *scratch) const {
    MixerCall mix = stage.mix(S, rows, E);
    if (stage.share == GROWING_SHARE) {
        mix.share = 0.0;
        mix.growing = S[stage.mixer] + 2.0;
        mix.late = late / FIRST_SHARE;
    }
    if (late > 1.0) { // slower by as many rounds as were served meanwhile, which could not know this label
        mix.scale *= std::min(late, MOST_LATENESS);
        mix.late = std::fmax(mix.late, late);
        mix.share /= late;
        mix.log_one_minus_share = std::log1p(-mix.share);
    }
    mix.y = y;
    mix.yhat = yhat;
    mix.served = served;
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

// Let memories learn rows of the scratch, each with its weight and the time before it where these are not 1.
void Estimator::play_memories(const KernelTable &level, const Stage &stage, const LearnerCall &run, const EstimatorScratch &w) const {
    const auto play = [&](const LearnerCall &part) { stage.play(level, plan.binary, part, w.kernel); };
    const auto predict = [&](const LearnerCall &part) { stage.predict(level, plan.binary, part, w.kernel); };
    if (w.weighted)
        play_weighted(plan.binary, run, w.weight, w.elapsed, play, predict);
    else
        play(run);
}

// Let a family learn rows of the scratch. `mixture` receives what its mixer makes of `served`, or without it of what the
// memories answer right now, which is left in w.E. Rows that are not judged only teach the memories.
void Estimator::learn_family(const KernelTable &level, double *S, const Stage &stage, EstimatorScratch &w, size_t rows,
                             const double *served, bool judged, double late, int64_t first, double *mixture) const {
    const double center = S[plan.numbers + EstimatorNumber::CENTER];
    for (size_t t = 0; t < rows; ++t) {
        w.target[t] = plan.binary ? w.soft[t] : w.soft[t] - center;
        design(S, stage, w.X + t * plan.width(), w.labels + t * LabelContext::SIZE, w.differences + t * plan.differences(),
               w.design + t * stage.dim);
    }
    LearnerCall run = stage.run(S, first, rows, w.design);
    run.y = w.target;
    run.m_or_yhat = w.m;
    run.h_or_stability = w.h;
    play_memories(level, stage, run, w);
    if (!judged) {
        for (size_t t = 0; t < rows; ++t) widen_range(stage, S, w.soft[t]);
        return;
    }
    if (!served)
        for (size_t t = 0; t < rows; ++t)
            answer(stage, w.m + t * stage.memories(), w.h + t * stage.memories(), w.hint[t], center, w.low[t], w.high[t],
                   w.E + t * stage.members);
    mix_learn(level, stage, S, served ? served : w.E, w.soft, rows, nullptr, late, mixture, w.kernel);
}

// Let families and level 2 learn rows (w.X, w.labels, w.differences, w.soft, w.hint, and the first row of w.errors, the errors
// before them). Without a record their answers are those of right now, and the candidates they make are left in w.candidates;
// with one, mixers and level 2 judge what it says. Rows that are not judged were served before any label was known: only
// memories learn them. The later rows of w.errors receive the errors of the rows.
void Estimator::learn_stages(const KernelTable &level, double *S, EstimatorScratch &w, size_t rows, const double *record,
                             bool judged, int64_t first, int64_t level2_first) const {
    const size_t families = plan.families.size(), all = plan.candidates(), alone = plan.singles();
    const double center = S[plan.numbers + EstimatorNumber::CENTER];
    const double *served = record ? record + plan.answers_at() : nullptr;
    const double late = lateness(S, record);
    double low = S[plan.last.mixer + MixerState::LABEL_MIN], high = S[plan.last.mixer + MixerState::LABEL_MAX];
    for (size_t t = 0; t < rows; ++t) { // the range of the labels before each row
        w.low[t] = low;
        w.high[t] = high;
        low = std::min(low, w.soft[t]);
        high = std::max(high, w.soft[t]);
    }
    double *singles = w.singles;
    for (size_t f = 0; f < families; ++f) {
        const Stage &stage = plan.families[f];
        double *mixture = w.mixtures + f * rows;
        if (stage.given()) { // where it says nothing, level 2 hears the reference
            const double *given = w.given + (f - plan.learned()), *otherwise = w.mixtures + plan.reference * rows;
            for (size_t t = 0; judged && t < rows; ++t) {
                const double one = given[t * plan.given];
                mixture[t] = one == one ? one : otherwise[t];
            }
            continue;
        }
        learn_family(level, S, stage, w, rows, served, judged, late, first, mixture);
        if (!judged) continue;
        if (stage.has_singles()) { // the members without the last label as hint come second
            const double *E = (served ? served : w.E) + stage.members - stage.memories();
            for (size_t t = 0; t < rows; ++t) std::copy_n(E + t * stage.members, stage.memories(), singles + t * alone);
            singles += stage.memories();
        }
        if (record) mixture[0] = record[plan.candidates_at() + 1 + f];
        if (served) served += stage.members;
    }
    if (!judged) {
        for (size_t t = 0; t < rows; ++t) widen_range(plan.level2, S, w.soft[t]);
        std::fill_n(w.errors + rows * families, families, 0.0);
        return;
    }
    const Stage &stage = plan.level2;
    const double *reference = w.mixtures + plan.reference * rows;
    double &unit = S[plan.numbers + EstimatorNumber::LABEL_SCALE], *losses = S + plan.family_losses;
    for (size_t t = 0; t < rows; ++t)
        for (size_t f = 0; f < families; ++f) w.errors[(t + 1) * families + f] = miss(w.mixtures[f * rows + t], w.soft[t]);
    for (size_t t = 0; t < rows && unit == 0.0; ++t) unit = std::fabs(w.errors[(t + 1) * families + plan.reference]);
    const double scale = unit > 0.0 ? unit : 1.0;
    for (size_t t = 0; t < rows; ++t) {
        const double *now = w.errors + (t + 1) * families;
        level2_row(w.mixtures + t, rows, w.singles + t * alone, w.hint[t], w.errors + t * families, center, scale, w.F + t * stage.dim);
        w.target[t] = plan.binary ? w.soft[t] : std::min(std::max((w.soft[t] - reference[t]) / scale, -MOST_SCALES), MOST_SCALES);
        w.level2_hint[t] = plan.binary ? 0.0 : level2_hint(S, w.mixtures + t, rows, scale);
        for (size_t f = 0; f < families; ++f) losses[f] += 0.5 * (now[f] * now[f]);
    }
    LearnerCall run = stage.run(S, level2_first, rows, w.F);
    run.y = w.target;
    run.m_or_yhat = w.m;
    run.h_or_stability = w.h;
    play_memories(level, stage, run, w);
    const size_t n = stage.memories();
    if (!served)
        for (size_t t = 0; t < rows; ++t)
            level2_answers(w.m + t * n, w.h + t * n, w.level2_hint[t], reference[t], scale, w.E + t * n);
    mix_learn(level, stage, S, served ? served : w.E, w.soft, rows, record ? record + plan.candidates_at() : nullptr, late, w.yhat,
              w.kernel);
    if (record) return;
    for (size_t t = 0; t < rows; ++t) {
        w.candidates[t * all] = w.yhat[t];
        for (size_t f = 0; f < families; ++f) w.candidates[t * all + 1 + f] = w.mixtures[f * rows + t];
    }
}

// What level 2's memories answer, in label units: the reference plus (m + h hint) / (1 + h) label scales.
void Estimator::level2_answers(const double *m, const double *h, double hint, double reference, double scale, double *E) const {
    for (size_t k = 0; k < plan.level2.memories(); ++k)
        E[k] = plan.binary ? m[k] : reference + scale * ((m[k] + h[k] * hint) / (1.0 + h[k]));
}

// Whether labels came late, and none yet of a row for which something was predicted: see weigh_unserved.
bool Estimator::is_unjudged(const double *S) const {
    return plan.binary && S[plan.last.mixer] == 0.0 && S[plan.last.log_weights] <= -MIX_LIMIT;
}

// Let the last mixer of two classes judge what is answered now to a row (of the scratch) that was served before any label was
// known. Where labels are D rows late, D rows are served before the first label, and D more before the first prediction is
// judged. The weights for these come from here: of the base rate, given candidates, and the longest memory of each family.
// Level 2 and "same as last time", which depend on how late labels are, have none. No losses are counted, as nothing was
// predicted, and judging begins with the weights of the start (judge).
void Estimator::weigh_unserved(const KernelTable &level, double *S, EstimatorScratch &w, int64_t first) const {
    const size_t n = plan.candidates(), base = n - 2;
    double hint, naive[2], yhat, *E = w.candidates;
    baselines(S, naive, &hint);
    std::fill_n(E, n, std::numeric_limits<double>::quiet_NaN()); // NaN takes the weight
    E[base] = naive[0];
    AgedDiscounts aged;
    for (size_t f = 0; f < plan.learned(); ++f) {
        const Stage &stage = plan.families[f];
        design(S, stage, w.X, w.labels, w.differences, w.design);
        LearnerCall run = stage.run(S, first, 1, w.design);
        set_elapsed(run, w.elapsed[0], aged);
        run.m_or_yhat = w.m;
        run.h_or_stability = w.h;
        stage.predict(level, plan.binary, run, w.kernel);
        E[1 + f] = w.m[stage.memories() - 1];
    }
    std::copy_n(w.given, plan.given, E + 1 + plan.learned());
    fill_silent(level, S, w.given, E, w.kernel);
    std::vector<double> losses(n);
    MixerCall mix = plan.last.mix(S, 1, E);
    mix.share = 0.0;
    mix.y = w.y;
    mix.yhat = &yhat;
    mix.losses = losses.data();
    level.mix_logistic(mix, w.kernel);
}

// An answer that came with a row as the stages count it: for two classes it is the probability of the positive one.
double Estimator::given_answer(double value) const {
    if (!plan.binary || value != value) return value;
    const double p = std::min(std::max(value, LEAST_PROBABILITY), 1.0 - LEAST_PROBABILITY);
    return std::log(p) - std::log1p(-p);
}

void Estimator::take_given(const double *z, double *given) const {
    for (size_t k = 0; k < plan.given; ++k) given[k] = given_answer(z[plan.dim + k]);
}

bool Estimator::all_spoke(const double *z) const {
    for (size_t k = 0; k < plan.given; ++k)
        if (z[plan.dim + k] != z[plan.dim + k]) return false;
    return true;
}

// A given candidate that says nothing counts as what the last mixer makes of all others: its loss is the mixture's own.
void Estimator::fill_silent(const KernelTable &level, double *S, const double *given, double *candidates, double *scratch) const {
    if (std::all_of(given, given + plan.given, [](double one) { return one == one; })) return;
    double *own = candidates + 1 + plan.learned(), yhat;
    std::vector<double> weights(S + plan.last.log_weights, S + plan.last.log_weights + plan.last.members);
    for (size_t k = 0; k < plan.given; ++k)
        if (given[k] != given[k]) weights[1 + plan.learned() + k] = -MIX_LIMIT;
    MixerCall mix = plan.last.mix(S, 1, candidates);
    mix.log_weights = weights.data();
    mix.yhat = &yhat;
    (plan.binary ? level.mix_logistic : level.mix_squared)(mix, scratch);
    for (size_t k = 0; k < plan.given; ++k)
        if (given[k] != given[k]) own[k] = yhat;
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
    advance_labels(S + plan.label_context, soft, newest, n[EstimatorNumber::ROUNDS]);
    if (!newest) return;
    n[EstimatorNumber::LAST_SERIAL] = serial;
    n[EstimatorNumber::LAST] = y;
    n[EstimatorNumber::HINT] = soft;
}

// Let the last mixer judge the candidates (w.candidates) of rows with the labels w.soft; w.yhat receives what its weights make
// of them. The record, if there is one, holds what was predicted earlier.
void Estimator::judge(const KernelTable &level, double *S, EstimatorScratch &w, size_t rows, const double *record) const {
    if (is_unjudged(S)) std::copy_n(plan.blank.data() + plan.last.log_weights, plan.candidates(), S + plan.last.log_weights);
    const double *said = record ? record + RecordPart::RAW : nullptr;
    mix_learn(level, plan.last, S, w.candidates, w.soft, rows, said, lateness(S, record), w.yhat, w.kernel);
    if (!record) return;
    const double now = w.yhat[0], s = w.soft[0];
    S[plan.numbers + EstimatorNumber::LATE] += plan.binary ? softplus(-s * *said) - softplus(-s * now)
                                                           : (*said - now) * (0.5 * (*said + now) - s);
}

} // namespace undrift
