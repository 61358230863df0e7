// Bindings of the level of several classes; its rounds are in class_level_rounds.cpp, one object per instruction-set level.
#include "class_level.h"

#include <nanobind/nanobind.h>

#include "array.h"
#include "dispatch.h"

namespace nb = nanobind;
using namespace undrift;

namespace {

void check(bool fits) {
    if (!fits) throw nb::value_error("kernels: the arrays of the level of several classes do not fit together");
}

size_t memories_size(size_t K) { return CLASS_MEMORIES * ClassMemoryLayout((2 * K + 1) * (2 * K + 1), 2 * K + 1).size; }

// A call without rows: K classes, and as many predictions made elsewhere as the state has room for. The last class, of which the
// loops make an index, is checked.
ClassLevelCall level_call(const Vector &state, size_t K) {
    check(K >= 3 && K < ((size_t)1 << 20));
    const ClassLevelLayout least(memories_size(K), CLASS_CANDIDATES, K);
    check(state.shape(0) >= least.size && (state.shape(0) - least.size) % 2 == 0);
    ClassLevelCall run{};
    run.state = state.data();
    run.classes = K;
    run.given = (state.shape(0) - least.size) / 2; // each has a log-weight and a loss
    const ClassLevelLayout at(memories_size(K), CLASS_CANDIDATES + run.given, K);
    const double last = run.state[at.numbers + ClassNumber::LAST];
    check(last >= 0.0 && last < (double)K);
    return run;
}

void set_rows(ClassLevelCall &run, const Inputs &S, const Input &elapsed, const Inputs &given, const Matrix &out) {
    run.rows = S.shape(0);
    run.S = S.data();
    run.elapsed = elapsed.data();
    run.offered = given.data();
    run.out = out.data();
    run.width = out.shape(1);
    check(elapsed.shape(0) == run.rows && given.shape(0) == run.rows && given.shape(1) == run.given * run.classes &&
          out.shape(0) == run.rows);
}

int64_t class_level_play(Vector state, Inputs S, Input y, Input weight, Input elapsed, Inputs given, Matrix logs) {
    ClassLevelCall run = level_call(state, S.shape(1));
    set_rows(run, S, elapsed, given, logs);
    run.y = y.data();
    run.weight = weight.data();
    check(y.shape(0) == run.rows && weight.shape(0) == run.rows && run.width == run.classes);
    for (size_t t = 0; t < run.rows; ++t) check(run.y[t] >= 0.0 && run.y[t] < (double)run.classes);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    if (const int64_t bad = level.invalid_input(run.S, run.rows * run.classes, nullptr, 0, false)) return bad;
    level.class_level->play(run, scratch_of(level.class_level->scratch(run.classes, run.given)));
    return 0;
}

int64_t class_level_predict(Vector state, Inputs S, Input elapsed, Inputs given, Matrix records) {
    ClassLevelCall run = level_call(state, S.shape(1));
    set_rows(run, S, elapsed, given, records);
    const ClassRecordLayout row(run.classes, (CLASS_CANDIDATES + run.given) * run.classes);
    check(run.width == run.classes || run.width == row.size);
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    if (const int64_t bad = level.invalid_input(run.S, run.rows * run.classes, nullptr, 0, false)) return bad;
    level.class_level->predict(run, scratch_of(level.class_level->scratch(run.classes, run.given)));
    return 0;
}

int64_t class_level_settle(Vector state, size_t classes, Input record, size_t y, double weight, double elapsed) {
    ClassLevelCall run = level_call(state, classes);
    check(y < classes);
    const double label = (double)y;
    const ClassRecordLayout row(classes, (CLASS_CANDIDATES + run.given) * classes);
    const bool whole = record.shape(0) == row.size;
    run.rows = 1;
    run.S = record.data() + row.log_odds;
    run.y = &label;
    run.weight = &weight;
    run.elapsed = &elapsed;
    const KernelTable &level = table();
    nb::gil_scoped_release unlocked;
    if (const int64_t bad = whole ? level.invalid_input(record.data(), row.size, nullptr, 0, false) : 0) return bad;
    level.class_level->settle(run, whole ? record.data() : nullptr, scratch_of(level.class_level->scratch(classes, run.given)));
    return 0;
}

} // namespace

void bind_class_level(nb::module_ &mod) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    mod.def("class_level_play", &class_level_play, a("state"), a("S"), a("y"), a("weight"), a("elapsed"), a("given"), a("logs"));
    mod.def("class_level_predict", &class_level_predict, a("state"), a("S"), a("elapsed"), a("given"), a("records"));
    mod.def("class_level_settle", &class_level_settle, a("state"), nb::arg("classes"), a("record"), nb::arg("y"),
            nb::arg("weight"), nb::arg("elapsed"));
}
