// Intervals around predictions; intervals.h says what they are.
#include "intervals.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernel_table.h"

namespace undrift {

namespace {

// STEP_TAIL, LEAST_STEP and MISS_ROUNDS are in intervals.h; INTERVAL_ROUNDS, WILD, FIFTHS and SPREAD_PRIOR, which
// Python needs too, in kernels/definitions.py.

// Rounds of the longer of two recent means of |residuals| from which the spread is predicted.
constexpr double RECENT_RESIDUALS = 20.0;
// Rounds of the shorter of two recent means of |residuals| from which the spread is predicted.
constexpr double LAST_RESIDUALS = 3.0;
// With late labels the unit is averaged over at least this many times as many rounds as they are late by.
constexpr double LATE_ROUNDS = 20.0;
// Intervals learn more slowly by this power of how late labels are: learning from late feedback asks for the square
// root, and a little less leaves them quick enough for short streams.
constexpr double LATE_POWER = 0.4;
// What a label outside of its interval adds to the logarithm of the width at first.
constexpr double FIRST_STEP = 0.05;
// Steps of widths fall with the square root of the rounds, counted in this many.
constexpr double STEP_ROUNDS = 20.0;
// With late labels a step is at most this / late^LATE_POWER.
constexpr double LATE_STEP = 0.08;
// The median moves by this part of a step, in spreads.
constexpr double MEDIAN_STEP = 0.5;
// The logarithm of a width's factor in a fifth of the predictions moves by this part of a step for every level. Late
// labels, whose neighbours all push the same way, move it and the median more slowly still.
constexpr double FIFTH_STEP = 0.2;
// The largest logarithm of a width's factor in a fifth of the predictions.
constexpr double LARGEST_FACTOR = 1.0;
// The logarithm of a level's widths rises at first by this number for each standard deviation of excess misses.
constexpr double FIRST_RESPONSE = 0.28;
// The response to excess misses is halved after this many rounds, a third after twice as many, and so on: widths and
// spread model are better known then, and misses that are chance should not move widths.
constexpr double RESPONSE_ROUNDS = 1000.0;
// The response to excess misses never falls below this.
constexpr double LEAST_RESPONSE = 0.04;
// The cuts between fifths of the predictions move by steps of this many label scales in the end.
constexpr double CUT_STEP = 0.01;
// The cuts between fifths of the predictions move by steps of this many label scales at first.
constexpr double FIRST_CUT_STEP = 0.2;
// Between their first and their last size, steps of these cuts are this many label scales / rounds.
constexpr double CUT_ROUNDS = 5.0;
// The part of SPREAD_PRIOR that returns every round: what the spread model learned is forgotten over about 1000
// rounds.
constexpr double SPREAD_DRIFT = 1e-06;
// A residual counts at most this many predicted spreads when the spread model learns it.
constexpr double MOST_SURPRISE = 5.0;
// Columns of the spread model are cut here.
constexpr double MOST_SPREAD_INPUT = 3.0;
// The logarithm of the predicted spread, in units, is cut here.
constexpr double MOST_LOG_SPREAD = 4.0;
// The mean |residual| at a place in a season is taken over the last residuals there, about this many.
constexpr double SEASON_VISITS = 16.0;
// Seasons are compared by how well they predicted |residuals| over this many rounds.
constexpr double SEASON_LOSS_ROUNDS = 1000.0;
// What is added to a ratio before its logarithm is taken; the least size that a season predicts.
constexpr double LEAST_RATIO = 0.05;

double cut(double x, double most) { return std::min(std::max(x, -most), most); }

double log_ratio(double part, double unit) { return cut(std::log(part / std::max(unit, 1e-300) + LEAST_RATIO), MOST_SPREAD_INPUT); }

constexpr size_t CUTS = FIFTHS - 1;

// The fifth of predictions that a row's belongs to, from the columns of the spread model.
size_t fifth_of(const double *served) {
    size_t fifth = 0;
    for (size_t k = 0; k < CUTS; ++k) fifth += served[SpreadColumn::FIRST_CUT + k] > 0.0;
    return fifth;
}

double late_power(double late) { return late > 1.0 ? std::pow(late, LATE_POWER) : 1.0; }

// The relative size of a row's residual that one season predicts: the mean |residual| at the row's place over that of all places.
// Without the division the season that follows the level of the last residuals most quickly would be preferred.
double predict_size(const double *places, size_t length, double sum, size_t row) {
    return std::min(std::max(places[row % length] * static_cast<double>(length) / sum, LEAST_RATIO), 1.0 / LEAST_RATIO);
}

// The same of the season with the smallest loss; 1 if the loss is smaller without a season.
double best_size(const double *seasons, size_t row) {
    const double *losses = seasons + 1, *sums = losses + SeasonLength::SIZE, *places = sums + SeasonLength::SIZE;
    double least = seasons[0], size = 1.0;
    for (size_t k = 0; k < SeasonLength::SIZE; places += SEASONS[k++]) {
        if (losses[k] >= least) continue;
        least = losses[k];
        size = predict_size(places, SEASONS[k], sums[k], row);
    }
    return size;
}

// Learn a |residual| in units, at least LEAST_RATIO. The loss of a predicted size m is ln m + size / m; without a season m = 1.
void learn_seasons(double *seasons, size_t row, double size) {
    size = std::max(size, LEAST_RATIO);
    double *losses = seasons + 1, *sums = losses + SeasonLength::SIZE, *places = sums + SeasonLength::SIZE;
    const double rate = 1.0 / std::min(static_cast<double>(row) + 1.0, SEASON_LOSS_ROUNDS);
    seasons[0] += (size - seasons[0]) * rate;
    for (size_t k = 0; k < SeasonLength::SIZE; places += SEASONS[k++]) {
        const double predicted = predict_size(places, SEASONS[k], sums[k], row);
        losses[k] += (std::log(predicted) + size / predicted - losses[k]) * rate;
        double &mean = places[row % SEASONS[k]];
        const double move = (size - mean) / std::min(static_cast<double>(row / SEASONS[k]) + 2.0, SEASON_VISITS);
        mean += move;
        sums[k] += move;
    }
}

// What excess misses, in standard deviations, add to the logarithm of a width: in proportion, and more beyond one deviation.
double respond(double response, double excess) {
    const double cut_excess = cut(excess, MOST_SPREAD_INPUT), beyond = std::max(cut_excess - 1.0, 0.0);
    return response * (cut_excess + beyond * beyond);
}
} // namespace

Intervals::Intervals(std::vector<double> shares, size_t features) : tails(std::move(shares)) {
    for (const double tail : tails) {
        gains.push_back(std::sqrt(STEP_TAIL / tail));
        hit.push_back(std::exp(LEAST_STEP * gains.back() * (0.0 - tail)));
        miss.push_back(std::exp(LEAST_STEP * gains.back() * (1.0 - tail)));
        deviations.push_back(std::sqrt(0.5 * MISS_ROUNDS * 2.0 * tail * (1.0 - 2.0 * tail)));
    }
    spread_dim = levels() ? SpreadColumn::SIZE + features : 0;
}

bool Intervals::ready(const double *I, double label_min, double label_max, double late) const {
    return levels() && label_min < label_max && I[IntervalState::UNIT] > 0.0 && I[IntervalState::RESIDUALS] >= late;
}

// The logarithm of a row's spread, in units; `served` holds the first columns of the spread model.
double Intervals::predict_spread(const double *I, const double *X, const double *served) const {
    const double *w = I + coefficients_at();
    double sum = 0.0;
    for (size_t j = 0; j < size_t(SpreadColumn::SIZE); ++j) sum += w[j] * served[j];
    for (size_t j = SpreadColumn::SIZE; j < spread_dim; ++j) sum += w[j] * cut(X[j - SpreadColumn::SIZE], MOST_SPREAD_INPUT);
    return cut(sum, MOST_LOG_SPREAD);
}

void Intervals::serve(const double *I, const IntervalRow &row, double *numbers) const {
    if (!levels()) return;
    const double *below = I + IntervalState::SIZE, *above = below + levels(), *excess = above + levels();
    const double unit = I[IntervalState::UNIT];
    double *served = numbers + quantiles();
    *served++ = unit;
    served[SpreadColumn::CONSTANT] = 1.0;
    served[SpreadColumn::PREDICTION] = cut(row.size, MOST_SPREAD_INPUT);
    for (size_t k = 0; k < CUTS; ++k) served[SpreadColumn::FIRST_CUT + k] = served[SpreadColumn::PREDICTION] > I[fifths_at() + k] ? 0.5 : -0.5;
    served[SpreadColumn::DISAGREEMENT] = log_ratio(row.disagreement, unit);
    served[SpreadColumn::RECENT] = log_ratio(I[IntervalState::RECENT], unit);
    served[SpreadColumn::LAST] = log_ratio(I[IntervalState::LAST], unit);
    served[SpreadColumn::MOVE] = log_ratio(std::fabs(row.size - row.last_label) * row.label_scale, unit);
    const double late = std::max(I[IntervalState::LATE], 1.0); // the coming label is taken to be as late as the last one
    served[SpreadColumn::SEASON] = std::log(best_size(I + seasons_at(), static_cast<size_t>(I[IntervalState::RESIDUALS] + late) - 1));

    const double spread = unit * std::exp(predict_spread(I, row.X, served)), median = row.yhat + spread * I[IntervalState::MEDIAN];
    const double *factors = I + fifths_at() + CUTS + fifth_of(served);
    const double down = spread * std::exp(factors[0]), up = spread * std::exp(factors[FIFTHS]);
    const double response = std::max(LEAST_RESPONSE, FIRST_RESPONSE / (1.0 + I[IntervalState::ROUNDS] / RESPONSE_ROUNDS)) / late;
    double widest_below = 0.0, widest_above = 0.0; // rarer levels are no narrower
    numbers[levels()] = median;
    for (size_t k = 0; k < levels(); ++k) {
        const double factor = std::exp(respond(response, excess[k] / deviations[k]));
        widest_below = std::max(widest_below, below[k] * factor);
        widest_above = std::max(widest_above, above[k] * factor);
        numbers[levels() - 1 - k] = median - down * widest_below;
        numbers[levels() + 1 + k] = median + up * widest_above;
    }
}

void Intervals::follow(double *I, const double *X, const double *numbers, bool bounded, double yhat, double y, double late) const {
    if (!levels()) return;
    const double residual = std::fabs(y - yhat), *served = numbers + quantiles();
    late = std::max(late, 1.0);
    if (bounded) {
        move_quantiles(I, numbers, fifth_of(served + 1), y, late);
        learn_spread(I, X, served, residual, late);
        I[IntervalState::ROUNDS] += 1.0;
    }
    double &unit = I[IntervalState::UNIT], &recent = I[IntervalState::RECENT], &last = I[IntervalState::LAST];
    const double counted = unit > 0.0 ? std::min(residual, WILD * unit) : residual;
    if (unit > 0.0) learn_seasons(I + seasons_at(), static_cast<size_t>(I[IntervalState::RESIDUALS]), counted / unit);
    I[IntervalState::LATE] = late;
    const double count = I[IntervalState::RESIDUALS] += 1.0;
    const double cut_step = std::max(CUT_STEP, std::min(FIRST_CUT_STEP, CUT_ROUNDS / count)), size = served[1 + SpreadColumn::PREDICTION];
    for (size_t k = 0; k < CUTS; ++k) { // running quantiles
        double &cut_here = I[fifths_at() + k];
        cut_here += cut_step * (static_cast<double>(k + 1) / FIFTHS - (size < cut_here ? 1.0 : 0.0));
    }
    unit += (counted - unit) / std::min(count, std::max(INTERVAL_ROUNDS, LATE_ROUNDS * late)); // late neighbours tell little more than one
    recent += (counted - recent) / std::min(count, RECENT_RESIDUALS);
    last += (counted - last) / std::min(count, LAST_RESIDUALS);
}

// Adaptive conformal inference: every quantile moves by how often it should be missed, against whether it was.
void Intervals::move_quantiles(double *I, const double *quantiles, size_t fifth, double y, double late) const {
    const size_t levels = tails.size();
    double *below = I + IntervalState::SIZE, *above = below + levels, *excess = above + levels, *hits = excess + levels;
    const double usual = std::max(LEAST_STEP, FIRST_STEP / std::sqrt(1.0 + I[IntervalState::ROUNDS] / STEP_ROUNDS));
    const double slowness = late_power(late), step = std::min(usual, LATE_STEP / slowness);
    const double slow_step = step / slowness; // of what neighbouring rows push the same way
    const bool least = step == LEAST_STEP; // as it is in the long run
    double &down = I[fifths_at() + CUTS + fifth], &up = I[fifths_at() + CUTS + FIFTHS + fifth];
    for (size_t k = 0; k < levels; ++k) {
        const double tail = tails[k], own = step * gains[k];
        const bool under = y < quantiles[levels - 1 - k], over = y > quantiles[levels + 1 + k];
        const auto move = [&](double width, bool missed) {
            const double factor = least ? (missed ? miss[k] : hit[k]) : std::exp(own * ((missed ? 1.0 : 0.0) - tail));
            return std::min(std::max(width * factor, SMALLEST_WIDTH), LARGEST_WIDTH);
        };
        below[k] = move(below[k], under);
        above[k] = move(above[k], over);
        down = cut(down + FIFTH_STEP * slow_step * ((under ? 1.0 : 0.0) - tail), LARGEST_FACTOR);
        up = cut(up + FIFTH_STEP * slow_step * ((over ? 1.0 : 0.0) - tail), LARGEST_FACTOR);
        excess[k] += (under || over ? 1.0 : 0.0) - 2.0 * tail - excess[k] / MISS_ROUNDS;
        hits[k] += !(under || over);
    }
    const double side = (y > quantiles[levels] ? 1.0 : 0.0) - (y < quantiles[levels] ? 1.0 : 0.0);
    I[IntervalState::MEDIAN] += 0.5 * MEDIAN_STEP * slow_step * side;
}

// A step of the Kalman filter for the logarithm of |residual|, linearised at the spread of now; `served` is the unit and the
// first columns. Late labels count less, and no variance grows beyond what it was at first.
void Intervals::learn_spread(double *I, const double *X, const double *served, double residual, double late) const {
    const size_t dim = spread_dim;
    double *w = I + coefficients_at(), *P = I + covariance_at();
    const double spread = served[0] * std::exp(predict_spread(I, X, served + 1)), surprise = std::min(residual / spread, MOST_SURPRISE) - 1.0;
    double c[MOST_COLUMNS], k[MOST_COLUMNS];
    for (size_t j = 0; j < dim; ++j) {
        c[j] = j < size_t(SpreadColumn::SIZE) ? served[1 + j] : cut(X[j - SpreadColumn::SIZE], MOST_SPREAD_INPUT);
        k[j] = 0.0;
    }
    for (size_t i = 0; i < dim; ++i) // P is symmetric: its columns are added up, which compiles to vector instructions
        for (size_t j = 0; j < dim; ++j) k[j] += P[i * dim + j] * c[i];
    double leverage = 0.0;
    for (size_t j = 0; j < dim; ++j) leverage += c[j] * k[j];
    const double gain = 1.0 / (late_power(late) + leverage);
    for (size_t i = 0; i < dim; ++i) {
        w[i] += k[i] * (surprise * gain);
        for (size_t j = 0; j < dim; ++j) P[i * dim + j] -= k[i] * k[j] * gain;
        if (P[i * dim + i] < SPREAD_PRIOR) P[i * dim + i] += SPREAD_DRIFT;
    }
}

} // namespace undrift
