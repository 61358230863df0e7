// One instruction-set level: compiled once per level with its own flags and its number as UNDRIFT_LEVEL (see vec.h).
#include "mix.h"
#include "outputs.h"

namespace {

// 0, or where the first number is that may not be used: see KernelTable.
int64_t invalid_input(const double *Z, size_t nz, const double *y, size_t ny, bool binary) {
    size_t i = 0;
    M good = all(0.0) == all(0.0);
    for (; i + W <= nz; i += W) good = good & (magnitude(load(Z + i)) <= all(INPUT_LIMIT));
    bool fine = !any(invert(good));
    for (; i < nz; ++i) fine = fine && magnitude(Z[i]) <= INPUT_LIMIT;
    for (i = 0; !fine; ++i)
        if (!(magnitude(Z[i]) <= INPUT_LIMIT)) return 1 + (int64_t)i;
    for (i = 0; i < ny; ++i)
        if (!(binary ? magnitude(y[i]) == 1.0 : magnitude(y[i]) <= INPUT_LIMIT)) return -1 - (int64_t)i;
    return 0;
}

constexpr int AIOLI_UNITS = 3;      // units whose scalar equations are solved side by side,
constexpr size_t L1_DOUBLES = 5632; // if their states together have at most so many numbers: the nearest cache holds them

// Scratch of the loops, in doubles: the arrays of a Block, or of FeatureScratch, or of one learner by itself, which needs
// less than 16 numbers a feature.
size_t loop_scratch(size_t dim) {
    const size_t block = 3 * FLOOR_PERIOD * dim * W + FLOOR_PERIOD * dim;
    const size_t features = AIOLI_UNITS * FEATURE_ARRAYS * dim * W;
    return (block > features ? block : features) + 16 * dim + 8;
}

// The same and compact copies of units.
size_t learner_scratch(const LearnerCall &run) {
    return loop_scratch(run.dim) + AIOLI_UNITS * W * InformationLayout(run.dim).size + 8;
}

// Where a unit of a stack starts.
template <size_t S> double *unit_start(const LearnerCall &run, size_t unit) {
    constexpr size_t per_group = S / W;
    return run.state + (unit / per_group) * InformationLayout(run.dim).size * S + (unit % per_group) * W;
}

// Calls with many rounds work on a compact copy of each unit: whole cache lines, and none shared between threads.
constexpr size_t COMPACT_MIN_ROUNDS = 64;

template <size_t S> void copy_in(const LearnerCall &run, const double *from, double *to) {
    for (size_t k = 0; k < InformationLayout(run.dim).size; ++k) store(to + k * S, load(from + k * LANES));
}

template <size_t S> void copy_out(const LearnerCall &run, const double *from, double *to) {
    for (size_t k = 0; k < InformationLayout(run.dim).size; ++k) store(to + k * LANES, load(from + k * S));
}

constexpr size_t SLOT_LANES = W < 4 ? 4 : W; // few of a slot's lanes are padding, and its units lie in one piece

template <size_t S> void vaw_unit_at(const LearnerCall &run, size_t unit, double *base, double *scratch) {
    Block<S> b;
    b.unit = Unit<S>(base, run, unit);
    b.d = run.dim;
    b.p_gain = (V *)scratch;
    b.keep = b.p_gain + 2 * FLOOR_PERIOD * run.dim;
    b.convex = (uint16_t *)(b.keep + FLOOR_PERIOD * run.dim);
    vaw_unit(run, b);
}

void vaw_stack_unit(const LearnerCall &run, size_t unit, double *scratch) {
    if (run.lanes == SLOT_LANES) return vaw_unit_at<SLOT_LANES>(run, unit, unit_start<SLOT_LANES>(run, unit), scratch);
    double *home = unit_start<LANES>(run, unit), *copy = scratch + loop_scratch(run.dim);
    if (run.rounds < COMPACT_MIN_ROUNDS || W == LANES) return vaw_unit_at<LANES>(run, unit, home, scratch);
    copy_in<W>(run, home, copy);
    vaw_unit_at<W>(run, unit, copy, scratch);
    copy_out<W>(run, copy, home);
}

template <int C, size_t S> void aioli_units_at(const LearnerCall &run, size_t unit, double *scratch) {
    Unit<S> u[C];
    for (int c = 0; c < C; ++c) u[c] = Unit<S>(unit_start<S>(run, unit + c), run, unit + c);
    aioli_units<C>(run, u, scratch);
}

template <int C> void aioli_stack_units(const LearnerCall &run, size_t unit, double *scratch) {
    if (run.lanes == SLOT_LANES) return aioli_units_at<C, SLOT_LANES>(run, unit, scratch);
    if (run.rounds < COMPACT_MIN_ROUNDS || W == LANES) return aioli_units_at<C, LANES>(run, unit, scratch);
    Unit<W> u[C];
    double *copy = scratch + loop_scratch(run.dim);
    const size_t step = W * InformationLayout(run.dim).size;
    for (int c = 0; c < C; ++c) {
        copy_in<W>(run, unit_start<LANES>(run, unit + c), copy + c * step);
        u[c] = Unit<W>(copy + c * step, run, unit + c);
    }
    aioli_units<C>(run, u, scratch);
    for (int c = 0; c < C; ++c) copy_out<W>(run, copy + c * step, unit_start<LANES>(run, unit + c));
}

void vaw_play(const LearnerCall &run, size_t begin, size_t end, double *scratch) {
    for (size_t i = begin; i < end; ++i) {
        if (run.lanes == 1)
            vaw_single(run, SingleLearner(run, i), scratch);
        else
            vaw_stack_unit(run, i, scratch);
    }
}

void aioli_play(const LearnerCall &run, size_t begin, size_t end, double *scratch) {
    size_t i = begin;
    if (run.lanes == 1) {
        for (; i < end; ++i) aioli_single(run, SingleLearner(run, i), scratch);
        return;
    }
    if (AIOLI_UNITS * W * InformationLayout(run.dim).size <= L1_DOUBLES) {
        for (; i + AIOLI_UNITS <= end; i += AIOLI_UNITS) aioli_stack_units<AIOLI_UNITS>(run, i, scratch);
        for (; i + 2 <= end; i += 2) aioli_stack_units<2>(run, i, scratch);
    }
    for (; i < end; ++i) aioli_stack_units<1>(run, i, scratch);
}

// Predictions for the T rows from row t on: m and h, or the log-odds of logistic loss.
template <int T, size_t S>
void unit_predict(const LearnerCall &run, const Unit<S> &u, size_t t, M lost, const FeatureScratch &f,
                  bool as_log_odds) {
    V m[T], h[T];
    solve<T, false>(u, run.dim, run.Z + t * run.dim, f.past, f.p, h, m, f.sums);
    for (int k = 0; k < T; ++k) {
        drop_lost(lost, m[k], h[k]);
        const size_t at = (t + k) * run.learners + u.learner;
        store_lanes(run.m_or_yhat + at, as_log_odds ? log_odds(m[k], h[k]) : m[k], u.count);
        if (!as_log_odds) store_lanes(run.h_or_stability + at, h[k], u.count);
    }
}

template <size_t S> void unit_predict(const LearnerCall &run, const Unit<S> &u, double *scratch, bool as_log_odds) {
    FeatureScratch f(scratch, run.dim);
    f.p = f.sums.h; // p of four rows needs room, and the arrays from here on are free
    const M lost = discount_past(u, run.first, run.dim, f.past);
    size_t t = 0;
    for (; t + 4 <= run.rounds; t += 4) unit_predict<4>(run, u, t, lost, f, as_log_odds);
    for (; t < run.rounds; ++t) unit_predict<1>(run, u, t, lost, f, as_log_odds);
}

void predict(const LearnerCall &run, size_t begin, size_t end, double *scratch, bool as_log_odds) {
    for (size_t i = begin; i < end; ++i) {
        if (run.lanes == 1)
            single_predict(run, SingleLearner(run, i), scratch, as_log_odds);
        else if (run.lanes == SLOT_LANES)
            unit_predict(run, Unit<SLOT_LANES>(unit_start<SLOT_LANES>(run, i), run, i), scratch, as_log_odds);
        else
            unit_predict(run, Unit<LANES>(unit_start<LANES>(run, i), run, i), scratch, as_log_odds);
    }
}

void vaw_predict(const LearnerCall &run, size_t begin, size_t end, double *scratch) {
    predict(run, begin, end, scratch, false);
}

void aioli_predict(const LearnerCall &run, size_t begin, size_t end, double *scratch) {
    predict(run, begin, end, scratch, true);
}

void log_odds_of_arrays(const double *m0, const double *kappa, double *m, size_t count) {
    for (size_t i = 0; i < count; i += W) {
        double a[W] = {}, b[W] = {}, c[W];
        const size_t n = count - i < W ? count - i : W;
        memcpy(a, m0 + i, n * sizeof(double));
        memcpy(b, kappa + i, n * sizeof(double));
        store(c, log_odds(load(a), load(b)));
        memcpy(m + i, c, n * sizeof(double));
    }
}

size_t mixer_scratch(const MixerCall &mix) { return 10 * (mix.members + W); } // the arrays of MixerScratch

} // namespace

