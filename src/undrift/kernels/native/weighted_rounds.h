// Rounds that differ in weight or in the time since the round before. Ordinary rounds among them go through the ordinary
// loops, to the same bits; the others are calls of one round each.
//
// A round after time dt has the discount beta^dt and is a floor round, since forgetting may have taken much at once. A row
// of weight w under squared loss is the row sqrt(w) z with the label sqrt(w) y; m and h are those of the row itself.
#pragma once
#include "kernel_table.h"

#include <cmath>
#include <vector>

namespace undrift {

// Room for the discounts of a round.
struct AgedDiscounts {
    std::vector<double> beta, between_floors;
};

// Let a call of one round, or a prediction, be after time `elapsed`; the call points into `room` from then on.
void set_elapsed(LearnerCall &run, double elapsed, AgedDiscounts &room);

// Rounds t .. t+n-1 of a call.
LearnerCall slice_rounds(const LearnerCall &run, size_t t, size_t n);

// Play a round of squared loss with a weight: predict from the row as it is, and learn it scaled.
template <class Play, class Predict>
void play_scaled(const LearnerCall &run, double weight, std::vector<double> &room, const Play &play, const Predict &predict) {
    const double root = std::sqrt(weight), label = root * run.y[0];
    room.resize(run.dim + 2 * run.learners);
    double *row = room.data(), *m = row + run.dim, *h = m + run.learners;
    for (size_t j = 0; j < run.dim; ++j) row[j] = root * run.Z[j];
    predict(run);
    LearnerCall scaled = run;
    scaled.Z = row;
    scaled.y = &label;
    scaled.m_or_yhat = m;
    scaled.h_or_stability = h;
    play(scaled);
    for (size_t i = 0; i < run.learners; ++i)
        if (h[i] == 0.0 && weight * run.h_or_stability[i] > 1.0) // lost by the scaled row: it predicts 0
            run.m_or_yhat[i] = run.h_or_stability[i] = 0.0;
}

// Play a call; `weight` and `elapsed` have a number for each round. play(call) and predict(call) carry out ordinary ones.
template <class Play, class Predict>
void play_weighted(bool binary, LearnerCall run, const double *weight, const double *elapsed, const Play &play,
                   const Predict &predict) {
    AgedDiscounts aged;
    std::vector<double> room;
    if (binary) run.weight = weight;
    const auto is_ordinary = [&](size_t t) { return elapsed[t] == 1.0 && (binary || weight[t] == 1.0); };
    for (size_t t = 0, n; t < run.rounds; t += n) {
        for (n = 0; t + n < run.rounds && is_ordinary(t + n);) ++n;
        const bool ordinary = n > 0;
        if (!ordinary) n = 1;
        LearnerCall part = slice_rounds(run, t, n);
        if (!ordinary) set_elapsed(part, elapsed[t], aged);
        if (binary || ordinary || weight[t] == 1.0)
            play(part);
        else
            play_scaled(part, weight[t], room, play, predict);
    }
}

} // namespace undrift
