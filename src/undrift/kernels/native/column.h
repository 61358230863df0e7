// One learner at a time, L stored column by column: vectors run along the rows of a column. The same operations in the
// same order as in lanes, so one learner alone and the same learner in a stack agree in bits.
#pragma once
#include "aioli.h"
#include "vaw.h"

namespace {

struct Single {
    double *inverse, *theta, *energy, *floored, *lost, *resets, *L;
    double beta, rate, blur, hold;
    bool hasty;
    size_t learner;

    Single(const Run &run, size_t i) {
        const InformationLayout at(run.dim);
        double *base = run.state + i * at.size;
        inverse = base + at.inverse_pivots;
        theta = base + at.theta;
        energy = base + at.energy;
        floored = base + at.floored;
        lost = base + at.lost;
        resets = base + at.resets;
        L = base + at.factor;
        beta = run.beta[i];
        rate = 1.0 / beta;
        blur = blurred(beta);
        hold = held(beta);
        hasty = beta < SMALL_BETA;
        learner = i;
    }
    bool floors(int64_t closed) const { return hasty || closed % FLOOR_PERIOD == 0; }
};

static double forget(const Single &u, size_t d, double *inverse, double *energy) {
    double raised = 0.0;
    for (size_t j = 0; j < d; ++j) {
        const double e = larger(u.energy[j] * u.beta, PIVOT_MIN);
        const double start = *u.lost != 0.0 ? ceiling_of(e, 0.0, u.hold) : u.inverse[j] * u.rate;
        const double ceiling = ceiling_of(e, start, u.hold);
        raised += start > ceiling ? 1.0 : 0.0;
        inverse[j] = smaller(start, ceiling);
        energy[j] = e;
    }
    return raised;
}

static void forget_in_place(const Single &u, size_t d) {
    *u.floored += forget(u, d, u.inverse, u.energy);
    *u.resets += *u.lost;
    *u.lost = 0.0;
}

COLD void clear_lost(const Single &u, size_t d) {
    *u.lost = 1.0;
    for (size_t j = 0; j < d; ++j) {
        u.inverse[j] = 1.0;
        u.theta[j] = 0.0;
    }
    if (d) memset(u.L, 0, row_of(d) * sizeof(double));
}

// One column below its diagonal.
COLD void apply_steep(double *L, double *v, size_t n, double p, double be, double keep) {
    for (size_t i = 0; i < n; ++i) learn_element(p, be, keep, L[i], v[i]);
}

// The same where it is not steep: v -= p L; L += be v.
INLINE void apply(double *L, double *v, size_t n, double p, double be, double keep) {
    if (RARELY(keep < 1.0)) return apply_steep(L, v, n, p, be, keep);
    size_t i = 0;
    for (; i + W <= n; i += W) {
        const V l = load(L + i), w = fnma(all(p), l, load(v + i));
        store(v + i, w);
        store(L + i, fma(all(be), w, l));
    }
    for (; i < n; ++i) {
        v[i] = fnma(p, L[i], v[i]);
        L[i] = fma(be, v[i], L[i]);
    }
}

INLINE void reduce(const double *L, double *v, size_t n, double p) {
    size_t i = 0;
    for (; i + W <= n; i += W) store(v + i, fnma(all(p), load(L + i), load(v + i)));
    for (; i < n; ++i) v[i] = fnma(p, L[i], v[i]);
}

// p holds z and becomes L^-1 z; now and energy are 1/D and the energies after forgetting; hs and ms the running sums.
static void solve(const Single &u, size_t d, const double *now, const double *energy, double *p, double *hs, double *ms) {
    const double *L = u.L;
    double h = 0.0, m = 0.0;
    for (size_t j = 0; j < d; L += d - 1 - j, ++j) {
        p[j] = news(p[j], now[j], energy[j], h, u.blur);
        reduce(L, p + j + 1, d - 1 - j, p[j]);
        hs[j] = h = fma(p[j] * now[j], p[j], h);
        ms[j] = m = fma(p[j], u.theta[j], m);
    }
}

// 1/D and energies as the next round sees them; returns whether the learner is lost then.
static bool prepare(const Single &u, int64_t closed, size_t d, double *now, double *energy) {
    if (u.floors(closed)) {
        forget(u, d, now, energy);
        return false;
    }
    for (size_t j = 0; j < d; ++j) {
        now[j] = u.inverse[j] * u.rate;
        energy[j] = u.energy[j] * u.beta;
    }
    return *u.lost != 0.0;
}

static void vaw_single(const Run &run, const Single &u, double *v) {
    const size_t d = run.dim;
    for (size_t t = 0; t < run.rounds; ++t) {
        const int64_t closed = run.first + (int64_t)t;
        const double *z = run.Z + t * d, y = run.y[t];
        double rate = u.rate, beta = u.beta;
        if (u.floors(closed)) {
            forget_in_place(u, d);
            rate = beta = 1.0;
        }
        if (d) memcpy(v, z, d * sizeof(double));
        Carry<double> c{0.0, 1.0, 0.0};
        double *L = u.L;
        for (size_t j = 0; j < d; L += d - 1 - j, ++j) {
            Pivot<double> p(v[j], rate, beta, u.inverse[j], u.energy[j], c);
            if (RARELY(p.needs_care(c))) p.take_care(u.blur, c);
            const Gain<double> next = learn<true>(p, z[j], y, u.theta[j], c);
            u.inverse[j] = next.inverse;
            u.theta[j] = next.theta;
            u.energy[j] = next.energy;
            apply(L, v + j + 1, d - 1 - j, p.p, next.be, next.keep);
        }
        double m = c.part, h = c.h;
        if (judge(*u.lost != 0.0, m, h)) clear_lost(u, d);
        run.one[t * run.learners + u.learner] = m;
        run.two[t * run.learners + u.learner] = h;
    }
}

static void aioli_single(const Run &run, const Single &u, double *scratch) {
    const size_t d = run.dim;
    double *p = scratch, *now = p + d, *energy = now + d, *hs = energy + d, *parts = hs + d, *v = parts + d;
    const double bend = run.bend[u.learner], rest = 1.0 / bend;
    for (size_t t = 0; t < run.rounds; ++t) {
        const int64_t closed = run.first + (int64_t)t;
        const double *z = run.Z + t * d;
        if (u.floors(closed)) {
            forget_in_place(u, d);
            if (d) memcpy(now, u.inverse, d * sizeof(double));
            if (d) memcpy(energy, u.energy, d * sizeof(double));
        } else {
            prepare(u, closed, d, now, energy);
        }
        if (d) memcpy(p, z, d * sizeof(double));
        solve(u, d, now, energy, p, hs, parts);
        double h = d ? hs[d - 1] : 0.0, m = d ? parts[d - 1] : 0.0;
        const bool lost = judge(*u.lost != 0.0, m, h);
        const V yhat = log_odds(all(m), all(h));
        const Verdict k = score(yhat, all(h), run.y[t], all(bend), all(rest));
        const Scores<double> scores{lane(k.scores.weight, 0), lane(k.scores.target, 0), lane(k.scores.slope, 0)};
        if (d) memcpy(v, z, d * sizeof(double));
        Before<double> before{1.0, 0.0};
        double *L = u.L;
        for (size_t j = 0; j < d; L += d - 1 - j, ++j) {
            const Feature<double> one{p[j], z[j], now[j], energy[j], hs[j], parts[j]};
            const Update<double> next = learn(one, scores, u.theta[j], before);
            u.inverse[j] = next.inverse;
            u.theta[j] = next.theta;
            u.energy[j] = next.energy;
            apply(L, v + j + 1, d - 1 - j, p[j], next.be, next.keep);
        }
        if (lost) clear_lost(u, d);
        run.one[t * run.learners + u.learner] = lane(yhat, 0);
        run.two[t * run.learners + u.learner] = lane(k.stability, 0);
    }
}

// m and h of candidate rows: `odds` turns them into log-odds.
static void single_predict(const Run &run, const Single &u, double *scratch, bool odds) {
    const size_t d = run.dim;
    double *now = scratch, *energy = now + d, *p = energy + d, *hs = p + d, *ms = hs + d;
    const bool lost = prepare(u, run.first, d, now, energy);
    for (size_t t = 0; t < run.rounds; ++t) {
        if (d) memcpy(p, run.Z + t * d, d * sizeof(double));
        solve(u, d, now, energy, p, hs, ms);
        double h = d ? hs[d - 1] : 0.0, m = d ? ms[d - 1] : 0.0;
        judge(lost, m, h);
        const size_t at = t * run.learners + u.learner;
        if (odds) m = lane(log_odds(all(m), all(h)), 0);
        run.one[at] = m;
        if (!odds) run.two[at] = h;
    }
}

} // namespace
