// Intervals around predictions: quantiles whose distances from the prediction follow the row and the time. They have a plan and
// a state of their own, and know of the model only what they are shown: the row, its prediction, and how far candidates
// disagreed. The twin, which says what they are, is tests/twins/estimator_intervals.py.
#pragma once
#include <cstddef>
#include <vector>

#include "definitions.h"

namespace undrift {

// The steps below are those of the quantile of this level; others take steps by the root of how much rarer they are
// missed, so that all of them learn in about the same time.
constexpr double STEP_TAIL = 0.1;
// Steps of interval widths never fall below this: the spread model follows what changes from row to row, so widths
// can be calm.
constexpr double LEAST_STEP = 0.0075;
// Misses of a level beyond those expected are counted over about this many rounds: enough for five expected misses
// at level 0.9, few enough to correct a run of misses within a hundred rows.
constexpr double MISS_ROUNDS = 50.0;

constexpr size_t SEASONS[] = {SeasonLength::WEEK_OF_DAYS, SeasonLength::DAY_OF_HOURS, SeasonLength::DAY_OF_HALF_HOURS, SeasonLength::DAY_OF_QUARTERS};

// The size of the part "seasons": the loss without a season, the losses by each, the sums of their places, the places of each.
constexpr size_t season_numbers() {
    size_t count = 1 + 2 * SeasonLength::SIZE;
    for (const size_t length : SEASONS) count += length;
    return count;
}

// What intervals are shown of a row when it is served.
struct IntervalRow {
    const double *X;     // scaled features
    double yhat;         // the prediction,
    double size;         // and in label scales from the centre of labels
    double last_label;   // the same of the last label
    double label_scale;
    double disagreement; // root mean square distance of the candidates from the prediction
};

class Intervals {
  public:
    Intervals() = default;
    // Quantiles with these tails beyond either end of an interval, none for no intervals; the spread model sees so many features.
    Intervals(std::vector<double> tails, size_t features);

    size_t levels() const { return tails.size(); }
    size_t quantiles() const { return levels() ? 2 * levels() + 1 : 0; }
    // Numbers of the state: IntervalState and four by level, cuts and factors of the fifths of predictions, seasons, spread model.
    size_t fifths_at() const { return levels() ? size_t(IntervalState::SIZE) + 4 * levels() : 0; }
    size_t seasons_at() const { return fifths_at() + (levels() ? 3 * FIFTHS - 1 : 0); }
    size_t coefficients_at() const { return seasons_at() + (levels() ? season_numbers() : 0); }
    size_t covariance_at() const { return coefficients_at() + spread_dim; }
    size_t size() const { return covariance_at() + spread_dim * spread_dim; }
    // Numbers of a record: quantiles, the unit, the first columns of the spread model.
    size_t served_numbers() const { return levels() ? quantiles() + 1 + SpreadColumn::SIZE : 0; }

    // Whether there is an interval for a label that is `late`: two different labels were settled, some prediction was found wrong,
    // and as many were judged as labels are late by, since that many neighbours tell little more than one.
    bool ready(const double *I, double label_min, double label_max, double late) const;
    void serve(const double *I, const IntervalRow &row, double *numbers) const;
    // Update the state with a label whose row was served this prediction and, if `bounded`, an interval; X is the row in the
    // scales of now.
    void follow(double *I, const double *X, const double *numbers, bool bounded, double yhat, double y, double late) const;

  private:
    std::vector<double> tails;      // the share of labels beyond either end of the interval of each level,
    std::vector<double> gains;      // how much larger its steps are, and what a hit and a miss do to its widths in the end,
    std::vector<double> hit, miss;
    std::vector<double> deviations; // and the standard deviation of its excess misses
    size_t spread_dim = 0;          // columns of the spread model

    double predict_spread(const double *I, const double *X, const double *served) const;
    void learn_spread(double *I, const double *X, const double *served, double residual, double late) const;
    void move_quantiles(double *I, const double *quantiles, size_t fifth, double y, double late) const;
};

} // namespace undrift