#include "ensemble_slots.h" // it calls the functions above

namespace undrift {
#if UNDRIFT_LEVEL == 0
#define ADAM_TABLE adam_portable
#define CLASS_LEVEL_TABLE class_level_portable
extern const KernelTable table_portable = {"portable",
#elif UNDRIFT_LEVEL == 1
#define ADAM_TABLE adam_neon
#define CLASS_LEVEL_TABLE class_level_neon
extern const KernelTable table_neon = {"neon",
#elif UNDRIFT_LEVEL == 2
#define ADAM_TABLE adam_v2
#define CLASS_LEVEL_TABLE class_level_v2
extern const KernelTable table_v2 = {"v2",
#elif UNDRIFT_LEVEL == 3
#define ADAM_TABLE adam_v3
#define CLASS_LEVEL_TABLE class_level_v3
extern const KernelTable table_v3 = {"v3",
#else
#define ADAM_TABLE adam_v4
#define CLASS_LEVEL_TABLE class_level_v4
extern const KernelTable table_v4 = {"v4",
#endif
                                    W, invalid_input, learner_scratch, vaw_play, vaw_predict, aioli_play, aioli_predict,
                                    mixer_scratch, mix_logistic, mix_squared, ensemble_scratch, ensemble_play,
                                    ensemble_predict, SLOT_LANES, slot_size, keyed_scratch, keyed_play, &ADAM_TABLE,
                                    &CLASS_LEVEL_TABLE, outputs_scratch, outputs_play, outputs_predict, log_odds_of_arrays};
} // namespace undrift
