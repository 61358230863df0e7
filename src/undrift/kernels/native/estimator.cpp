// Python's handle on the round of an online estimator. The plan is made once; every call brings the state vector.
#include "estimator.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>

#include "array.h"
#include "dispatch.h"
#include "estimator_input.h"

namespace nb = nanobind;
using namespace undrift;


namespace {

// Interval levels that an estimator can follow at once.
constexpr int64_t MOST_LEVELS = 32;

void need(bool fits, const char *what) {
    if (!fits) throw nb::value_error((std::string("Estimator: ") + what + " do not fit together").c_str());
}

std::vector<double> copy_of(const Input &a) { return {a.data(), a.data() + a.shape(0)}; }

// Where a part of the state begins; its size must be the one the loops rely on.
size_t part(const nb::dict &parts, const std::string &name, size_t size, size_t state_size) {
    need(parts.contains(name.c_str()), ("the parts of the state (no " + name + ")").c_str());
    const auto [begin, length] = nb::cast<std::pair<size_t, size_t>>(parts[name.c_str()]);
    need(length == size && begin <= state_size && length <= state_size - begin, ("the parts of the state (" + name + ")").c_str());
    return begin;
}

size_t part_size(const nb::dict &parts, const char *name) {
    need(parts.contains(name), "the parts of the state");
    return nb::cast<std::pair<size_t, size_t>>(parts[name]).second;
}

Stage stage_of(const EstimatorPlan &plan, const nb::dict &parts, const std::string &name, size_t dim, const Input &beta,
               const Input &inverse_curvature, const Input &log_prior, double share, int rule, double scale) {
    Stage s;
    s.dim = dim;
    s.beta = copy_of(beta);
    s.inverse_curvature = copy_of(inverse_curvature);
    s.log_prior = copy_of(log_prior);
    s.members = s.log_prior.size();
    s.share = share;
    s.rule = rule;
    s.scale = scale;
    need(s.members && (!s.memories() || !plan.binary || s.inverse_curvature.size() == s.memories()), "memories and members");
    if (s.memories()) {
        const size_t groups = (s.memories() + s.lanes() - 1) / s.lanes();
        s.information = part(parts, name + ".information", groups * s.lanes() * (3 * dim + 3 + dim * (dim - 1) / 2), plan.blank.size());
        need(s.information % 8 == 0, "the parts of the state");
    }
    s.log_weights = part(parts, name + ".log_weights", s.members, plan.blank.size());
    s.losses = part(parts, name + ".losses", s.members, plan.blank.size());
    s.clipped_losses = part(parts, name + ".clipped_losses", s.members, plan.blank.size());
    s.mixer = part(parts, name + ".mixer", MixerState::SIZE, plan.blank.size());
    return s;
}

void set_up(Estimator *self, bool binary, bool despiked, bool indicators, size_t dim, size_t began, size_t given, const Inputs &waves,
            const Input &spans, const Input &tails, const Input &blank, const nb::dict &parts) {
    new (self) Estimator();
    EstimatorPlan &p = self->plan;
    p.binary = binary;
    p.despiked = despiked;
    p.indicators = indicators;
    p.dim = dim;
    p.began = began;
    p.given = given;
    need(began >= 1 && began <= dim && waves.shape(1) == 5 && tails.shape(0) <= size_t(MOST_LEVELS), "the sizes");
    p.waves.assign(waves.data(), waves.data() + 5 * waves.shape(0));
    const double inputs = static_cast<double>(indicators ? 2 * began : began);
    for (size_t k = 0; k < p.waves.size(); k += 5)
        need(p.waves[k] >= 0.0 && p.waves[k] < inputs && p.waves[k + 1] >= 0.0 && p.waves[k + 1] < inputs, "waves and features");
    p.spans = copy_of(spans);
    for (const double span : p.spans) need(span >= 1.0, "the spans");
    for (size_t k = 0; k < tails.shape(0); ++k) need(tails.data()[k] > 0.0 && tails.data()[k] < 0.5, "the tails");
    p.blank = copy_of(blank);
    const size_t width = p.width();
    p.numbers = part(parts, "numbers", EstimatorNumber::SIZE, p.blank.size());
    p.value = part(parts, "value", dim, p.blank.size());
    p.seen = part(parts, "seen", dim, p.blank.size());
    p.missing = part(parts, "missing", dim, p.blank.size());
    p.center = part(parts, "center", width, p.blank.size());
    p.scale = part(parts, "scale", width, p.blank.size());
    p.limit = part(parts, "limit", width, p.blank.size());
    p.exceeded = part(parts, "exceeded", width, p.blank.size());
    p.buffer = part(parts, "buffer", WARMUP * width, p.blank.size());
    p.known = part(parts, "known", WARMUP * width, p.blank.size());
    p.labels = part(parts, "labels", WARMUP, p.blank.size());
    p.hints = part(parts, "hints", WARMUP, p.blank.size());
    p.label_contexts = part(parts, "label_contexts", WARMUP * LabelContext::SIZE, p.blank.size());
    p.label_context = part(parts, "label_context", LabelContext::SIZE, p.blank.size());
    p.means = part(parts, "means", p.differences(), p.blank.size());
    p.mean_rows = part(parts, "mean_rows", p.inputs(), p.blank.size());
    p.given_rows = part(parts, "given", WARMUP * 2 * given, p.blank.size());
    p.row_weights = part(parts, "row_weights", 2 * WARMUP, p.blank.size());
    if (despiked) p.despiker = part(parts, "despiker", Despiker::SIZE, p.blank.size());
    const size_t spread = part_size(parts, "spread.coefficients");
    need(tails.shape(0) ? spread == SpreadColumn::SIZE || spread == SpreadColumn::SIZE + width : !spread, "the spread model");
    need(spread <= size_t(MOST_COLUMNS), "the spread model");
    p.intervals = Intervals(copy_of(tails), spread > SpreadColumn::SIZE ? width : 0);
    const Intervals &own = p.intervals; // whose state is one piece
    p.intervals_at = part(parts, "intervals", own.fifths_at(), p.blank.size());
    need(part(parts, "fifths", own.seasons_at() - own.fifths_at(), p.blank.size()) == p.intervals_at + own.fifths_at() &&
             part(parts, "seasons", own.coefficients_at() - own.seasons_at(), p.blank.size()) == p.intervals_at + own.seasons_at() &&
             part(parts, "spread.coefficients", spread, p.blank.size()) == p.intervals_at + own.coefficients_at() &&
             part(parts, "spread.covariance", spread * spread, p.blank.size()) == p.intervals_at + own.covariance_at(),
         "the state of the intervals");
}

void add_family(Estimator &e, const nb::dict &parts, const std::string &name, size_t dim, Input beta, Input inverse_curvature,
                Input log_prior, double share, int rule, double scale, int design, int spans, size_t knots, size_t screened, Input order) {
    EstimatorPlan &p = e.plan;
    Stage s = stage_of(p, parts, name, dim, beta, inverse_curvature, log_prior, share, rule, scale);
    s.design = design;
    s.spans = spans;
    s.knots = knots;
    s.screened = screened;
    s.order = copy_of(order);
    const size_t seen = spans < 0 ? 0 : static_cast<size_t>(spans), inputs = (1 + seen) * p.inputs();
    need(spans >= -1 && seen <= p.spans.size() && (spans >= 0 || design == FamilyDesign::CONTEXT), "the spans of a family");
    size_t columns = 1 + p.width() + seen * p.inputs();
    if (design == FamilyDesign::LINEAR && p.families.size() == 2 * p.screening + 1) ++p.screening; // the middle one
    if (design == FamilyDesign::WAVES) columns += p.waves_count();
    if (design == FamilyDesign::CONTEXT) {
        columns = LabelContext::SIZE + (spans < 0 ? 1 : columns);
        p.reference = p.families.size();
    }
    if (design == FamilyDesign::EXPANDED) {
        need(s.order.size() == inputs + 1 && dim > columns, "an expanded family and its inputs");
        for (const double one : s.order) need(one >= 0.0 && one < static_cast<double>(s.order.size()), "an expanded family and its inputs");
        s.columns_count = dim - columns - 1;
        s.columns = part(parts, name + ".columns", s.columns_count * ExpandedColumn::SIZE, p.blank.size());
        columns = dim;
    }
    need(dim == columns, "a family and its columns");
    p.families.push_back(s);
}

// Answers made elsewhere, which come with the rows: all of them after the families with memories.
void add_given(Estimator &e) {
    for (size_t k = 0; k < e.plan.given; ++k) {
        Stage s;
        s.design = FamilyDesign::GIVEN;
        e.plan.families.push_back(s);
    }
}

// Put a robust arm beside the estimator, over the same state vector, and a gate between the two.
void set_robust(Estimator &e, const Estimator &other, const nb::dict &parts, Input log_prior, double share, int rule, double scale) {
    EstimatorPlan &p = e.plan;
    p.gate = stage_of(p, parts, "gate", 0, Input(), Input(), log_prior, share, rule, scale);
    p.gate_numbers = part(parts, "gate.numbers", GateNumber::SIZE, p.blank.size());
    p.gate_buckets = part(parts, "gate.buckets", GATE_BUCKETS * GateBucket::SIZE, p.blank.size());
    const auto arm = std::make_shared<Estimator>(other);
    need(!p.binary && !arm->robust && !arm->plan.given && arm->plan.despiked && arm->plan.dim == p.dim && arm->plan.began == p.began, "the arms");
    need(p.gate.members == 2 && arm->plan.blank.size() == p.blank.size() && arm->plan.last.members == arm->plan.candidates(), "the arms");
    arm->plan.unused = p.given;
    arm->plan.owns_rows = false;
    p.robust_record = arm->plan.record_size();
    e.robust = arm;
}

// Combine the first `offered` given answers with the prediction, by one of GivenLoss.
void set_offered(Estimator &e, const nb::dict &parts, size_t offered, int loss, double level) {
    EstimatorPlan &p = e.plan;
    need(offered >= 1 && offered <= p.given && loss >= 0 && loss < int(GivenLoss::SIZE) && level > 0.0 && level < 1.0, "given answers");
    p.offered = offered;
    p.given_mixer = {offered, true, loss, level, false};
    p.given_numbers = part(parts, "given.numbers", GivenNumber::SIZE, p.blank.size());
    p.given_members = part(parts, "given.members", p.combined() * GivenMember::SIZE, p.blank.size());
}

double *state_of(const Estimator &e, const Vector &state) {
    need(state.shape(0) == e.plan.blank.size(), "the state and the plan");
    need(e.plan.last.members == e.plan.candidates(), "stages and candidates");
    return state.data();
}

int64_t serve(const Estimator &e, Vector state, Input z, Vector record, bool commit, double elapsed) {
    double *S = state_of(e, state);
    need(z.shape(0) == e.plan.stride() && record.shape(0) == e.plan.record_size(), "the row and the record");
    const int64_t bad = refusal(e, z.data(), 1, nullptr, 0);
    if (!bad) e.serve(table(), S, z.data(), record.data(), commit, elapsed);
    return bad;
}

int64_t advance(const Estimator &e, Vector state, Input z) {
    double *S = state_of(e, state);
    need(z.shape(0) == e.plan.stride(), "the row and the plan");
    const int64_t bad = refusal(e, z.data(), 1, nullptr, 0);
    if (!bad) e.advance(table(), S, z.data());
    return bad;
}

int64_t predict_rows(const Estimator &e, Vector state, Inputs Z, Vector yhat, double elapsed) {
    double *S = state_of(e, state);
    need(Z.shape(1) == e.plan.stride() && yhat.shape(0) == Z.shape(0), "rows and predictions");
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t bad = refusal(e, Z.data(), Z.shape(0), nullptr, 0);
    std::vector<double> record(e.plan.record_size());
    for (size_t t = 0; !bad && t < Z.shape(0); ++t) {
        e.serve(level, S, Z.data() + t * e.plan.stride(), record.data(), false, elapsed);
        yhat.data()[t] = record[RecordPart::YHAT];
    }
    return bad;
}

int64_t settle(const Estimator &e, Vector state, Input record, double y) {
    double *S = state_of(e, state);
    need(record.shape(0) == e.plan.record_size(), "the record");
    const int64_t bad = refusal(e, nullptr, 0, &y, 1);
    if (!bad) e.settle(table(), S, record.data(), y);
    return bad;
}

// One number a row, or null where None was given: 1 in all of them.
const double *numbers_of(const std::optional<Input> &given, size_t rows) {
    need(!given || given->shape(0) == rows, "rows, weights and times");
    return given ? given->data() : nullptr;
}

int64_t play(const Estimator &e, Vector state, Inputs Z, Input y, Vector yhat, Matrix quantiles, Vector known,
             std::optional<Input> weight, std::optional<Input> elapsed) {
    double *S = state_of(e, state);
    const size_t rows = Z.shape(0);
    need(Z.shape(1) == e.plan.stride() && y.shape(0) == rows && yhat.shape(0) == rows, "rows and labels");
    need(!quantiles.shape(0) || (quantiles.shape(0) == rows && quantiles.shape(1) == e.plan.quantiles()), "rows and quantiles");
    need(!known.shape(0) || known.shape(0) == rows, "rows and outputs");
    const double *counts = numbers_of(weight, rows), *times = numbers_of(elapsed, rows);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t bad = refusal(e, Z.data(), rows, y.data(), rows);
    if (!bad)
        e.play(level, S, Z.data(), y.data(), rows, yhat.data(), quantiles.shape(0) ? quantiles.data() : nullptr,
               known.shape(0) ? known.data() : nullptr, counts, times);
    return bad;
}

// By hand only while the rows are kept: after the last refit they are not.
void refit(const Estimator &e, Vector state) {
    double *S = state_of(e, state);
    const double rounds = S[e.plan.numbers + EstimatorNumber::ROUNDS];
    need(rounds >= 1.0 && rounds < static_cast<double>(WARMUP), "the refit and the rows kept");
    if (e.robust) e.robust->refit(table(), S);
    e.refit(table(), S);
}

// Serve row t, then settle what row t - delay was served, for all rows. `records` begins with `pending` earlier records,
// whose labels are the first of `y`, and receives those of the rows.
int64_t play_late(const Estimator &e, Vector state, Inputs Z, Input y, Matrix records, size_t pending, size_t delay,
                  std::optional<Input> weight, std::optional<Input> elapsed) {
    double *S = state_of(e, state);
    const size_t rows = Z.shape(0), size = e.plan.record_size();
    need(Z.shape(1) == e.plan.stride() && y.shape(0) == pending + rows && records.shape(0) == pending + rows &&
             records.shape(1) == size && pending <= delay,
         "rows, labels and records");
    const double *counts = numbers_of(weight, rows), *times = numbers_of(elapsed, rows);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t bad = refusal(e, Z.data(), rows, y.data(), y.shape(0));
    if (bad) return bad;
    for (size_t t = 0; t < rows; ++t) {
        double *record = records.data() + (pending + t) * size;
        e.serve(level, S, Z.data() + t * e.plan.stride(), record, true, times ? times[t] : 1.0);
        record[RecordPart::WEIGHT] = counts ? counts[t] : 1.0;
        if (pending + t >= delay) {
            const size_t due = pending + t - delay;
            e.settle(level, S, records.data() + due * size, y.data()[due]);
        }
    }
    return 0;
}

// Rows of many estimators: those of one slot that follow each other are played as a block. Where all rows are sorted by slot
// they are shared out between threads, cut between slots.
int64_t play_keys(const Estimator &e, Matrix states, Indices slots, Inputs Z, Input y, Vector yhat, Vector known, size_t threads) {
    constexpr size_t worth_a_thread = 200; // rows
    const size_t rows = Z.shape(0), d = e.plan.stride();
    need(states.shape(1) == e.plan.blank.size() && e.plan.last.members == e.plan.candidates(), "the states and the plan");
    need(slots.shape(0) == rows && Z.shape(1) == d && y.shape(0) == rows && yhat.shape(0) == rows && known.shape(0) == rows, "rows and labels");
    for (size_t i = 0; i < rows; ++i) need(slots.data()[i] >= 0 && size_t(slots.data()[i]) < states.shape(0), "slots and states");
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    const int64_t bad = refusal(e, Z.data(), rows, y.data(), rows);
    if (bad) return bad;
    const bool sorted = threads > 1 && std::is_sorted(slots.data(), slots.data() + rows);
    const size_t parts = sorted ? std::min(threads, 1 + rows / worth_a_thread) : 1;
    const auto cut = [&](size_t part) {
        size_t i = rows * part / parts;
        while (i > 0 && i < rows && slots.data()[i] == slots.data()[i - 1]) ++i;
        return i;
    };
    run_parts(parts, 0, [&](size_t part, double *) { // every thread has scratch of its own
        const size_t last = cut(part + 1);
        for (size_t begin = cut(part), end; begin < last; begin = end) {
            for (end = begin + 1; end < last && slots.data()[end] == slots.data()[begin];) ++end;
            e.play(level, states.data() + size_t(slots.data()[begin]) * states.shape(1), Z.data() + begin * d, y.data() + begin,
                   end - begin, yhat.data() + begin, nullptr, known.data() + begin);
        }
    });
    return 0;
}

} // namespace

