// Many ensembles of one kind, each with rows of its own: all states in one array, a slot for each, records in any order.
#pragma once
#include "ensemble.h"

namespace {

// One round of the learners of a slot.
LearnerCall slot_learners(const EnsembleCall &r) {
    LearnerCall run = r.run;
    if (run.lanes != 1) run.lanes = SLOT_LANES;
    run.rounds = 1;
    return run;
}

size_t information_size(const LearnerCall &run) {
    return (run.learners + run.lanes - 1) / run.lanes * run.lanes * InformationLayout(run.dim).size;
}

// A slot takes whole cache lines.
size_t slot_size(const EnsembleCall &r) {
    return padded(EnsembleSlotLayout(information_size(slot_learners(r)), r.members).size);
}

size_t discounts_size(const LearnerCall &run) {
    return padded(units_of(run) * sizeof(DiscountLanes) / sizeof(double));
}

size_t keyed_scratch(const EnsembleCall &r) {
    EnsembleCall one = r;
    one.run = slot_learners(r);
    return discounts_size(one.run) + ensemble_scratch(one);
}

// Point a call at the arrays of a slot.
void bind_slot(EnsembleCall &r, double *slot, size_t information) {
    const EnsembleSlotLayout at(information, r.members);
    r.run.state = slot + at.information;
    r.last_label = slot + at.last_label;
    r.stability = slot + at.stability;
    if (!r.mix.log_weights) return; // one learner, nothing to mix
    r.mix.state = slot + at.mixer_state;
    r.mix.log_weights = slot + at.log_weights;
    r.mix.losses = slot + at.losses;
    r.mix.clipped_losses = slot + at.clipped_losses;
}

INLINE void prefetch(const void *line) {
#if defined(__GNUC__)
    __builtin_prefetch(line, 1, 2);
#else
    (void)line;
#endif
}

// Fetches the slot of the next record from memory while the round of this one is played: a part of it before every step,
// since a processor can only wait for so many cache lines at once.
struct SlotPrefetch {
    const double *at = nullptr, *end = nullptr;
    void fetch(size_t doubles) {
        const double *stop = (size_t)(end - at) < doubles ? end : at + doubles;
        for (; at < stop; at += 8) prefetch(at);
    }
};

void keyed_play(const EnsembleCall &given, const KeyedCall &keys, double *memory) {
    EnsembleCall r = given;
    r.run = slot_learners(given);
    r.mix.weights = nullptr;
    DiscountLanes *discounts = (DiscountLanes *)memory;
    if (r.run.lanes != 1)
        for (size_t i = 0; i < units_of(r.run); ++i) discounts[i] = DiscountLanes(r.run, i);
    r.run.discounts = discounts;
    const EnsembleScratch scratch(r, memory + discounts_size(r.run));
    r.run.m_or_yhat = scratch.m;
    r.run.h_or_stability = scratch.h;
    const size_t size = slot_size(given), information = information_size(r.run), units = units_of(r.run);
    const size_t together = r.binary ? units : 1, step = padded(size / (units / together + 1));
    const auto work = r.binary ? aioli_play : vaw_play;
    for (size_t i = 0; i < keys.records; ++i) {
        const size_t slot = (size_t)keys.slots[i];
        SlotPrefetch next;
        if (i + 1 < keys.records) {
            next.at = keys.states + (size_t)keys.slots[i + 1] * size;
            next.end = next.at + size;
            prefetch(keys.rounds + keys.slots[i + 1]);
        }
        bind_slot(r, keys.states + slot * size, information);
        r.run.first = keys.rounds[slot]++;
        r.run.Z = keys.Z + i * r.run.dim;
        r.run.y = keys.y + i;
        r.yhat = keys.yhat + i;
        for (size_t k = 0; k < units; k += together) {
            next.fetch(step);
            work(r.run, k, k + together, scratch.learners);
        }
        next.fetch(size);
        predict_and_mix(r, r.run, 0, true, scratch);
    }
}

} // namespace
