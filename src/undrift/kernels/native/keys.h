// Many ensembles in one array, shared out among threads.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "dispatch.h"

namespace {
using namespace undrift;
namespace nb = nanobind;

using Integers = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Records sorted by slot are cut between slots, others are played by one thread: keys are independent, so the result does
// not depend on the number of threads.
void share_keys(const Table &level, const Round &r, const Keys &keys, size_t threads) {
    const size_t need = level.keys_scratch(r), n = keys.records;
    constexpr size_t FEW = 1000; // records; below this a thread costs more than it saves
    if (threads > 1 + n / FEW) threads = 1 + n / FEW;
    if (threads < 1 || !std::is_sorted(keys.slots, keys.slots + n)) threads = 1;
    const auto cut = [&](size_t part) {
        size_t i = n * part / threads;
        while (i > 0 && i < n && keys.slots[i] == keys.slots[i - 1]) ++i;
        return i;
    };
    const auto play = [&](size_t part) {
        const size_t begin = cut(part), end = cut(part + 1);
        const Keys mine{keys.states, keys.rounds, keys.slots + begin, end - begin, keys.Z + begin * r.run.dim,
                        keys.y + begin, keys.yhat + begin};
        level.keys_play(r, mine, scratch_of(need));
    };
    std::vector<std::thread> helpers;
    size_t k = 1;
    for (; k < threads; ++k) {
        try {
            helpers.emplace_back(play, k);
        } catch (const std::system_error &) {
            break; // no more threads to be had: the rest is done here
        }
    }
    play(0);
    for (; k < threads; ++k) play(k);
    for (std::thread &t : helpers) t.join();
}

} // namespace
