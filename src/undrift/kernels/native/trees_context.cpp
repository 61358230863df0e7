// Rows as forests inside of an online estimator see them. tests/twins/tree_context.py is the twin, and says what they hold.
#include "trees.h"

#include <algorithm>
#include <limits>

#include "estimator_context.h"

namespace undrift {

void tree_rows(double *state, const double *spans, size_t span_count, size_t kept, const double *Z, const double *y, size_t rows,
               size_t dim, bool commit, double *X) {
    double *labels = state, &count = state[LabelContext::SIZE], *features = state + LabelContext::SIZE + 1;
    for (size_t t = 0; t < rows; ++t) {
        for (size_t k = 0; k < LabelContext::SIZE; ++k) *X++ = count > 0.0 ? labels[k] : std::numeric_limits<double>::quiet_NaN();
        for (size_t j = 0; j < dim; ++j) {
            const double z = Z[t * dim + j];
            *X++ = z;
            if (j >= kept) continue;
            double *seen = features + j * (1 + span_count), *means = seen + 1;
            const bool first = *seen == 0.0, missing = z != z;
            for (size_t k = 0; k < span_count; ++k) {
                const double away = first && !missing ? 0.0 : z - means[k];
                *X++ = away;
                if (!commit || missing) continue;
                means[k] = first ? z : means[k] + away * std::max(1.0 / spans[k], 1.0 / (*seen + 1.0));
            }
            if (commit && !missing) *seen += 1.0;
        }
        if (commit && y[t] == y[t]) advance_labels(labels, y[t], true, count += 1.0);
    }
}

void settle_tree_label(double *state, double y, bool newest) { advance_labels(state, y, newest, state[LabelContext::SIZE] += 1.0); }

} // namespace undrift
