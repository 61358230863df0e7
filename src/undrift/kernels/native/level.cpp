// One instruction-set level: compiled once per level with its own flags and -DUNDRIFT_LEVEL=0 (portable), 2, 3 or 4.
#include "column.h"
#include "mix.h"

namespace {

int64_t refusal(const double *Z, size_t nz, const double *y, size_t ny, bool binary) {
    size_t i = 0;
    M good = all(0.0) == all(0.0);
    for (; i + W <= nz; i += W) good = good & (magnitude(load(Z + i)) <= all(LIMIT));
    bool fine = !any(neither(good));
    for (; i < nz; ++i) fine = fine && magnitude(Z[i]) <= LIMIT;
    for (i = 0; !fine; ++i)
        if (!(magnitude(Z[i]) <= LIMIT)) return 1 + (int64_t)i;
    for (i = 0; i < ny; ++i)
        if (!(binary ? magnitude(y[i]) == 1.0 : magnitude(y[i]) <= LIMIT)) return -1 - (int64_t)i;
    return 0;
}

size_t work_space(size_t dim) {
    const size_t tiles = 2 * PERIOD * dim * W, features = 10 * dim * LANES;
    return (tiles > features ? tiles : features) + 8;
}

size_t scratch(const Run &run) { return work_space(run.dim) + W * length_of(run.dim) + 8; }

// Units of a stack: where unit i starts.
double *place(const Run &run, size_t unit) {
    constexpr size_t per_group = LANES / W;
    return run.state + (unit / per_group) * length_of(run.dim) * LANES + (unit % per_group) * W;
}

// A long replay works on a compact copy of each unit: whole cache lines, and none shared between threads.
template <size_t S> void copy_in(const Run &run, const double *from, double *to) {
    for (size_t k = 0; k < length_of(run.dim); ++k) store(to + k * S, load(from + k * LANES));
}

template <size_t S> void copy_out(const Run &run, const double *from, double *to) {
    for (size_t k = 0; k < length_of(run.dim); ++k) store(to + k * LANES, load(from + k * S));
}

constexpr size_t LONG = 64; // rounds

template <size_t S> void vaw_one(const Run &run, size_t unit, double *base, double *scratch) {
    Block<S> b;
    b.unit = Unit<S>(base, run, unit);
    b.pb = (V *)scratch;
    vaw_unit(run, b);
}

template <size_t S> void aioli_one(const Run &run, size_t unit, double *base, double *scratch) {
    aioli_unit(run, Unit<S>(base, run, unit), scratch);
}

// One unit, where it lies or in a compact copy.
template <class Near, class Far> void play(const Run &run, size_t unit, double *scratch, Near near, Far far) {
    double *home = place(run, unit);
    if (run.rounds < LONG || W == LANES) return far(run, unit, home, scratch);
    double *copy = scratch + work_space(run.dim);
    copy_in<W>(run, home, copy);
    near(run, unit, copy, scratch);
    copy_out<W>(run, copy, home);
}

void vaw_play(const Run &run, size_t begin, size_t end, double *scratch) {
    for (size_t i = begin; i < end; ++i) {
        if (run.lanes == 1)
            vaw_single(run, Single(run, i), scratch);
        else
            play(run, i, scratch, vaw_one<W>, vaw_one<LANES>);
    }
}

void aioli_play(const Run &run, size_t begin, size_t end, double *scratch) {
    for (size_t i = begin; i < end; ++i) {
        if (run.lanes == 1)
            aioli_single(run, Single(run, i), scratch);
        else
            play(run, i, scratch, aioli_one<W>, aioli_one<LANES>);
    }
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
            unit_predict(run, Unit<LANES>(place(run, i), run, i), scratch, odds);
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

size_t mix_scratch(const Mix &mix) { return 9 * (mix.members + W); }

} // namespace

namespace undrift {
#if UNDRIFT_LEVEL == 0
extern const Table table_portable = {"portable",
#elif UNDRIFT_LEVEL == 2
extern const Table table_v2 = {"v2",
#elif UNDRIFT_LEVEL == 3
extern const Table table_v3 = {"v3",
#else
extern const Table table_v4 = {"v4",
#endif
                               W, refusal, scratch, vaw_play, vaw_predict, aioli_play, aioli_predict, mix_scratch,
                               mix_logistic, mix_squared, odds};
} // namespace undrift
