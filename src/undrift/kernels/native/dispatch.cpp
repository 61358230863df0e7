#include "dispatch.h"

#include <cstdlib>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

namespace undrift {
namespace {

struct Choice {
    const Table *table;
    bool usable;
};

std::vector<Choice> choices() {
#if defined(UNDRIFT_X86)
    __builtin_cpu_init();
    const bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    const bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd");
    return {{&table_v4, v4}, {&table_v3, v3}, {&table_v2, v2}, {&table_portable, true}};
#elif defined(UNDRIFT_NEON)
    return {{&table_neon, true}, {&table_portable, true}}; // every 64-bit ARM processor has NEON
#else
    return {{&table_portable, true}};
#endif
}

const Table *chosen = &table_portable;

class Scratch { // grows, never shrinks: streaming calls do not allocate
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
thread_local Scratch mine;

constexpr size_t WORTH_A_THREAD = 400000; // multiply-adds; below this a thread costs more than it saves

} // namespace

std::vector<std::string> levels() {
    std::vector<std::string> out;
    for (const Choice &c : choices())
        if (c.usable) out.emplace_back(c.table->name);
    return out;
}

bool choose(const std::string &name) {
    for (const Choice &c : choices())
        if (c.usable && name == c.table->name) {
            chosen = c.table;
            return true;
        }
    return false;
}

const Table &table() { return *chosen; }

double *scratch_of(size_t doubles) { return mine.get(doubles); }

void share(const Table &level, Work work, const Run &run, size_t threads) {
    const size_t units = run.lanes == 1 ? run.learners : (run.learners + level.width - 1) / level.width;
    const size_t need = level.scratch(run), total = run.rounds * run.learners * (run.dim * run.dim + 8);
    if (threads > units) threads = units;
    if (threads > 1 + total / WORTH_A_THREAD) threads = 1 + total / WORTH_A_THREAD;
    double *own = mine.get(need);
    if (threads <= 1) return work(run, 0, units, own);

    std::vector<Scratch> theirs(threads - 1);
    for (Scratch &s : theirs) s.get(need);
    std::vector<std::thread> helpers;
    helpers.reserve(threads - 1);
    size_t next = 0; // first unit not handed out
    for (size_t k = 0; k + 1 < threads; ++k) {
        const size_t end = units * (k + 1) / threads;
        try {
            helpers.emplace_back(work, std::cref(run), next, end, theirs[k].get(need));
        } catch (const std::system_error &) {
            break; // no more threads to be had: the rest is done here
        }
        next = end;
    }
    work(run, next, units, own);
    for (std::thread &t : helpers) t.join();
}

} // namespace undrift
