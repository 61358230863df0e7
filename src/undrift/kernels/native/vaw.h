// Squared loss, W learners in lanes: all rounds of a unit, in blocks that end where floors are due.
#pragma once
#include "vaw_rounds.h"
#include "vaw_wave.h"

namespace {

constexpr size_t BROAD = REGISTERS >= 32 ? 28 : 40; // features from which on several rounds at a time pay

template <size_t S> static void vaw_unit(const Run &run, Block<S> &b) {
    const size_t d = run.dim;
    const Unit<S> &u = b.unit;
    for (size_t t = 0, n; t < run.rounds; t += n) {
        const int64_t closed = run.first + (int64_t)t;
        n = stretch(u.hasty, closed, run.rounds - t);
        const bool floored = floors(u, closed);
        if (floored) forget_in_place(u, closed, d);
        b.Z = run.Z + t * d;
        b.y = run.y + t;
        b.begin(n, floored);
        if (d >= BROAD && n >= (size_t)ROUNDS)
            vaw_wave(b);
        else
            vaw_rounds(b);
        M lost = load(u.lost) != all(0.0);
        for (size_t k = 0; k < n; ++k) {
            V m = b.carry[k].part, h = b.carry[k].h;
            lost = judge(lost, m, h);
            store_some(run.one + (t + k) * run.learners + u.learner, m, u.count);
            store_some(run.two + (t + k) * run.learners + u.learner, h, u.count);
        }
        if (any(lost)) {
            store(u.lost, select(lost, all(1.0), all(0.0)));
            clear_lost(u, d);
        }
    }
}

} // namespace
