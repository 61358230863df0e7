// The bindings of boosted trees.
#include <nanobind/nanobind.h>

#include "array.h"
#include "estimator_context.h"
#include "forest_row.h"
#include "trees.h"

namespace nb = nanobind;
using namespace undrift;

namespace {

void check(bool fits) {
    if (!fits) throw nb::value_error("kernels: the arrays of a tree kernel do not fit together");
}

// A builder, and the arrays that it reads and writes while it works.
struct OwnedBuilder {
    nb::object X, y, weight, old, trees;
    TreeBuilder builder;
};

template <class A> A read(const nb::object &o) {
    A array;
    check(array.read(o.ptr()));
    return array;
}

void set_up(OwnedBuilder *self, nb::object X, nb::object y, nb::object weight, nb::object old, double base, nb::object trees,
            bool logistic, size_t columns, double learning_rate, double leaf_weight, uint64_t seed) {
    using Trees = Array<const double, 3>;
    const auto rows = read<Inputs>(X);
    const auto labels = read<Input>(y), weights = read<Input>(weight);
    const auto before = read<Trees>(old);
    const auto room = read<State>(trees);
    const size_t n = rows.shape(0), nodes = room.shape(1);
    check(n > 0 && n < ((size_t)1 << 32) && labels.shape(0) == n && (weights.shape(0) == n || !weights.shape(0)));
    check(nodes % 2 == 1 && before.shape(1) == nodes && before.shape(2) == TreeNode::SIZE && room.shape(2) == TreeNode::SIZE);
    check(columns > 0 && columns <= rows.shape(1) && learning_rate > 0.0 && leaf_weight > 0.0);
    const TreeData data{rows.data(), labels.data(), weights.shape(0) ? weights.data() : nullptr, n, rows.shape(1),
                        before.data(), before.shape(0), base, room.data(), room.shape(0)};
    const TreeOptions options{logistic, (nodes + 1) / 2, columns, learning_rate, leaf_weight, seed, before.shape(0)};
    new (self) OwnedBuilder{X, y, weight, old, trees, TreeBuilder(data, options)};
}

bool step(OwnedBuilder &self, int64_t budget, size_t threads) {
    nb::gil_scoped_release unlocked;
    return self.builder.step(budget, threads);
}

// Trees are trusted: whoever read them from a file has checked that columns and children exist.
void trees_predict(Array<const double, 3> trees, double base, Inputs X, Vector score) {
    const size_t d = X.shape(1);
    check(trees.shape(2) == TreeNode::SIZE && score.shape(0) == X.shape(0));
    nb::gil_scoped_release unlocked;
    for (size_t i = 0; i < X.shape(0); ++i) score.data()[i] = base;
    add_trees(trees.data(), trees.shape(0), trees.shape(1), X.data(), X.shape(0), d, score.data());
}

void fill_tree_rows(Vector state, Input spans, Inputs Z, Input y, Matrix X, bool commit) {
    const size_t head = LabelContext::SIZE, each = 1 + spans.shape(0), rows = Z.shape(0), d = Z.shape(1);
    check(state.shape(0) > head && (state.shape(0) - head - 1) % each == 0 && X.shape(0) == rows && y.shape(0) == rows);
    const size_t kept = (state.shape(0) - head - 1) / each;
    check(kept <= d && X.shape(1) == head + d + kept * spans.shape(0));
    nb::gil_scoped_release unlocked;
    tree_rows(state.data(), spans.data(), spans.shape(0), kept, Z.data(), y.data(), rows, d, commit, X.data());
}

void settle_label(Vector state, double y, bool newest) {
    check(state.shape(0) > LabelContext::SIZE);
    settle_tree_label(state.data(), y, newest);
}

void answer_rows(const ForestRow &row, Inputs X, Matrix out) {
    check(X.shape(1) == row.width && out.shape(0) == X.shape(0) && out.shape(1) == row.answers);
    nb::gil_scoped_release unlocked;
    row.answer(X.data(), X.shape(0), out.data());
}

} // namespace

void bind_trees(nb::module_ &mod) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    mod.def("trees_predict", &trees_predict, a("trees"), nb::arg("base"), a("X"), a("score"));
    mod.def("tree_rows", &fill_tree_rows, a("state"), a("spans"), a("Z"), a("y"), a("X"), nb::arg("commit"));
    mod.def("settle_tree_label", &settle_label, a("state"), nb::arg("y"), nb::arg("newest"));
    nb::class_<ForestRow>(mod, "ForestRow")
        .def(nb::init<>())
        .def("point", &ForestRow::point, nb::arg("context"), nb::arg("spans"), nb::arg("dim"), nb::arg("answers"), nb::arg("logistic"),
             nb::arg("forests"))
        .def("offer", &ForestRow::offer, nb::arg("block").none(), nb::arg("count"), nb::arg("at"), nb::arg("most"))
        .def("answer", &answer_rows, a("X"), a("out"));
    nb::class_<OwnedBuilder>(mod, "TreeBuilder")
        .def("__init__", &set_up, nb::kw_only(), nb::arg("X"), nb::arg("y"), nb::arg("weight"), nb::arg("old"), nb::arg("base"),
             nb::arg("trees"), nb::arg("logistic"), nb::arg("columns"), nb::arg("learning_rate"), nb::arg("leaf_weight"),
             nb::arg("seed"))
        .def("step", &step, nb::arg("budget"), nb::arg("threads") = 1)
        .def_prop_ro("base", [](const OwnedBuilder &self) { return self.builder.base(); });
}
