// What an online estimator knows of a row besides its features: running means of the features, the last labels, hinges and
// products. Every function works on its own part of the state vector. The twin is tests/twins/estimator_context.py.
#pragma once
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "estimator_rows.h"

namespace undrift {

// Level 2 sees differences of labels up to this many label scales.
constexpr double MOST_SCALES = 1e+60;
// Labels of the shorter of the two running means of labels.
constexpr double SHORT_LABEL_SPAN = 5.0;
// Labels of the longer of the two running means of labels.
constexpr double LONG_LABEL_SPAN = 50.0;
// A residual counts at most this many times the mean |residual| when products are chosen by it.
constexpr double SCREENED_RESIDUAL = 2.0;
// Residuals below this share of the label scale are rounding: products are then chosen without them.
constexpr double LEAST_RESIDUAL = 1e-06;

// Fill `out` (spans, features) with z_j minus its running means (spans, features); 0 where z_j was never seen. With `commit`
// the row has really come and moves the means, by no more than an ordinary number could; `seen` counts a feature's rows.
inline void take_differences(const std::vector<double> &spans, const Scaling &s, double *means, double *seen, size_t features,
                             const double *z, bool commit, double *out) {
    for (size_t j = 0; j < features; ++j) {
        const bool never = z[j] != z[j], first = seen[j] == 0.0;
        const double bound = CLIP * s.scale[j];
        for (size_t k = 0; k < spans.size(); ++k) {
            double &mean = means[k * features + j];
            const double away = never || first ? 0.0 : z[j] - mean;
            out[k * features + j] = away;
            if (!commit || never) continue;
            const double step = std::max(1.0 / spans[k], 1.0 / (seen[j] + 1.0));
            mean = first ? z[j] : mean + std::min(std::max(away, -bound), bound) * step;
        }
        if (commit && !never) seen[j] += 1.0;
    }
}

// Differences in the scale that each feature of the row z has now, clipped to +-CLIP. `out` may be `differences`.
inline void scale_differences(const Scaling &s, const double *z, const double *differences, size_t spans, size_t features, double *out) {
    for (size_t j = 0; j < features; ++j) {
        const double away = z[j] == z[j] ? z[j] - s.center[j] : 0.0, unit = s.scale[j] > 0.0 ? s.scale[j] : std::fabs(away);
        for (size_t k = 0; k < spans; ++k) {
            const size_t at = k * features + j;
            out[at] = unit > 0.0 ? std::min(std::max(differences[at] / unit, -CLIP), CLIP) : 0.0;
        }
    }
}

// Take a label into the numbers of LabelContext; it is the `count`-th to be settled. The means follow the order of settling,
// the last label is that of the newest row, and so is the one before it.
inline void advance_labels(double *labels, double y, bool newest, double count) {
    if (newest) {
        labels[LabelContext::BEFORE] = count == 1.0 ? y : labels[LabelContext::LAST];
        labels[LabelContext::LAST] = y;
    }
    labels[LabelContext::SHORT_MEAN] += (y - labels[LabelContext::SHORT_MEAN]) * std::max(1.0 / SHORT_LABEL_SPAN, 1.0 / count);
    labels[LabelContext::LONG_MEAN] += (y - labels[LabelContext::LONG_MEAN]) * std::max(1.0 / LONG_LABEL_SPAN, 1.0 / count);
}

// The last label minus `center`, and the other numbers of LabelContext minus the last label, in scales.
inline void label_columns(const double *labels, double center, double scale, double *out) {
    const double last = labels[LabelContext::LAST];
    out[0] = std::min(std::max((last - center) / scale, -MOST_SCALES), MOST_SCALES);
    for (size_t k = 1; k < LabelContext::SIZE; ++k) out[k] = std::min(std::max((labels[k] - last) / scale, -CLIP), CLIP);
}

// Clip the inputs v in place, and fill `out` with the columns that `table` (count, ExpandedColumn::SIZE) describes. Inputs
// that are not there make a column 0, so that no table, whatever a file says, reads beyond them.
inline void expand(double *v, size_t inputs, const double *table, size_t count, double *out) {
    const double most = static_cast<double>(inputs);
    for (size_t i = 0; i < inputs; ++i) v[i] = std::min(std::max(v[i], -CLIP), CLIP);
    for (size_t k = 0; k < count; ++k, table += ExpandedColumn::SIZE) {
        const double first = table[ExpandedColumn::FIRST], second = table[ExpandedColumn::SECOND];
        if (!(first >= 0.0 && first < most)) {
            out[k] = 0.0;
            continue;
        }
        const double one = v[static_cast<size_t>(first)];
        out[k] = second >= 0.0 && second < most ? one * v[static_cast<size_t>(second)]
                                                : std::max(0.0, one - table[ExpandedColumn::KNOT]);
    }
}

// Cut residuals to SCREENED_RESIDUAL times their mean size; zeros where they are but rounding.
inline void screen_residuals(std::vector<double> &residuals, double scale) {
    double sum = 0.0;
    for (const double one : residuals) sum += std::fabs(one);
    const double mean = sum / static_cast<double>(residuals.size());
    const double bound = mean > LEAST_RESIDUAL * scale ? SCREENED_RESIDUAL * mean : 0.0;
    for (double &one : residuals) one = std::min(std::max(one, -bound), bound);
}

// How much of the squares of the residuals a product of two inputs accounts for.
inline double product_fit(const std::vector<double> &V, size_t inputs, size_t i, size_t j, const std::vector<double> &residuals) {
    const size_t rows = residuals.size();
    double sum = 0.0, square = 0.0, together = 0.0;
    for (size_t t = 0; t < rows; ++t) sum += V[t * inputs + i] * V[t * inputs + j];
    const double mean = sum / static_cast<double>(rows);
    for (size_t t = 0; t < rows; ++t) {
        const double p = V[t * inputs + i] * V[t * inputs + j] - mean;
        square += p * p;
        together += p * residuals[t];
    }
    return square > 0.0 ? together * together / square : 0.0;
}

// Choose `count` columns for clipped inputs V (rows, inputs) and screened residuals; V is NaN where a feature was never seen. Hinges come first, at most half of the
// columns: `knots` of each input at evenly spaced quantiles, none where it had at most two values or where a hinge would be
// the input itself or 0, and none of the last input, a label: labels of the other sign must give predictions of the other sign. The rest are products of pairs of inputs that moved, `screened` of them those that account for
// most of the residuals, the others at distance 1, 2, ... in the cyclic order, so that each input is used about equally often.
inline void choose_columns(std::vector<double> V, size_t inputs, const std::vector<double> &residuals,
                           const std::vector<double> &order, size_t knots, size_t screened, size_t count, double *table) {
    const size_t rows = residuals.size();
    std::vector<std::vector<double>> ordered(inputs);
    std::vector<size_t> live;
    std::vector<bool> many(inputs);
    for (const double one : order) {
        const size_t j = static_cast<size_t>(one);
        std::vector<double> &values = ordered[j];
        for (size_t t = 0; t < rows; ++t)
            if (V[t * inputs + j] == V[t * inputs + j])
                values.push_back(V[t * inputs + j]);
            else
                V[t * inputs + j] = 0.0;
        std::sort(values.begin(), values.end());
        if (values.empty()) continue;
        if (values.front() < values.back()) live.push_back(j);
        many[j] = std::upper_bound(values.begin(), values.end(), values.front()) != std::lower_bound(values.begin(), values.end(), values.back());
    }
    size_t filled = 0;
    const auto add = [&](double first, double second, double knot) {
        double *to = table + ExpandedColumn::SIZE * filled++;
        to[ExpandedColumn::FIRST] = first;
        to[ExpandedColumn::SECOND] = second;
        to[ExpandedColumn::KNOT] = knot;
    };
    for (size_t q = 1; q <= knots; ++q)
        for (const size_t j : live) {
            const std::vector<double> &values = ordered[j];
            const size_t n = values.size();
            const double knot = values[q * n / (knots + 1)], before = values[q > 1 ? (q - 1) * n / (knots + 1) : 0];
            if (many[j] && j + 1 < inputs && before < knot && knot < values.back() && filled < count / 2) add(static_cast<double>(j), -1.0, knot);
        }
    std::vector<std::pair<size_t, size_t>> pairs;
    const size_t n = live.size();
    for (size_t step = 1; 2 * step <= n; ++step) // beyond, the pairs come again
        for (size_t a = 0; a < n; ++a)
            if (2 * step < n || a < step) pairs.emplace_back(std::minmax(live[a], live[(a + step) % n]));
    std::vector<std::pair<double, size_t>> fits(pairs.size());
    for (size_t k = 0; k < pairs.size(); ++k) fits[k] = {-product_fit(V, inputs, pairs[k].first, pairs[k].second, residuals), k};
    std::sort(fits.begin(), fits.end());
    std::vector<bool> chosen(pairs.size());
    const auto add_pair = [&](size_t k) {
        chosen[k] = true;
        add(static_cast<double>(pairs[k].first), static_cast<double>(pairs[k].second), 0.0);
    };
    const size_t best = std::min(std::min(screened, count - filled), pairs.size());
    for (size_t k = 0; k < best; ++k) add_pair(fits[k].second);
    for (size_t k = 0; k < pairs.size() && filled < count; ++k)
        if (!chosen[k]) add_pair(k);
    while (filled < count) add(-1.0, -1.0, 0.0);
}

} // namespace undrift
