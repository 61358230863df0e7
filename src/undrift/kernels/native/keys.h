// Many ensembles of one kind, each with its own rows: all states in one array, a slot for each, records in any order.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <system_error>
#include <thread>

#include "dispatch.h"

namespace {
using namespace undrift;
namespace nb = nanobind;

using Integers = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Keys { // one call
    double *states;       // (keys, slot_size)
    int64_t *rounds;      // (keys): closed so far
    const int64_t *slots; // (records)
    size_t records;
    const double *Z, *y;
    double *yhat;
};

size_t information_size(const Run &run) {
    const size_t length = 3 * run.dim + 3 + (run.dim ? run.dim * (run.dim - 1) / 2 : 0);
    return (run.learners + run.lanes - 1) / run.lanes * run.lanes * length;
}

// A slot: information, the mixer's state (9), last (1), then by member stability, log-weights, losses, charged; whole
// cache lines.
size_t slot_size(const Round &r) { return (information_size(r.run) + 10 + 4 * r.members + 7) & ~size_t(7); }

void seat(Round &r, double *slot) {
    r.run.state = slot;
    double *next = slot + information_size(r.run);
    r.last = next + 9;
    r.stability = next + 10;
    if (!r.mix.log_weights) return; // one learner, nothing to mix
    r.mix.state = next;
    r.mix.log_weights = r.stability + r.members;
    r.mix.losses = r.mix.log_weights + r.members;
    r.mix.charged = r.mix.losses + r.members;
}

void fetch(const double *slot, size_t size) {
#if defined(__GNUC__)
    for (size_t k = 0; k < size; k += 8) __builtin_prefetch(slot + k, 1, 2);
#endif
}

// The records of slots that are `part` modulo `parts`, in their order.
void play_keys(Round r, const Keys &keys, size_t part, size_t parts, double *scratch) {
    const size_t size = slot_size(r), d = r.run.dim;
    r.run.rounds = 1;
    r.mix.weights = nullptr;
    for (size_t i = 0; i < keys.records; ++i) {
        const size_t slot = (size_t)keys.slots[i];
        if (i + 1 < keys.records) fetch(keys.states + (size_t)keys.slots[i + 1] * size, size);
        if (slot % parts != part) continue;
        seat(r, keys.states + slot * size);
        r.run.first = keys.rounds[slot]++;
        r.run.Z = keys.Z + i * d;
        r.run.y = keys.y + i;
        r.yhat = keys.yhat + i;
        table().round_play(r, scratch);
    }
}

// Keys are independent, so the result does not depend on the number of threads.
void share_keys(Round r, const Keys &keys, size_t threads) {
    r.run.rounds = 1;
    const size_t need = table().round_scratch(r);
    constexpr size_t FEW = 1000; // records; below this a thread costs more than it saves
    if (threads > 1 + keys.records / FEW) threads = 1 + keys.records / FEW;
    if (threads < 1) threads = 1;
    std::vector<std::thread> helpers;
    size_t k = 1;
    for (; k < threads; ++k) {
        try {
            helpers.emplace_back([&, k] { play_keys(r, keys, k, threads, scratch_of(need)); });
        } catch (const std::system_error &) {
            break; // no more threads to be had: the rest is done here
        }
    }
    play_keys(r, keys, 0, threads, scratch_of(need));
    for (; k < threads; ++k) play_keys(r, keys, k, threads, scratch_of(need));
    for (std::thread &t : helpers) t.join();
}

} // namespace
