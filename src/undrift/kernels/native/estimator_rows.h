// What an online estimator does with a row before a learner sees it: holes, scaling, waves; and with a label: spikes.
// Every function works on its own part of the state vector. The twin is tests/twins/estimator_rows.py.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "definitions.h"

namespace undrift {

// The clip limit of a feature widens by this factor at a lone outlier.
constexpr double CREEP = 1.05;
// The clip limit of a feature widens by this factor at each outlier that follows another one without a pause.
constexpr double LEAP = 2.0;
// The clip limit of a feature never exceeds this, so that products of two scaled numbers stay ordinary.
constexpr double WIDEST_LIMIT = 1e+60;
// A label may jump this many mean jumps before it is cut: 6 standard deviations, were jumps normal.
constexpr double JUMP_FACTOR = 8.0;
// Rounds over which the mean jump of the labels is averaged.
constexpr double JUMP_ROUNDS = 200.0;
// Doublings of the bound on a jump are counted up to this number.
constexpr double MOST_CUTS = 200.0;

// Centre, scale and clip limit of every column, and the serial number of the last row beyond the limit.
struct Scaling {
    double *center, *scale, *limit, *exceeded;
};

// Scale the row with this serial number. A column with scale 0 has been constant so far: the step by which it leaves its
// centre becomes its scale. One beyond its limit widens the limit, by LEAP if the row before was beyond it too, else by
// CREEP, and is clipped there. With `commit` the row has really come, and scales and limits are kept.
inline void scale_row(const Scaling &s, const double *z, size_t width, double serial, bool commit, double *x) {
    for (size_t j = 0; j < width; ++j) {
        const double away = z[j] == z[j] ? z[j] - s.center[j] : 0.0, scale = s.scale[j] > 0.0 ? s.scale[j] : std::fabs(away);
        const double value = scale > 0.0 ? away / scale : 0.0;
        x[j] = value;
        if (commit) s.scale[j] = scale;
        if (std::fabs(value) <= s.limit[j]) continue;
        const double limit = std::min(s.limit[j] * (s.exceeded[j] == serial - 1.0 ? LEAP : CREEP), WIDEST_LIMIT);
        x[j] = std::copysign(std::min(std::fabs(value), limit), value);
        if (!commit) continue;
        s.limit[j] = limit;
        s.exceeded[j] = serial;
    }
}

// Scale a row that came earlier by what is known now.
inline void rescale_row(const Scaling &s, const double *z, size_t width, double *x) {
    for (size_t j = 0; j < width; ++j) {
        const double away = z[j] == z[j] ? z[j] - s.center[j] : 0.0, scale = s.scale[j] > 0.0 ? s.scale[j] : std::fabs(away);
        const double value = scale > 0.0 ? away / scale : 0.0;
        x[j] = std::copysign(std::min(std::fabs(value), s.limit[j]), value);
    }
}

// Take centre and scale of a column from the first `rows` rows of a buffer (rows, width), counting entries with known = 1.
inline void fit_scaling(const Scaling &s, const double *buffer, const double *known, size_t rows, size_t width) {
    for (size_t j = 0; j < width; ++j) {
        double count = 0.0, sum = 0.0, largest = 0.0, first = 0.0;
        for (size_t t = 0; t < rows; ++t) {
            const double k = known[t * width + j], z = buffer[t * width + j];
            if (k == 0.0) continue;
            if (count == 0.0) first = z;
            count += 1.0;
            sum += z;
            largest = std::max(largest, std::fabs(z));
        }
        const double center = sum / std::max(count, 1.0);
        double square = 0.0;
        for (size_t t = 0; t < rows; ++t) {
            const double away = buffer[t * width + j] - center;
            if (known[t * width + j] != 0.0) square += away * away;
        }
        const double spread = std::sqrt(square / std::max(count, 1.0));
        const bool constant = spread <= ROUNDING * largest; // the mean's own rounding is not a spread
        s.center[j] = constant ? first : center;
        s.scale[j] = constant ? 0.0 : spread;
        s.limit[j] = CLIP;
        s.exceeded[j] = NEVER;
    }
}

// The integer below x; exact below 2^51, where waves live.
inline double floor_of(double x) {
    const double near = (x + 6755399441055744.0) - 6755399441055744.0;
    return near > x ? near - 1.0 : near;
}

// Waves of pairs of inputs; a row of the table is (i, j, w1, w2, phase). With s = w1 x_i + w2 x_j + phase in turns, a wave
// is sqrt(2/n) 16 r (1/2 - |r|), r = s - floor(s) - 1/2: a sine made of parabolas.
inline void waves_of(const double *table, size_t count, const double *x, double *out) {
    const double size = 16.0 * std::sqrt(2.0 / static_cast<double>(count));
    for (size_t k = 0; k < count; ++k) {
        const double *w = table + 5 * k;
        const double a = std::min(std::max(x[static_cast<size_t>(w[0])], -CLIP), CLIP) * w[2];
        const double b = std::min(std::max(x[static_cast<size_t>(w[1])], -CLIP), CLIP) * w[3];
        out[k] = (a + b) + w[4];
    }
    for (size_t k = 0; k < count; ++k) {
        const double r = out[k] - floor_of(out[k]) - 0.5;
        out[k] = (r * (0.5 - std::fabs(r))) * size;
    }
}

// Return the label as learners should see it. A jump from the last label that was not cut counts in full up to
// JUMP_FACTOR mean jumps, doubled for every row of the present series of cut labels; beyond that it is cut. So a lone bad
// label teaches little, a new level is believed within a few rounds, and the bound comes back when the series is over.
inline double despike(double *state, double y) {
    double &last = state[Despiker::LAST], &mean = state[Despiker::MEAN_JUMP], &cuts = state[Despiker::CUTS];
    const double jump = y - last, size = std::fabs(jump);
    if (mean == 0.0) { // labels were constant so far
        mean = size;
        last = y;
        return y;
    }
    const double bound = JUMP_FACTOR * mean * std::exp2(cuts);
    mean += (std::min(size, WILD * mean) - mean) / JUMP_ROUNDS;
    if (size > bound) {
        cuts = std::min(cuts + 1.0, MOST_CUTS);
        return last + std::copysign(bound, jump);
    }
    cuts = std::max(cuts - 1.0, 0.0);
    last = y;
    return y;
}

// Mean jump of a series, its largest tenth counting as the 90% quantile: a spike among them widens nothing.
inline double usual_jump(const double *y, size_t rows) {
    if (rows < 2) return 0.0;
    std::vector<double> jumps(rows - 1);
    for (size_t t = 0; t + 1 < rows; ++t) jumps[t] = std::fabs(y[t + 1] - y[t]);
    std::sort(jumps.begin(), jumps.end());
    const double at = 0.9 * static_cast<double>(rows - 2);
    const size_t below = static_cast<size_t>(at), above = std::min(below + 1, rows - 2);
    double most = jumps[below] + (jumps[above] - jumps[below]) * (at - static_cast<double>(below));
    const double middle = jumps[(rows - 2) / 2]; // with few jumps, a spike is part of the largest tenth's own quantile
    if (middle > 0.0) most = std::min(most, WILD * middle);
    double sum = 0.0;
    for (const double jump : jumps) sum += std::min(jump, most);
    return sum / static_cast<double>(rows - 1);
}

inline double median_of(const double *y, size_t rows) {
    std::vector<double> sorted(y, y + rows);
    std::sort(sorted.begin(), sorted.end());
    return rows % 2 ? sorted[rows / 2] : sorted[rows / 2 - 1] + (sorted[rows / 2] - sorted[rows / 2 - 1]) / 2.0;
}

// Standard deviation of labels around a centre they have, 0 if it is only rounding.
inline double spread_of(const double *y, size_t rows) {
    double mean = 0.0, square = 0.0, largest = 0.0;
    for (size_t t = 0; t < rows; ++t) {
        mean += (y[t] - mean) / static_cast<double>(t + 1);
        largest = std::max(largest, std::fabs(y[t]));
    }
    for (size_t t = 0; t < rows; ++t) square += (y[t] - mean) * (y[t] - mean);
    const double spread = std::sqrt(square / static_cast<double>(rows));
    return spread > ROUNDING * largest ? spread : 0.0;
}

} // namespace undrift