void bind_estimator(nb::module_ &m) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    const auto none = [](const char *name) { return nb::arg(name) = nb::none(); };
    nb::class_<Estimator>(m, "Estimator")
        .def("__init__", &set_up, nb::kw_only(), nb::arg("binary"), nb::arg("despiked"), nb::arg("indicators"), nb::arg("dim"), nb::arg("began"),
             nb::arg("given"), a("waves"), a("spans"), a("tails"), a("blank"), nb::arg("parts"))
        .def("add_family", &add_family, nb::kw_only(), nb::arg("parts"), nb::arg("name"), nb::arg("dim"), a("beta"),
             a("inverse_curvature"), a("log_prior"), nb::arg("share"), nb::arg("rule"), nb::arg("scale"), nb::arg("design"),
             nb::arg("spans"), nb::arg("knots"), nb::arg("screened"), a("order"))
        .def("add_given", &add_given)
        .def("set_level2",
             [](Estimator &e, const nb::dict &parts, const std::string &name, size_t dim, Input beta, Input inverse_curvature,
                Input log_prior, double share, int rule, double scale) {
                 e.plan.level2 = stage_of(e.plan, parts, name, dim, beta, inverse_curvature, log_prior, share, rule, scale);
             },
             nb::kw_only(), nb::arg("parts"), nb::arg("name"), nb::arg("dim"), a("beta"), a("inverse_curvature"), a("log_prior"),
             nb::arg("share"), nb::arg("rule"), nb::arg("scale"))
        .def("set_last",
             [](Estimator &e, const nb::dict &parts, const std::string &name, Input log_prior, double share, int rule, double scale) {
                 e.plan.last = stage_of(e.plan, parts, name, 0, Input(), Input(), log_prior, share, rule, scale);
                 const size_t families = e.plan.families.size();
                 e.plan.errors = part(parts, "errors", families, e.plan.blank.size());
                 e.plan.family_losses = part(parts, "family_losses", families, e.plan.blank.size());
                 const size_t features = families + e.plan.singles() + (e.plan.binary ? 3 : families + 1);
                 need(e.plan.level2.dim == features && e.plan.reference < families, "level 2 and the families");
             },
             nb::kw_only(), nb::arg("parts"), nb::arg("name"), a("log_prior"), nb::arg("share"), nb::arg("rule"), nb::arg("scale"))
        .def("set_robust", &set_robust, nb::arg("other"), nb::kw_only(), nb::arg("parts"), a("log_prior"), nb::arg("share"), nb::arg("rule"),
             nb::arg("scale"))
        .def("set_offered", &set_offered, nb::kw_only(), nb::arg("parts"), nb::arg("offered"), nb::arg("loss"), nb::arg("level"))
        .def_prop_ro("record_size", [](const Estimator &e) { return e.plan.record_size(); })
        .def_prop_ro("quantiles_at", [](const Estimator &e) { return e.plan.quantiles_at(); })
        .def_prop_ro("candidates_at", [](const Estimator &e) { return e.plan.candidates_at(); })
        .def("serve", &serve, a("state"), a("z"), a("record"), nb::arg("commit"), nb::arg("elapsed") = 1.0)
        .def("advance", &advance, a("state"), a("z"))
        .def("predict_rows", &predict_rows, a("state"), a("Z"), a("yhat"), nb::arg("elapsed") = 1.0)
        .def("settle", &settle, a("state"), a("record"), nb::arg("y"))
        .def("refit", &refit, a("state"))
        .def("play", &play, a("state"), a("Z"), a("y"), a("yhat"), a("quantiles"), a("known"), none("weight"), none("elapsed"))
        .def("play_late", &play_late, a("state"), a("Z"), a("y"), a("records"), nb::arg("pending"), nb::arg("delay"),
             none("weight"), none("elapsed"))
        .def("play_keys", &play_keys, a("states"), a("slots"), a("Z"), a("y"), a("yhat"), a("known"), nb::arg("threads"));
}
