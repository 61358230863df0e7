// Which instruction-set level runs, and how work is shared out among threads.
#pragma once
#include "kernel_table.h"

#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace undrift {

std::vector<std::string> levels();    // what this machine can run, best first
bool choose(const std::string &name); // false if this machine or this build lacks the level
const KernelTable &table();           // the chosen level; a call asks once, before it unlocks the interpreter
// The level that runs groups of so many lanes: `level`, or where its vectors are wider than FEW_LANES the best one whose are not.
const KernelTable &level_for_lanes(const KernelTable &level, size_t lanes);

// Memory of one thread, on whole cache lines. It grows and never shrinks: streaming calls do not allocate.
class Scratch {
    std::unique_ptr<unsigned char[]> raw;
    size_t size = 0;

  public:
    double *get(size_t doubles) {
        if (doubles > size) {
            raw.reset(); // first, so that a failure leaves no size without memory
            size = 0;
            raw.reset(new unsigned char[doubles * sizeof(double) + 64]);
            size = doubles;
        }
        return reinterpret_cast<double *>((reinterpret_cast<uintptr_t>(raw.get()) + 63) & ~uintptr_t(63));
    }
};

double *scratch_of(size_t doubles); // this thread's own

// Call work(part, scratch) for every part below `parts`, each on a thread of its own, and with `doubles` of scratch. The
// caller does the last part, and those for which no thread is to be had. The scratch is allocated here: a thread could not
// report that there is no memory.
template <class F> void run_parts(size_t parts, size_t doubles, const F &work) {
    double *own = scratch_of(doubles);
    if (parts > 1) {
        std::vector<Scratch> memory(parts - 1);
        for (Scratch &one : memory) one.get(doubles);
        std::vector<std::thread> threads;
        threads.reserve(parts - 1);
        size_t part = 0;
        try {
            for (; part + 1 < parts; ++part) threads.emplace_back(work, part, memory[part].get(doubles));
        } catch (const std::system_error &) { // no more threads to be had
        }
        for (; part < parts; ++part) work(part, own);
        for (std::thread &one : threads) one.join();
    } else {
        work(0, own);
    }
}

// How many of the first members i follow learner i with the hint of member 0: these are computed in lanes.
inline size_t members_in_order(const EnsembleCall &r) {
    size_t i = 0;
    while (i < r.members && r.leader[i] == (int64_t)i && (r.binary || r.hint[i] == r.hint[0])) ++i;
    return i;
}

// Run all units of a stack, or all records of keyed ensembles, on up to `threads` threads. Learners and keys are
// independent, so the result does not depend on the number of threads.
using LearnerKernel = void (*)(const LearnerCall &, size_t begin, size_t end, double *scratch);
void share_units(const KernelTable &level, LearnerKernel kernel, const LearnerCall &run, size_t threads);
void share_keys(const KernelTable &level, const EnsembleCall &ensemble, const KeyedCall &keys, size_t threads);

} // namespace undrift
