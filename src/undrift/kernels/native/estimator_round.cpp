// The round of an online estimator: serve a row, settle its record, and both at once for whole blocks.
#include "estimator.h"
#include "weighted_rounds.h"

namespace undrift {

namespace {

// Rows taken at a time, so that what the members answer stays in cache.
constexpr int64_t CHUNK = 128;

constexpr size_t REFITS[] = {4, 32, WARMUP};

bool is_refit(double rounds) { return rounds == REFITS[0] || rounds == REFITS[1] || rounds == REFITS[2]; }

// Rows until the next refit.
size_t rows_left(double rounds) {
    for (const size_t refit : REFITS)
        if (rounds < static_cast<double>(refit)) return refit - static_cast<size_t>(rounds);
    return std::numeric_limits<size_t>::max();
}

// Hand out quantiles; where there is no interval they are infinite, and the median is the prediction.
void copy_quantiles(const double *from, bool bounded, size_t levels, double *to) {
    constexpr double far = std::numeric_limits<double>::infinity();
    for (size_t k = 0; k <= 2 * levels; ++k) to[k] = bounded || k == levels ? from[k] : k < levels ? -far : far;
}
} // namespace

// The label as the stages of this arm learn it.
double Estimator::learned_label(double *S, double y) const {
    const bool first = S[plan.numbers + EstimatorNumber::ROUNDS] < static_cast<double>(REFITS[0]);
    return !plan.despiked || first ? y : despike(S + plan.despiker, y);
}

// Fill holes with the last value seen; what was never seen stays NaN.
void Estimator::impute(double *S, const double *z, double *filled, double *holes, bool commit) const {
    double *value = S + plan.value, *seen = S + plan.seen, *missing = S + plan.missing;
    for (size_t j = 0; j < plan.dim; ++j) {
        const bool hole = z[j] != z[j];
        filled[j] = !hole ? z[j] : seen[j] != 0.0 ? value[j] : std::numeric_limits<double>::quiet_NaN();
        holes[j] = hole;
        if (!commit) continue;
        if (hole)
            missing[j] += 1.0;
        else
            value[j] = z[j], seen[j] = 1.0;
    }
}

// Put an indicator beside each feature, 1 where its value was missing.
void Estimator::widen(const double *filled, const double *holes, double *wide) const {
    for (size_t j = 0; j < plan.dim; ++j) {
        if (!plan.indicators) {
            wide[j] = filled[j];
            continue;
        }
        wide[2 * j] = filled[j];
        wide[2 * j + 1] = holes[j];
    }
}

// Keep a row of the warm-up, in the order of settling.
void Estimator::remember(double *S, const double *filled, const double *holes, double y, double hint, const double *labels,
                         const double *given, double weight, double elapsed) const {
    const size_t t = static_cast<size_t>(S[plan.numbers + EstimatorNumber::ROUNDS]), width = plan.width();
    if (t >= size_t(WARMUP)) return;
    double *row = S + plan.buffer + t * width, *known = S + plan.known + t * width;
    widen(filled, holes, row);
    for (size_t j = 0; j < width; ++j) {
        known[j] = row[j] == row[j];
        if (known[j] == 0.0) row[j] = 0.0;
    }
    S[plan.labels + t] = y;
    S[plan.hints + t] = hint;
    S[plan.row_weights + 2 * t] = weight;
    S[plan.row_weights + 2 * t + 1] = elapsed;
    std::copy_n(labels, LabelContext::SIZE, S + plan.label_contexts + t * LabelContext::SIZE);
    double *kept = S + plan.given_rows + t * 2 * plan.given;
    for (size_t k = 0; k < plan.given; ++k) {
        const bool spoke = given[k] == given[k];
        kept[2 * k] = spoke ? given[k] : 0.0;
        kept[2 * k + 1] = spoke;
    }
}

// The rest of serving, once the row is filled, its context known (record) and all of it scaled (w.X, w.labels, w.differences):
// what every stage, the last mixer and, given the answer of the robust arm (other), the gate and the mixer of given answers say.
void Estimator::serve_scaled(const KernelTable &level, double *S, EstimatorScratch &w, double *record, double other) const {
    double *n = S + plan.numbers, *answers = record + plan.answers_at(), *candidates = record + plan.candidates_at();
    const size_t families = plan.families.size();
    const double center = n[EstimatorNumber::CENTER], unit = n[EstimatorNumber::LABEL_SCALE], *range = S + plan.last.mixer;
    const double low = range[MixerState::LABEL_MIN], high = range[MixerState::LABEL_MAX];
    const bool known = n[EstimatorNumber::ROUNDS] > 0.0, unjudged = is_unjudged(S);
    double hint, *singles = w.singles;
    baselines(S, candidates + 1 + families, &hint);
    record[RecordPart::WIDTH] = static_cast<double>(plan.dim);
    record[RecordPart::KNOWN] = known;
    record[RecordPart::ROUNDS] = n[EstimatorNumber::ROUNDS];
    record[RecordPart::CLASSES] = (n[EstimatorNumber::NEGATIVE] > 0.0) + (n[EstimatorNumber::POSITIVE] > 0.0);
    record[RecordPart::HINT] = hint;
    record[RecordPart::WEIGHT] = 1.0;
    record[RecordPart::UNCOUNTED] = 0.0;
    const double elapsed = record[RecordPart::ELAPSED];
    AgedDiscounts aged;
    const int64_t first = static_cast<int64_t>(n[EstimatorNumber::ROUNDS]);
    for (size_t f = 0; f < plan.learned(); ++f) {
        const Stage &stage = plan.families[f];
        design(S, stage, w.X, w.labels, w.differences, w.design);
        LearnerCall run = stage.run(S, first, 1, w.design);
        set_elapsed(run, elapsed, aged);
        run.m_or_yhat = w.m;
        run.h_or_stability = w.h;
        stage.predict(level, plan.binary, run, w.kernel);
        answer(stage, w.m, w.h, hint, center, low, high, answers);
        if (unjudged)
            candidates[1 + f] = answers[stage.members - 1]; // its longest memory: see weigh_unserved
        else
            mix_predict(level, stage, S, answers, candidates + 1 + f, w.kernel);
        answers += stage.members;
        if (stage.has_singles()) singles = std::copy(answers - stage.memories(), answers, singles);
    }
    for (size_t k = 0; k < plan.given; ++k)
        candidates[1 + plan.learned() + k] = w.given[k] == w.given[k] ? w.given[k] : candidates[1 + plan.reference];
    const Stage &stage = plan.level2;
    const double scale = unit > 0.0 ? unit : 1.0, *mixtures = candidates + 1;
    level2_row(mixtures, 1, w.singles, hint, record + plan.errors_at(), center, scale, w.F);
    LearnerCall run = stage.run(S, first - static_cast<int64_t>(n[EstimatorNumber::SKIPPED]), 1, w.F);
    set_elapsed(run, elapsed, aged);
    run.m_or_yhat = w.m;
    run.h_or_stability = w.h;
    stage.predict(level, plan.binary, run, w.kernel);
    level2_answers(w.m, w.h, plan.binary ? 0.0 : level2_hint(S, mixtures, 1, scale), mixtures[plan.reference], scale, answers);
    mix_predict(level, stage, S, answers, candidates, w.kernel);
    fill_silent(level, S, w.given, candidates, w.kernel);
    double yhat;
    mix_predict(level, plan.last, S, candidates, &yhat, w.kernel);
    // How well answers hold so many rows later is not known yet: they count half beside the base rate.
    if (unjudged) yhat = 0.5 * (yhat + candidates[1 + families]);
    record[RecordPart::RAW] = known ? yhat : 0.0;
    const double late = record[RecordPart::SERIAL] - n[EstimatorNumber::LAST_SERIAL];
    finish_serving(level, S, record, candidates, other, late, w.kernel);
    record[RecordPart::BOUNDED] = plan.intervals.ready(S + plan.intervals_at, low, high, late);
    serve_intervals(S, w.X, w.labels, candidates, record[RecordPart::YHAT], scale, record + plan.quantiles_at());
}

// Show the intervals a row and its prediction; X and `labels`, of which only the last label is used, are scaled.
void Estimator::serve_intervals(const double *S, const double *X, const double *labels, const double *candidates, double yhat,
                                double label_scale, double *numbers) const {
    const size_t learned = plan.families.size() + 1; // all candidates but the naive baselines
    double squares = 0.0;
    for (size_t k = 0; k < learned; ++k) squares += (candidates[k] - yhat) * (candidates[k] - yhat);
    const double size = (yhat - S[plan.numbers + EstimatorNumber::CENTER]) / label_scale;
    const double disagreement = std::sqrt(squares / static_cast<double>(learned));
    plan.intervals.serve(S + plan.intervals_at, {X, yhat, size, labels[LabelContext::LAST], label_scale, disagreement}, numbers);
}

// Everything that depends on features alone: fill and scale a row (w.X) and its differences from running means (raw, and scaled
// in w.differences); with `commit` it has really come. Returns its serial number.
double Estimator::take_row(double *S, const double *z, EstimatorScratch &w, double *filled, double *holes, double *differences,
                           bool commit) const {
    double &served = S[plan.numbers + EstimatorNumber::SERVED];
    const double serial = served + 1.0;
    impute(S, z, filled, holes, commit);
    widen(filled, holes, w.wide);
    scale_row(plan.scaling(S), w.wide, plan.width(), serial, commit, w.X);
    take_differences(plan.spans, plan.scaling(S), S + plan.means, S + plan.mean_rows, plan.inputs(), w.wide, commit, differences);
    scale_differences(plan.scaling(S), w.wide, differences, plan.spans.size(), plan.inputs(), w.differences);
    if (commit) served = serial;
    return serial;
}

void Estimator::advance(const KernelTable &level, double *S, const double *z) const {
    if (robust) robust->advance(level, S, z);
    EstimatorScratch w(plan, level, 1);
    take_row(S, z, w, w.filled, w.holes, w.differences, true);
}

// The robust arm comes first: both use the same scratch.
void Estimator::serve(const KernelTable &level, double *S, const double *z, double *record, bool commit, double elapsed) const {
    double *other = record + plan.robust_at();
    if (robust) robust->serve(level, S, z, other, commit, elapsed);
    serve_own(level, S, z, record, commit, elapsed, robust ? other[RecordPart::YHAT] : 0.0);
}

void Estimator::serve_own(const KernelTable &level, double *S, const double *z, double *record, bool commit, double elapsed,
                          double other) const {
    EstimatorScratch w(plan, level, 1);
    double *filled = record + plan.row_at(), *holes = record + plan.holes_at();
    double *labels = record + plan.labels_at();
    record[RecordPart::SERIAL] = take_row(S, z, w, filled, holes, record + plan.differences_at(), commit);
    std::copy_n(S + plan.label_context, LabelContext::SIZE, labels);
    std::copy_n(S + plan.errors, plan.families.size(), record + plan.errors_at());
    scale_labels(S, labels, w.labels);
    take_given(z, w.given);
    for (size_t k = 0; k < plan.given; ++k) record[plan.spoke_at() + k] = w.given[k] == w.given[k];
    record[RecordPart::ELAPSED] = elapsed;
    serve_scaled(level, S, w, record, other);
    for (size_t j = 0; j < plan.dim; ++j)
        if (filled[j] != filled[j]) filled[j] = 0.0, holes[j] = 2.0; // never seen so far: records hold numbers only
}

void Estimator::settle(const KernelTable &level, double *S, const double *record, double y) const {
    if (robust) { // callers set these numbers in the head of a record alone
        std::vector<double> other(record + plan.robust_at(), record + plan.record_size());
        for (const int part : {RecordPart::SERIAL, RecordPart::KNOWN, RecordPart::WEIGHT, RecordPart::UNCOUNTED}) other[part] = record[part];
        robust->settle(level, S, other.data(), y);
    }
    settle_own(level, S, record, y);
}

void Estimator::settle_own(const KernelTable &level, double *S, const double *record, double y) const {
    double *n = S + plan.numbers;
    if (y != y) {
        n[EstimatorNumber::UNLABELLED] += 1.0;
        return;
    }
    EstimatorScratch w(plan, level, 1);
    const size_t width = static_cast<size_t>(record[RecordPart::WIDTH]); // features added since were 0
    for (size_t j = 0; j < plan.dim; ++j) {
        w.holes[j] = j < width && record[plan.holes_at() + j] != 0.0;
        w.filled[j] = j >= width ? 0.0 : record[plan.holes_at() + j] == 2.0 ? std::numeric_limits<double>::quiet_NaN() : record[plan.row_at() + j];
    }
    const bool known = record[RecordPart::KNOWN] != 0.0, first = n[EstimatorNumber::ROUNDS] == 0.0;
    if (first && !plan.binary) n[EstimatorNumber::CENTER] = y;
    w.y[0] = y;
    w.soft[0] = learned_label(S, y);
    baselines(S, w.candidates, w.hint);
    if (known || first) w.hint[0] = known ? record[RecordPart::HINT] : y;
    else if (plan.binary) w.hint[0] = 0.0;
    const size_t families = plan.families.size();
    std::copy_n(record + plan.errors_at(), families, w.errors);
    // Where nothing was known, numbers take what is known by now. Two classes go without hint and last labels: what these say
    // promptly they do not say to a row served so much later.
    double labels[LabelContext::SIZE];
    std::copy_n(known ? record + plan.labels_at() : S + plan.label_context, LabelContext::SIZE, labels);
    if (!known && (first || plan.binary)) std::fill_n(labels, LabelContext::SIZE, plan.binary ? 0.0 : y);
    for (size_t k = 0; k < plan.given; ++k)
        w.given[k] = record[plan.spoke_at() + k] != 0.0 ? record[plan.candidates_at() + 1 + plan.learned() + k]
                                                        : std::numeric_limits<double>::quiet_NaN();
    w.weight[0] = record[RecordPart::WEIGHT];
    w.elapsed[0] = record[RecordPart::ELAPSED];
    w.weighted = w.weight[0] != 1.0 || w.elapsed[0] != 1.0;
    remember(S, w.filled, w.holes, y, w.hint[0], labels, w.given, w.weight[0], w.elapsed[0]);
    widen(w.filled, w.holes, w.wide);
    rescale_row(plan.scaling(S), w.wide, plan.width(), w.X);
    scale_differences(plan.scaling(S), w.wide, record + plan.differences_at(), plan.spans.size(), plan.inputs(), w.differences);
    scale_labels(S, labels, w.labels);
    const int64_t rounds = static_cast<int64_t>(n[EstimatorNumber::ROUNDS]);
    if (plan.binary && !known && !first && S[plan.last.mixer] == 0.0 && lateness(S, record) > 1.0) weigh_unserved(level, S, w, rounds);
    learn_stages(level, S, w, 1, record, known, rounds, rounds - static_cast<int64_t>(n[EstimatorNumber::SKIPPED]));
    const double yhat = record[RecordPart::YHAT];
    if (known) {
        if (record[RecordPart::SERIAL] > n[EstimatorNumber::LAST_SERIAL]) std::copy_n(w.errors + families, families, S + plan.errors);
        std::copy(record + plan.candidates_at(), record + plan.quantiles_at(), w.candidates);
        judge(level, S, w, 1, record);
        finish_settling(level, S, record, w.candidates, y, lateness(S, record), w.kernel);
        // Rows that count as come with their labels did not know how late these would be: see Intervals::ready.
        const double late = lateness(S, record), uncounted = record[RecordPart::UNCOUNTED];
        const bool bounded = record[RecordPart::BOUNDED] != 0.0 &&
                             (uncounted == 0.0 || S[plan.intervals_at + IntervalState::RESIDUALS] - uncounted >= late);
        plan.intervals.follow(S + plan.intervals_at, w.X, record + plan.quantiles_at(), bounded, yhat, y, late);
    } else {
        widen_range(plan.last, S, w.soft[0]);
        if (robust) widen_range(plan.gate, S, y);
        n[EstimatorNumber::SKIPPED] += 1.0;
    }
    take_label(S, record[RecordPart::SERIAL], y, w.soft[0]);
    if (is_refit(n[EstimatorNumber::ROUNDS])) refit(level, S);
}

void Estimator::play(const KernelTable &level, double *S, const double *Z, const double *y, size_t rows, double *yhat, double *quantiles,
                     double *known, const double *weight, const double *elapsed) const {
    const size_t d = plan.dim, stride = plan.stride(), width = plan.width(), all = plan.candidates(), levels = plan.levels(), families = plan.families.size();
    double *n = S + plan.numbers;
    std::vector<double> record(plan.record_size()), others(robust ? rows : 0);
    if (robust) robust->play(level, S, Z, y, rows, others.data(), nullptr, nullptr, weight, elapsed); // it does not look at this arm
    const auto other = [&](size_t t) { return robust ? others[t] : 0.0; };
    const auto alone = [&](size_t t) { // what a row by itself gives
        yhat[t] = record[RecordPart::YHAT];
        if (known) known[t] = record[RecordPart::KNOWN];
        if (quantiles) copy_quantiles(record.data() + plan.quantiles_at(), record[RecordPart::BOUNDED] != 0.0, levels, quantiles + t * plan.quantiles());
    };
    const auto is_ordinary = [&](size_t t) { return (!weight || weight[t] == 1.0) && (!elapsed || elapsed[t] == 1.0); };
    for (size_t t = 0; t < rows;) {
        if (y[t] != y[t] || n[EstimatorNumber::ROUNDS] == 0.0 || is_unjudged(S) || !all_spoke(Z + t * stride) || !is_ordinary(t)) {
            serve_own(level, S, Z + t * stride, record.data(), true, elapsed ? elapsed[t] : 1.0, other(t));
            record[RecordPart::WEIGHT] = weight ? weight[t] : 1.0;
            settle_own(level, S, record.data(), y[t]);
            alone(t++);
            continue;
        }
        // As many rows as can be taken together: labelled, and before a refit. The row that first shows a label scale
        // comes alone, since the last labels of the next one are seen in that scale.
        const double label_scale = n[EstimatorNumber::LABEL_SCALE] > 0.0 ? n[EstimatorNumber::LABEL_SCALE] : 1.0; // before this chunk
        const bool scaled = plan.binary || n[EstimatorNumber::LABEL_SCALE] > 0.0;
        const size_t most = scaled ? std::min(std::min(rows - t, size_t(CHUNK)), rows_left(n[EstimatorNumber::ROUNDS])) : 1;
        EstimatorScratch w(plan, level, most);
        size_t count = 0;
        for (; count < most && y[t + count] == y[t + count] && all_spoke(Z + (t + count) * stride) && is_ordinary(t + count); ++count) {
            double *filled = w.filled + count * d, *holes = w.holes + count * d;
            impute(S, Z + (t + count) * stride, filled, holes, true);
            take_given(Z + (t + count) * stride, w.given + count * plan.given);
            widen(filled, holes, w.wide);
            n[EstimatorNumber::SERVED] += 1.0;
            scale_row(plan.scaling(S), w.wide, width, n[EstimatorNumber::SERVED], true, w.X + count * width);
            double *differences = w.differences + count * plan.differences();
            take_differences(plan.spans, plan.scaling(S), S + plan.means, S + plan.mean_rows, plan.inputs(), w.wide, true, differences);
            scale_differences(plan.scaling(S), w.wide, differences, plan.spans.size(), plan.inputs(), differences);
        }
        const double serial = n[EstimatorNumber::SERVED] - static_cast<double>(count);
        const double late = serial + 1.0 - n[EstimatorNumber::LAST_SERIAL]; // of the first row; the others follow at once
        const int64_t first = static_cast<int64_t>(n[EstimatorNumber::ROUNDS]), skipped = static_cast<int64_t>(n[EstimatorNumber::SKIPPED]);
        std::copy_n(S + plan.errors, families, w.errors);
        for (size_t k = 0; k < count; ++k) {
            w.y[k] = y[t + k];
            w.soft[k] = learned_label(S, w.y[k]);
            baselines(S, w.candidates + k * all + 1 + families, w.hint + k);
            scale_labels(S, S + plan.label_context, w.labels + k * LabelContext::SIZE);
            remember(S, w.filled + k * d, w.holes + k * d, w.y[k], w.hint[k], S + plan.label_context,
                     w.given + k * plan.given);
            take_label(S, serial + static_cast<double>(k + 1), w.y[k], w.soft[k]);
        }
        learn_stages(level, S, w, count, nullptr, true, first, first - skipped);
        std::copy_n(w.errors + count * families, families, S + plan.errors);
        double low = S[plan.last.mixer + MixerState::LABEL_MIN], high = S[plan.last.mixer + MixerState::LABEL_MAX];
        judge(level, S, w, count, nullptr);
        std::fill_n(record.data() + plan.spoke_at(), plan.given, 1.0);
        for (size_t k = 0; k < count; ++k) {
            const bool bounded = plan.intervals.ready(S + plan.intervals_at, low, high, k ? 1.0 : late); // by the labels before this one
            record[RecordPart::KNOWN] = 1.0;
            record[RecordPart::RAW] = w.yhat[k];
            finish_serving(level, S, record.data(), w.candidates + k * all, other(t + k), k ? 1.0 : late, w.kernel);
            finish_settling(level, S, record.data(), w.candidates + k * all, w.y[k], 1.0, w.kernel);
            w.yhat[k] = record[RecordPart::YHAT];
            if (levels) {
                double *own = record.data() + plan.quantiles_at();
                const double *X = w.X + k * width;
                serve_intervals(S, X, w.labels + k * LabelContext::SIZE, w.candidates + k * all, w.yhat[k], label_scale, own);
                plan.intervals.follow(S + plan.intervals_at, X, own, bounded, w.yhat[k], w.y[k], 1.0);
                if (quantiles) copy_quantiles(own, bounded, levels, quantiles + (t + k) * plan.quantiles());
            }
            low = std::min(low, w.soft[k]);
            high = std::max(high, w.soft[k]);
            yhat[t + k] = w.yhat[k];
            if (known) known[t + k] = 1.0;
        }
        if (is_refit(n[EstimatorNumber::ROUNDS])) refit(level, S);
        t += count;
    }
}

// Set up the despiker from the first labels, which come out cut; returns their median, which they are centred by.
static double fit_despiker(double *despiker, size_t rows, double *labels) {
    const double center = median_of(labels, rows);
    despiker[Despiker::LAST] = center;
    despiker[Despiker::MEAN_JUMP] = usual_jump(labels, rows);
    despiker[Despiker::CUTS] = 0.0;
    for (size_t t = 0; t < rows; ++t) labels[t] = despike(despiker, labels[t]);
    return center;
}

// Restart a stage: memories and mixer as before the first round.
void Estimator::restart(double *S, const Stage &one) const {
    if (one.given()) return;
    const size_t size = (one.memories() + one.lanes() - 1) / one.lanes() * one.lanes() * (3 * one.dim + 3 + one.dim * (one.dim - 1) / 2);
    std::copy_n(plan.blank.data() + one.information, size, S + one.information);
    std::copy_n(plan.blank.data() + one.log_weights, one.members, S + one.log_weights);
    std::fill_n(S + one.losses, one.members, 0.0);
    std::fill_n(S + one.clipped_losses, one.members, 0.0);
    std::fill_n(S + one.mixer, MixerState::SIZE, 0.0);
}

// Fit the scaling to the rows of the warm-up, and show these to `visit`(scratch, first row, rows) in chunks: labels as learners
// see them now, hints and label context (contexts) as served, means of the features along these rows.
template <class Visit>
void Estimator::replay(double *S, const KernelTable &level, const std::vector<double> &soft, const std::vector<double> &contexts,
                       Visit visit) const {
    const size_t rows = soft.size(), width = plan.width(), inputs = plan.inputs();
    const Scaling scaling = plan.scaling(S);
    fit_scaling(scaling, S + plan.buffer, S + plan.known, rows, width);
    const double before = S[plan.numbers + EstimatorNumber::SERVED] - static_cast<double>(rows); // the last row is the last one served
    std::vector<double> means(plan.differences()), seen(inputs);
    for (size_t t = 0; t < rows;) {
        const size_t count = t ? std::min(rows - t, size_t(CHUNK)) : 1;
        EstimatorScratch w(plan, level, count);
        for (size_t k = 0; k < count; ++k) {
            const double *row = S + plan.buffer + (t + k) * width, *known = S + plan.known + (t + k) * width;
            double *differences = w.differences + k * plan.differences();
            for (size_t j = 0; j < width; ++j) w.wide[j] = known[j] != 0.0 ? row[j] : std::numeric_limits<double>::quiet_NaN();
            scale_row(scaling, w.wide, width, before + static_cast<double>(t + k + 1), true, w.X + k * width);
            take_differences(plan.spans, scaling, means.data(), seen.data(), inputs, w.wide, true, differences);
            scale_differences(scaling, w.wide, differences, plan.spans.size(), inputs, differences);
            scale_labels(S, contexts.data() + (t + k) * LabelContext::SIZE, w.labels + k * LabelContext::SIZE);
            w.soft[k] = soft[t + k];
            w.hint[k] = S[plan.hints + t + k];
            w.weight[k] = S[plan.row_weights + 2 * (t + k)];
            w.elapsed[k] = S[plan.row_weights + 2 * (t + k) + 1];
            w.weighted = w.weighted || w.weight[k] != 1.0 || w.elapsed[k] != 1.0;
            const double *given = S + plan.given_rows + (t + k) * 2 * plan.given;
            for (size_t j = 0; j < plan.given; ++j)
                w.given[k * plan.given + j] = given[2 * j + 1] != 0.0 ? given[2 * j] : std::numeric_limits<double>::quiet_NaN();
        }
        visit(w, t, count);
        t += count;
    }
}

// Choose the hinges and products of expanded families, by what a linear family leaves over of the rows of the warm-up.
void Estimator::choose_family_columns(const KernelTable &level, double *S, const std::vector<double> &soft,
                                      const std::vector<double> &contexts) const {
    std::vector<const Stage *> expanded;
    for (const Stage &one : plan.families)
        if (one.design == FamilyDesign::EXPANDED) expanded.push_back(&one);
    if (expanded.empty()) return;
    const Stage &linear = plan.families[plan.screening];
    const double low = S[plan.last.mixer + MixerState::LABEL_MIN], high = S[plan.last.mixer + MixerState::LABEL_MAX];
    std::vector<double> residuals(soft.size());
    std::vector<std::vector<double>> inputs(expanded.size());
    replay(S, level, soft, contexts, [&](EstimatorScratch &w, size_t t, size_t count) {
        std::fill_n(w.low, count, low);
        std::fill_n(w.high, count, high);
        learn_family(level, S, linear, w, count, nullptr, t > 0, 1.0, static_cast<int64_t>(t), w.mixtures);
        for (size_t k = 0; k < count && t; ++k) residuals[t + k] = miss(w.mixtures[k], w.soft[k]);
        for (size_t k = 0; k < count; ++k)
            for (size_t e = 0; e < expanded.size(); ++e) {
                design(S, *expanded[e], w.X + k * plan.width(), w.labels + k * LabelContext::SIZE,
                       w.differences + k * plan.differences(), w.design);
                inputs[e].insert(inputs[e].end(), w.design + 1, w.design + 1 + expanded[e]->order.size());
                for (size_t j = 0; j < plan.inputs(); ++j)
                    if (S[plan.known + (t + k) * plan.width() + j] == 0.0)
                        inputs[e][inputs[e].size() - expanded[e]->order.size() + j] = std::numeric_limits<double>::quiet_NaN();
            }
    });
    restart(S, linear);
    screen_residuals(residuals, plan.binary ? 1.0 : S[plan.numbers + EstimatorNumber::LABEL_SCALE]);
    for (size_t e = 0; e < expanded.size(); ++e) {
        const Stage &one = *expanded[e];
        choose_columns(inputs[e], one.order.size(), residuals, one.order, one.knots, one.screened, one.columns_count, S + one.columns);
    }
}

void Estimator::refit(const KernelTable &level, double *S) const {
    double *n = S + plan.numbers, *labels = S + plan.label_context;
    const size_t rows = static_cast<size_t>(n[EstimatorNumber::ROUNDS]), families = plan.families.size();
    for (const Stage &one : plan.families) restart(S, one);
    restart(S, plan.level2);
    std::vector<double> soft(S + plan.labels, S + plan.labels + rows);
    std::vector<double> contexts(S + plan.label_contexts, S + plan.label_contexts + rows * LabelContext::SIZE);
    size_t newest = rows - 1; // the row with the last label: labels may have been settled in another order
    while (newest && S[plan.labels + newest] != n[EstimatorNumber::LAST]) --newest;
    if (!plan.binary) {
        n[EstimatorNumber::CENTER] = plan.despiked ? fit_despiker(S + plan.despiker, rows, soft.data()) : median_of(soft.data(), rows);
        n[EstimatorNumber::LABEL_SCALE] = spread_of(soft.data(), rows);
        // Label context follows the labels as they are seen now, spikes cut.
        const double low = *std::min_element(soft.begin(), soft.end()), high = *std::max_element(soft.begin(), soft.end());
        for (double &one : contexts) one = std::min(std::max(one, low), high);
        const double before = std::min(std::max(labels[LabelContext::BEFORE], low), high);
        std::fill_n(labels, LabelContext::SIZE, 0.0);
        for (size_t t = 0; t < rows; ++t) advance_labels(labels, soft[t], false, static_cast<double>(t + 1));
        labels[LabelContext::LAST] = soft[newest];
        labels[LabelContext::BEFORE] = before;
    }
    choose_family_columns(level, S, soft, contexts);
    std::fill_n(S + plan.errors, families, 0.0);
    std::fill_n(S + plan.family_losses, families, 0.0);
    std::vector<double> errors(families);
    replay(S, level, soft, contexts, [&](EstimatorScratch &w, size_t t, size_t count) {
        std::copy_n(errors.data(), families, w.errors);
        learn_stages(level, S, w, count, nullptr, t > 0, static_cast<int64_t>(t), static_cast<int64_t>(t) - 1);
        std::copy_n(w.errors + count * families, families, errors.data());
        if (newest >= t && newest < t + count) std::copy_n(w.errors + (newest - t + 1) * families, families, S + plan.errors);
    });
    n[EstimatorNumber::SKIPPED] = 1.0; // level 2 has learned all rows but the first
    n[EstimatorNumber::HINT] = soft[newest];
    if (rows < size_t(WARMUP)) return;
    if (plan.owns_rows) {
        std::fill_n(S + plan.buffer, WARMUP * plan.width(), 0.0);
        std::fill_n(S + plan.known, WARMUP * plan.width(), 0.0);
        std::fill_n(S + plan.labels, WARMUP, 0.0);
        std::fill_n(S + plan.row_weights, 2 * WARMUP, 0.0);
    }
    std::fill_n(S + plan.hints, WARMUP, 0.0);
    std::fill_n(S + plan.given_rows, WARMUP * 2 * plan.given, 0.0);
    std::fill_n(S + plan.label_contexts, WARMUP * LabelContext::SIZE, 0.0);
}

} // namespace undrift
