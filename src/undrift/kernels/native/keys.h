// Many ensembles in one array, shared out among threads.
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

// Keys are independent, so the result does not depend on the number of threads.
void share_keys(const Round &r, Keys keys, size_t threads) {
    const size_t need = table().keys_scratch(r);
    constexpr size_t FEW = 1000; // records; below this a thread costs more than it saves
    if (threads > 1 + keys.records / FEW) threads = 1 + keys.records / FEW;
    if (threads < 1) threads = 1;
    const auto play = [&](size_t part) {
        Keys mine = keys;
        mine.part = part;
        mine.parts = threads;
        table().keys_play(r, mine, scratch_of(need));
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
