// The mixer of predictions that were made elsewhere: the last step of online estimators, and all of `Mix`. The twin, which says what
// it is, is tests/twins/given_mixer.py.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "definitions.h"

namespace undrift {

// Rounds over which the gate and the mixer of given predictions average their |residuals|.
constexpr double GATE_ROUNDS = 50.0;

inline double clip(double x, double low, double high) { return std::min(std::max(x, low), high); }

inline double sigmoid(double x) { return x >= 0.0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x)); }

// ln(1 / sigmoid(x)), the price of a weight whose log-odds are x.
inline double price(double x) { return std::fmax(-x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

// Update a running mean of |residuals|, in which one counts at most WILD times the mean.
inline void follow_residual(double &unit, double &rounds, double residual) {
    rounds += 1.0;
    const double counted = unit > 0.0 ? std::min(residual, WILD * unit) : residual;
    unit += (counted - unit) / std::min(rounds, GATE_ROUNDS);
}

struct GivenMixer {
    size_t offered = 0;   // predictions that come with a row
    bool own = false;     // whether a prediction of our own is the first member
    int loss = 0;         // one of GivenLoss,
    double level = 0.5;   // and its level
    bool scaled = false;  // whether regrets are in units of the mean |residual|

    // Members: the own prediction, the offered ones, their mean and their median.
    size_t size() const { return own + offered + 2; }
    // The members of a row; NaN for those that are missing.
    void gather(const double *answers, double own_answer, double *members) const;
    // The members' weights, which sum to 1, from their sums of regrets (size(), GivenMember); and the members, clipped to a reach of
    // their weighted median. Returns false if all of them are missing.
    bool weigh(const double *sums, double unit, double *members, double *weights) const;
    // The weighted median of members; the weight of the mean is that of the offered answers that it is made of.
    double center(const double *members, const double *weights) const;
    // The weighted mean of clipped members, of which at least one is there.
    double combine(const double *members, const double *weights) const;
    // Judge the members, of which at least one is there, by the label. `numbers` (GivenNumber) and `own_sums` (size(), GivenMember)
    // change; members are weighed by `sums`. `activity` (GivenNumber), if any, is how much larger residuals are than usual now.
    void learn(double *numbers, double *activity, double *own_sums, const double *sums, const double *members, double yhat, double y,
               double late) const;
};

} // namespace undrift
