#include "weighted_rounds.h"

#include <algorithm>
#include <cmath>

namespace undrift {
namespace {

// As in unit.h.
double discount_between_floors(double beta) {
    const double two = beta * beta, four = two * two, eight = four * four;
    return beta < SMALL_BETA ? beta : eight * eight;
}

} // namespace

void set_elapsed(LearnerCall &run, double elapsed, AgedDiscounts &room) {
    if (elapsed == 1.0) return;
    const bool scheduled = run.first % FLOOR_PERIOD == 0;
    room.beta.resize(run.learners);
    room.between_floors.resize(run.learners);
    for (size_t i = 0; i < run.learners; ++i) {
        const double beta = run.beta[i], aged = std::max(std::pow(beta, elapsed), LEAST_DISCOUNT);
        room.beta[i] = aged;
        // What this round forgets; where a floor round was due, also what the ordinary rounds since the last one forgot.
        room.between_floors[i] = scheduled ? discount_between_floors(beta) * std::min(aged / beta, 1.0) : aged;
    }
    run.aged_beta = room.beta.data();
    run.between_floors = room.between_floors.data();
    run.discounts = nullptr;
    run.first = 0; // a floor round
}

LearnerCall slice_rounds(const LearnerCall &run, size_t t, size_t n) {
    LearnerCall part = run;
    part.first += (int64_t)t;
    part.rounds = n;
    part.Z += t * run.dim;
    part.y += t;
    part.m_or_yhat += t * run.learners;
    part.h_or_stability += t * run.learners;
    if (run.weight) part.weight += t;
    if (run.leverage) part.leverage += t * run.learners;
    if (run.point) part.point += t * run.learners;
    return part;
}

} // namespace undrift
