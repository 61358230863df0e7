// Squared loss, W learners in lanes: all rounds of a unit, in blocks that end before floor rounds.
#pragma once
#include "vaw_rounds.h"
#include "vaw_wave.h"

namespace {

// From this many features on it is faster to apply several rounds at a time (measured).
constexpr size_t WAVE_MIN_DIM = REGISTERS >= 32 ? 28 : 40;

template <size_t S> static void vaw_unit(const LearnerCall &run, Block<S> &b) {
    const size_t d = run.dim;
    const Unit<S> &u = b.unit;
    for (size_t t = 0, n; t < run.rounds; t += n) {
        const int64_t closed = run.first + (int64_t)t;
        n = rounds_until_floor(u.floors_every_round, closed, run.rounds - t);
        const bool floored = is_floor_round(u, closed);
        if (floored) forget_in_place(u, closed, d);
        b.Z = run.Z + t * d;
        b.y = run.y + t;
        b.begin(n, floored);
        if (d >= WAVE_MIN_DIM && n >= (size_t)ROUNDS)
            vaw_wave(b);
        else
            vaw_rounds(b);
        M lost = load(u.lost) != all(0.0);
        for (size_t k = 0; k < n; ++k) {
            V m = b.sums[k].m, h = b.sums[k].h;
            lost = drop_lost(lost, m, h);
            store_lanes(run.m_or_yhat + (t + k) * run.learners + u.learner, m, u.count);
            store_lanes(run.h_or_stability + (t + k) * run.learners + u.learner, h, u.count);
        }
        if (any(lost)) {
            store(u.lost, select(lost, all(1.0), all(0.0)));
            clear_lost(u, d);
        }
    }
}

} // namespace
