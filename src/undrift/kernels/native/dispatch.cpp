#include "dispatch.h"

#include <algorithm>

namespace undrift {
namespace {

struct Level {
    const KernelTable *table;
    bool usable;
};

std::vector<Level> compiled_levels() {
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

const KernelTable *chosen = &table_portable;
thread_local Scratch own_scratch;

} // namespace

std::vector<std::string> levels() {
    std::vector<std::string> out;
    for (const Level &one : compiled_levels())
        if (one.usable) out.emplace_back(one.table->name);
    return out;
}

bool choose(const std::string &name) {
    for (const Level &one : compiled_levels())
        if (one.usable && name == one.table->name) {
            chosen = one.table;
            return true;
        }
    return false;
}

const KernelTable &table() { return *chosen; }

const KernelTable &level_for_lanes(const KernelTable &level, size_t lanes) {
    if (lanes != FEW_LANES || level.width <= FEW_LANES) return level;
    static const KernelTable *const narrower = [] {
        for (const Level &one : compiled_levels())
            if (one.usable && one.table->width <= FEW_LANES) return one.table;
        return &table_portable;
    }();
    return *narrower;
}

double *scratch_of(size_t doubles) { return own_scratch.get(doubles); }

void share_units(const KernelTable &level, LearnerKernel kernel, const LearnerCall &run, size_t threads) {
    constexpr size_t worth_a_thread = 400000; // multiply-adds; with fewer a thread costs more than it saves
    const size_t units = run.lanes == 1 ? run.learners : (run.learners + level.width - 1) / level.width;
    const size_t total = run.rounds * run.learners * (run.dim * run.dim + 8);
    const size_t parts = std::max<size_t>(1, std::min({threads, units, 1 + total / worth_a_thread}));
    run_parts(parts, level.learner_scratch(run), [&](size_t part, double *scratch) {
        kernel(run, units * part / parts, units * (part + 1) / parts, scratch);
    });
}

// Records that are sorted by slot are cut between slots; others are played by one thread.
void share_keys(const KernelTable &level, const EnsembleCall &ensemble, const KeyedCall &keys, size_t threads) {
    constexpr size_t worth_a_thread = 1000; // records
    const size_t n = keys.records;
    const bool sorted = threads > 1 && std::is_sorted(keys.slots, keys.slots + n);
    const size_t parts = sorted ? std::min(threads, 1 + n / worth_a_thread) : 1;
    const auto cut = [&](size_t part) {
        size_t i = n * part / parts;
        while (i > 0 && i < n && keys.slots[i] == keys.slots[i - 1]) ++i;
        return i;
    };
    run_parts(parts, level.keyed_scratch(ensemble), [&](size_t part, double *scratch) {
        const size_t begin = cut(part), end = cut(part + 1);
        const KeyedCall own{keys.states, keys.rounds, keys.slots + begin, end - begin,
                            keys.Z + begin * ensemble.run.dim, keys.y + begin, keys.yhat + begin};
        level.keyed_play(ensemble, own, scratch);
    });
}

} // namespace undrift
