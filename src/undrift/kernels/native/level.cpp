// One instruction-set level: compiled once per level with its own flags and its number as UNDRIFT_LEVEL (see vec.h).
#include "column.h"
#include "mix.h"

namespace {

int64_t refusal(const double *Z, size_t nz, const double *y, size_t ny, bool binary) {
    size_t i = 0;
    M good = all(0.0) == all(0.0);
    for (; i + W <= nz; i += W) good = good & (magnitude(load(Z + i)) <= all(INPUT_LIMIT));
    bool fine = !any(neither(good));
    for (; i < nz; ++i) fine = fine && magnitude(Z[i]) <= INPUT_LIMIT;
    for (i = 0; !fine; ++i)
        if (!(magnitude(Z[i]) <= INPUT_LIMIT)) return 1 + (int64_t)i;
    for (i = 0; i < ny; ++i)
        if (!(binary ? magnitude(y[i]) == 1.0 : magnitude(y[i]) <= INPUT_LIMIT)) return -1 - (int64_t)i;
    return 0;
}

constexpr int TOGETHER = 3;        // units whose scalar solves overlap,
constexpr size_t NEAREST = 5632; // if their numbers, all together, fit into the nearest cache

size_t work_space(size_t dim) {
    const size_t tiles = 3 * FLOOR_PERIOD * dim * W + FLOOR_PERIOD * dim, features = TOGETHER * FEATURES * dim * W;
    return (tiles > features ? tiles : features) + 16 * dim + 8; // one learner alone needs less than 16 numbers a feature
}

size_t scratch(const Run &run) { return work_space(run.dim) + TOGETHER * W * InformationLayout(run.dim).size + 8; }

// Units of a stack: where unit i starts.
template <size_t S> double *place(const Run &run, size_t unit) {
    constexpr size_t per_group = S / W;
    return run.state + (unit / per_group) * InformationLayout(run.dim).size * S + (unit % per_group) * W;
}

// A long replay works on a compact copy of each unit: whole cache lines, and none shared between threads.
template <size_t S> void copy_in(const Run &run, const double *from, double *to) {
    for (size_t k = 0; k < InformationLayout(run.dim).size; ++k) store(to + k * S, load(from + k * LANES));
}

template <size_t S> void copy_out(const Run &run, const double *from, double *to) {
    for (size_t k = 0; k < InformationLayout(run.dim).size; ++k) store(to + k * LANES, load(from + k * S));
}

constexpr size_t LONG = 64;              // rounds
constexpr size_t SLIM = W < 4 ? 4 : W; // lanes of a slot: few are spare, and its units lie in one piece

template <size_t S> void vaw_units(const Run &run, size_t unit, double *base, double *scratch) {
    Block<S> b;
    b.unit = Unit<S>(base, run, unit);
    b.d = run.dim;
    b.pb = (V *)scratch;
    b.keep = b.pb + 2 * FLOOR_PERIOD * run.dim;
    b.steep = (uint16_t *)(b.keep + FLOOR_PERIOD * run.dim);
    vaw_unit(run, b);
}

void vaw_one(const Run &run, size_t unit, double *scratch) {
    if (run.lanes == SLIM) return vaw_units<SLIM>(run, unit, place<SLIM>(run, unit), scratch);
    double *home = place<LANES>(run, unit), *copy = scratch + work_space(run.dim);
    if (run.rounds < LONG || W == LANES) return vaw_units<LANES>(run, unit, home, scratch);
    copy_in<W>(run, home, copy);
    vaw_units<W>(run, unit, copy, scratch);
    copy_out<W>(run, copy, home);
}

template <int C, size_t S> void aioli_here(const Run &run, size_t unit, double *scratch) {
    Unit<S> u[C];
    for (int c = 0; c < C; ++c) u[c] = Unit<S>(place<S>(run, unit + c), run, unit + c);
    aioli_units<C>(run, u, scratch);
}

template <int C> void aioli_some(const Run &run, size_t unit, double *scratch) {
    if (run.lanes == SLIM) return aioli_here<C, SLIM>(run, unit, scratch);
    if (run.rounds < LONG || W == LANES) return aioli_here<C, LANES>(run, unit, scratch);
    Unit<W> u[C];
    double *copy = scratch + work_space(run.dim);
    const size_t step = W * InformationLayout(run.dim).size;
    for (int c = 0; c < C; ++c) {
        copy_in<W>(run, place<LANES>(run, unit + c), copy + c * step);
        u[c] = Unit<W>(copy + c * step, run, unit + c);
    }
    aioli_units<C>(run, u, scratch);
    for (int c = 0; c < C; ++c) copy_out<W>(run, copy + c * step, place<LANES>(run, unit + c));
}

void vaw_play(const Run &run, size_t begin, size_t end, double *scratch) {
    for (size_t i = begin; i < end; ++i) {
        if (run.lanes == 1)
            vaw_single(run, Single(run, i), scratch);
        else
            vaw_one(run, i, scratch);
    }
}

void aioli_play(const Run &run, size_t begin, size_t end, double *scratch) {
    size_t i = begin;
    if (run.lanes == 1) {
        for (; i < end; ++i) aioli_single(run, Single(run, i), scratch);
        return;
    }
    if (TOGETHER * W * InformationLayout(run.dim).size <= NEAREST)
        for (; i + TOGETHER <= end; i += TOGETHER) aioli_some<TOGETHER>(run, i, scratch);
    for (; i < end; ++i) aioli_some<1>(run, i, scratch);
}

template <int T> void unit_predict(const Run &run, const Unit<LANES> &u, size_t t, M lost, const Features &f, bool odds) {
    V m[T], h[T];
    solve<T, false>(u, run.dim, run.Z + t * run.dim, f.past, f.p, h, m, f.steps);
    for (int k = 0; k < T; ++k) {
        judge(lost, m[k], h[k]);
        const size_t at = (t + k) * run.learners + u.learner;
        store_some(run.one + at, odds ? log_odds(m[k], h[k]) : m[k], u.count);
        if (!odds) store_some(run.two + at, h[k], u.count);
    }
}

void unit_predict(const Run &run, const Unit<LANES> &u, double *scratch, bool odds) {
    Features f(scratch, run.dim);
    f.p = f.steps.h; // p of four rows goes where nothing else is kept
    const M lost = prepare(u, run.first, run.dim, f.past);
    size_t t = 0;
    for (; t + 4 <= run.rounds; t += 4) unit_predict<4>(run, u, t, lost, f, odds);
    for (; t < run.rounds; ++t) unit_predict<1>(run, u, t, lost, f, odds);
}

void predict(const Run &run, size_t begin, size_t end, double *scratch, bool odds) {
    for (size_t i = begin; i < end; ++i) {
        if (run.lanes == 1)
            single_predict(run, Single(run, i), scratch, odds);
        else
            unit_predict(run, Unit<LANES>(place<LANES>(run, i), run, i), scratch, odds);
    }
}

void vaw_predict(const Run &run, size_t begin, size_t end, double *scratch) { predict(run, begin, end, scratch, false); }
void aioli_predict(const Run &run, size_t begin, size_t end, double *scratch) { predict(run, begin, end, scratch, true); }

void odds(const double *m0, const double *kappa, double *m, size_t count) {
    for (size_t i = 0; i < count; i += W) {
        double a[W] = {}, b[W] = {}, c[W];
        const size_t n = count - i < W ? count - i : W;
        memcpy(a, m0 + i, n * sizeof(double));
        memcpy(b, kappa + i, n * sizeof(double));
        store(c, log_odds(load(a), load(b)));
        memcpy(m + i, c, n * sizeof(double));
    }
}

// Chains and lanes start from different numbers that the compiler cannot know: it can neither merge nor drop them.
double multiply_adds(size_t n) {
    constexpr int CHAINS = 12, TURNS = 32;
    volatile double seed = 1.0, sink;
    V a[CHAINS];
    const V b = all(seed * 0.999), c = all(seed * 0.001);
    UNROLL for (int k = 0; k < CHAINS; ++k) {
        double start[W];
        for (size_t i = 0; i < W; ++i) start[i] = seed + (double)(k * W + i);
        a[k] = load(start);
    }
    for (size_t i = 0; i < n * TURNS; ++i) {
        UNROLL for (int k = 0; k < CHAINS; ++k) a[k] = fma(a[k], b, c);
    }
    V sum = a[0];
    UNROLL for (int k = 1; k < CHAINS; ++k) sum += a[k];
    for (size_t i = 0; i < W; ++i) sink = lane(sum, i);
    (void)sink;
    return (double)n * TURNS * CHAINS * W;
}

void stream(double *data, size_t size, size_t n) {
    volatile double one = 1.0;
    for (size_t k = 0; k < n; ++k) {
        const V by = all(one);
        size_t i = 0;
        for (; i + 4 * W <= size; i += 4 * W) {
            UNROLL for (size_t u = 0; u < 4; ++u) store(data + i + u * W, load(data + i + u * W) * by);
        }
        for (; i < size; ++i) data[i] *= lane(by, 0);
    }
}

size_t mix_scratch(const Mix &mix) { return 10 * (mix.members + W); }

} // namespace

#include "round.h"
#include "slots.h"

namespace undrift {
#if UNDRIFT_LEVEL == 0
extern const Table table_portable = {"portable",
#elif UNDRIFT_LEVEL == 1
extern const Table table_neon = {"neon",
#elif UNDRIFT_LEVEL == 2
extern const Table table_v2 = {"v2",
#elif UNDRIFT_LEVEL == 3
extern const Table table_v3 = {"v3",
#else
extern const Table table_v4 = {"v4",
#endif
                               W, refusal, scratch, vaw_play, vaw_predict, aioli_play, aioli_predict, mix_scratch,
                               mix_logistic, mix_squared, round_scratch, round_play, round_predict, SLIM,
                               slot_size, keys_scratch, keys_play, odds, multiply_adds, stream};
} // namespace undrift
