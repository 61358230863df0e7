// Many ensembles of one kind, each with its own rows: all states in one array, a slot for each, records in any order.
#pragma once

namespace {

Run slotted(const Round &r) { // one round of the memories of a slot
    Run run = r.run;
    if (run.lanes != 1) run.lanes = SLIM;
    run.rounds = 1;
    return run;
}

size_t information_size(const Run &run) {
    return (run.learners + run.lanes - 1) / run.lanes * run.lanes * InformationLayout(run.dim).size;
}

// A slot takes whole cache lines.
size_t slot_size(const Round &r) { return padded(EnsembleSlotLayout(information_size(slotted(r)), r.members).size); }

size_t paces_size(const Run &run) { return padded(units_of(run) * sizeof(Pace) / sizeof(double)); }

size_t keys_scratch(const Round &r) {
    Round one = r;
    one.run = slotted(r);
    return paces_size(one.run) + round_scratch(one);
}

void seat(Round &r, double *slot, size_t information) {
    const EnsembleSlotLayout at(information, r.members);
    r.run.state = slot + at.information;
    r.last = slot + at.last_label;
    r.stability = slot + at.stability;
    if (!r.mix.log_weights) return; // one learner, nothing to mix
    r.mix.state = slot + at.mixer_state;
    r.mix.log_weights = slot + at.log_weights;
    r.mix.losses = slot + at.losses;
    r.mix.clipped_losses = slot + at.clipped_losses;
}

INLINE void fetch(const void *line) {
#if defined(__GNUC__)
    __builtin_prefetch(line, 1, 2);
#else
    (void)line;
#endif
}

// The slot of the next record comes from memory while this one's round is played: some of it before every step, since
// a processor can only wait for so many lines at once.
struct Ahead {
    const double *at = nullptr, *end = nullptr;
    void some(size_t doubles) {
        const double *stop = (size_t)(end - at) < doubles ? end : at + doubles;
        for (; at < stop; at += 8) fetch(at);
    }
};

void keys_play(const Round &given, const Keys &keys, double *scratch) {
    Round r = given;
    r.run = slotted(given);
    r.mix.weights = nullptr;
    Pace *paces = (Pace *)scratch;
    if (r.run.lanes != 1)
        for (size_t i = 0; i < units_of(r.run); ++i) paces[i] = Pace(r.run, i);
    r.run.paces = paces;
    const Desk desk(r, scratch + paces_size(r.run));
    r.run.one = desk.m;
    r.run.two = desk.h;
    const size_t size = slot_size(given), information = information_size(r.run), units = units_of(r.run);
    const size_t together = r.binary ? units : 1, step = padded(size / (units / together + 1));
    const auto work = r.binary ? aioli_play : vaw_play;
    for (size_t i = 0; i < keys.records; ++i) {
        const size_t slot = (size_t)keys.slots[i];
        Ahead ahead;
        if (i + 1 < keys.records) {
            ahead.at = keys.states + (size_t)keys.slots[i + 1] * size;
            ahead.end = ahead.at + size;
            fetch(keys.rounds + keys.slots[i + 1]);
        }
        seat(r, keys.states + slot * size, information);
        r.run.first = keys.rounds[slot]++;
        r.run.Z = keys.Z + i * r.run.dim;
        r.run.y = keys.y + i;
        r.yhat = keys.yhat + i;
        for (size_t k = 0; k < units; k += together) {
            ahead.some(step);
            work(r.run, k, k + together, desk.work);
        }
        ahead.some(size);
        conclude(r, r.run, 0, true, desk);
    }
}

} // namespace
