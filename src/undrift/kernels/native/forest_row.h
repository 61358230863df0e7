// The forests of one online estimator as its rows meet them: a row is put into context, the forests answer, and while
// nothing else is to be done the row is kept for the next fit. Python points it at the arrays, again whenever they change.
#pragma once
#include <nanobind/nanobind.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "array.h"
#include "trees.h"

namespace undrift {

class ForestRow {
    struct Grown {
        const double *trees;
        size_t count, nodes;
        double base;
        std::vector<size_t> columns; // of a row in context, that this forest sees
    };
    nanobind::object context_arrays, block_arrays; // keep what is pointed at alive
    std::vector<Grown> grown;
    double *context = nullptr, *rows = nullptr, *labels = nullptr, *weights = nullptr; // rows: null if they are not kept
    const double *spans = nullptr;
    int64_t *count = nullptr; // labelled rows so far
    size_t span_count = 0, kept = 0, room = 0;
    bool logistic = false;

    static void fit(bool fits) {
        if (!fits) throw nanobind::value_error("ForestRow: the arrays do not fit together");
    }

  public:
    size_t dim = 0, width = 0, answers = 0; // features, columns of a row in context, forests

    // From now on rows have this context, and these forests answer: tuples of trees, base and columns; none says nothing.
    void point(nanobind::object state, nanobind::object lengths, size_t features, size_t names, bool binary, nanobind::list forests) {
        Vector vector;
        Input running;
        fit(vector.read(state.ptr()) && running.read(lengths.ptr()));
        const size_t each = 1 + running.shape(0), head = LabelContext::SIZE + 1;
        fit(vector.shape(0) >= head && (vector.shape(0) - head) % each == 0 && (vector.shape(0) - head) / each <= features);
        const size_t means = (vector.shape(0) - head) / each, columns = LabelContext::SIZE + features + means * running.shape(0);
        std::vector<Grown> found;
        for (nanobind::handle forest : forests) {
            Array<const double, 3> trees;
            Indices seen;
            fit(PyTuple_Check(forest.ptr()) && PyTuple_Size(forest.ptr()) == 3);
            fit(trees.read(PyTuple_GetItem(forest.ptr(), 0)) && seen.read(PyTuple_GetItem(forest.ptr(), 2)));
            fit(trees.shape(2) == TreeNode::SIZE && seen.shape(0) > 0);
            for (size_t j = 0; j < seen.shape(0); ++j) fit(seen.data()[j] >= 0 && (size_t)seen.data()[j] < columns);
            found.push_back({trees.data(), trees.shape(0), trees.shape(1), nanobind::cast<double>(forest[1]),
                             std::vector<size_t>(seen.data(), seen.data() + seen.shape(0))});
        }
        fit(found.empty() || found.size() == names);
        context_arrays = nanobind::make_tuple(state, lengths, forests);
        context = vector.data(), spans = running.data(), span_count = running.shape(0), kept = means, logistic = binary;
        dim = features, width = columns, answers = names, room = 0;
        grown = std::move(found);
    }

    // Keep the next `most` labelled rows at the place `at` of a block and after it, or only count them if it is None.
    void offer(nanobind::object block, nanobind::object total, size_t at, size_t most) {
        Matrix X;
        Vector y, w;
        Integers number;
        fit(number.read(total.ptr()) && number.shape(0) == 1);
        if (!block.is_none()) {
            fit(PyTuple_Check(block.ptr()) && PyTuple_Size(block.ptr()) == 3 && X.read(PyTuple_GetItem(block.ptr(), 0)));
            fit(y.read(PyTuple_GetItem(block.ptr(), 1)) && w.read(PyTuple_GetItem(block.ptr(), 2)));
            fit(X.shape(1) == width && y.shape(0) == X.shape(0) && w.shape(0) == X.shape(0) && at + most <= X.shape(0));
        }
        block_arrays = nanobind::make_tuple(block, total);
        rows = X.data() ? X.data() + at * width : nullptr;
        labels = y.data() + at, weights = w.data() + at;
        count = number.data(), room = most;
    }

    bool has_room() const { return room > 0; }

    // Fill X (n, width) with rows in context; with `commit` they have come, with their labels if these are numbers.
    void put_in_context(const double *Z, const double *y, size_t n, bool commit, double *X) const {
        tree_rows(context, spans, span_count, kept, Z, y, n, dim, commit, X);
    }

    // Fill `out` (n, answers) with what each forest says, probabilities for two classes; NaN before a fit.
    void answer(const double *X, size_t n, double *out) const {
        if (grown.empty()) {
            for (size_t i = 0; i < n * answers; ++i) out[i] = std::numeric_limits<double>::quiet_NaN();
            return;
        }
        std::vector<double> seen, score(n);
        for (size_t k = 0; k < grown.size(); ++k) {
            const Grown &one = grown[k];
            const size_t columns = one.columns.size();
            seen.resize(n * columns);
            for (size_t i = 0; i < n; ++i)
                for (size_t j = 0; j < columns; ++j) seen[i * columns + j] = X[i * width + one.columns[j]];
            for (size_t i = 0; i < n; ++i) score[i] = one.base;
            add_trees(one.trees, one.count, one.nodes, seen.data(), n, columns, score.data());
            for (size_t i = 0; i < n; ++i) {
                const double e = std::exp(-std::fabs(score[i]));
                out[i * answers + k] = logistic ? (score[i] >= 0.0 ? 1.0 : e) / (1.0 + e) : score[i];
            }
        }
    }

    // Keep a row in context that was labelled, and counts `weight` times; only if there is room.
    void keep(const double *X, double y, double weight) {
        if (rows) {
            std::memcpy(rows, X, width * sizeof(double));
            rows += width;
            *labels++ = y, *weights++ = weight;
        }
        ++*count, --room;
    }

    // The label of a row that was put into context before has come: the context takes it in, and the row is kept.
    void settle(const double *X, double y, double weight, bool newest) {
        settle_tree_label(context, y, newest);
        keep(X, y, weight);
    }
};

} // namespace undrift
