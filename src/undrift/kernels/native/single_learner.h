// One learner by itself, L stored column by column: vectors run along the rows of a column. These are the operations of
// the lanes, in their order, so one learner by itself and the same learner in a stack agree in bits.
#pragma once
#include "aioli.h"
#include "vaw.h"

namespace {

// The parts of one learner's state, and what follows from its discount (see DiscountLanes in unit.h).
struct SingleLearner {
    double *inverse, *theta, *energy, *floored, *lost, *resets, *L;
    double beta, inverse_beta, rounding, between_floors;
    bool floors_every_round;
    size_t learner;

    SingleLearner(const LearnerCall &run, size_t i) {
        const InformationLayout at(run.dim);
        double *base = run.state + i * at.size;
        inverse = base + at.inverse_pivots;
        theta = base + at.theta;
        energy = base + at.energy;
        floored = base + at.floored;
        lost = base + at.lost;
        resets = base + at.resets;
        L = base + at.factor;
        beta = run.aged_beta ? run.aged_beta[i] : run.beta[i];
        inverse_beta = 1.0 / beta;
        rounding = rounding_bound(run.beta[i]);
        between_floors = run.aged_beta ? run.between_floors[i] : discount_between_floors(beta);
        floors_every_round = beta < SMALL_BETA;
        learner = i;
    }
    bool is_floor_round(int64_t closed) const { return floors_every_round || closed % FLOOR_PERIOD == 0; }
};

// The steps of unit.h for one learner.
static double forget(const SingleLearner &u, size_t d, double *inverse, double *energy) {
    double raised = 0.0;
    for (size_t j = 0; j < d; ++j) {
        const double e = larger(u.energy[j] * u.beta, PIVOT_MIN);
        const double fresh = inverse_pivot_ceiling(e, 0.0, u.between_floors);
        const double start = *u.lost != 0.0 ? fresh : u.inverse[j] * u.inverse_beta;
        const double ceiling = inverse_pivot_ceiling(e, start, u.between_floors);
        raised += start > ceiling ? 1.0 : 0.0;
        inverse[j] = smaller(start, ceiling);
        energy[j] = e;
    }
    return raised;
}

static void forget_in_place(const SingleLearner &u, size_t d) {
    *u.floored += forget(u, d, u.inverse, u.energy);
    *u.resets += *u.lost;
    *u.lost = 0.0;
}

COLD void clear_lost(const SingleLearner &u, size_t d) {
    *u.lost = 1.0;
    for (size_t j = 0; j < d; ++j) {
        u.inverse[j] = 1.0;
        u.theta[j] = 0.0;
    }
    if (d) memset(u.L, 0, row_of(d) * sizeof(double));
}

// Update a column of L below its diagonal, n elements, and v, what is left of their rows' features, in the convex form.
COLD void update_column_convex(double *L, double *v, size_t n, double p, double gain, double keep) {
    for (size_t i = 0; i < n; ++i) update_element(p, gain, keep, L[i], v[i]);
}

// Update a column: v <- v - p L, L <- L + gain v; in the convex form where keep < 1.
INLINE void update_column(double *L, double *v, size_t n, double p, double gain, double keep) {
    if (RARELY(keep < 1.0)) return update_column_convex(L, v, n, p, gain, keep);
    size_t i = 0;
    for (; i + W <= n; i += W) {
        const V l = load(L + i), w = fnma(all(p), l, load(v + i));
        store(v + i, w);
        store(L + i, fma(all(gain), w, l));
    }
    for (; i < n; ++i) {
        v[i] = fnma(p, L[i], v[i]);
        L[i] = fma(gain, v[i], L[i]);
    }
}

// v <- v - p L
INLINE void subtract_column(const double *L, double *v, size_t n, double p) {
    size_t i = 0;
    for (; i + W <= n; i += W) store(v + i, fnma(all(p), load(L + i), load(v + i)));
    for (; i < n; ++i) v[i] = fnma(p, L[i], v[i]);
}

// Solve for a row: p holds z and becomes L^-1 z; hs and ms receive the leverage and the prediction summed up to each
// feature. `inverse` and `energy` are 1/D and the energies after forgetting.
static void solve(const SingleLearner &u, size_t d, const double *inverse, const double *energy, double *p, double *hs,
                  double *ms) {
    const double *L = u.L;
    double h = 0.0, m = 0.0;
    for (size_t j = 0; j < d; L += d - 1 - j, ++j) {
        p[j] = drop_rounding(p[j], inverse[j], energy[j], h, u.rounding);
        subtract_column(L, p + j + 1, d - 1 - j, p[j]);
        hs[j] = h = fma(p[j] * inverse[j], p[j], h);
        ms[j] = m = fma(p[j], u.theta[j], m);
    }
}

// Fill 1/D and the energies as the next round will see them; returns whether the learner is lost then.
static bool discount_past(const SingleLearner &u, int64_t closed, size_t d, double *inverse, double *energy) {
    if (u.is_floor_round(closed)) {
        forget(u, d, inverse, energy);
        return false;
    }
    for (size_t j = 0; j < d; ++j) {
        inverse[j] = u.inverse[j] * u.inverse_beta;
        energy[j] = u.energy[j] * u.beta;
    }
    return *u.lost != 0.0;
}

static void vaw_single(const LearnerCall &run, const SingleLearner &u, double *v) {
    const size_t d = run.dim;
    for (size_t t = 0; t < run.rounds; ++t) {
        const int64_t closed = run.first + (int64_t)t;
        const double *z = run.Z + t * d, y = run.y[t];
        double inverse_beta = u.inverse_beta, beta = u.beta;
        if (u.is_floor_round(closed)) {
            forget_in_place(u, d);
            inverse_beta = beta = 1.0;
        }
        if (d) memcpy(v, z, d * sizeof(double));
        RunningSums<double> c{0.0, 1.0, 0.0};
        double *L = u.L;
        for (size_t j = 0; j < d; L += d - 1 - j, ++j) {
            Pivot<double> p(v[j], inverse_beta, beta, u.inverse[j], u.energy[j], c);
            if (RARELY(p.needs_care(c))) p.take_care(u.rounding, c);
            const PivotUpdate<double> next = update_pivot<true>(p, z[j], y, u.theta[j], c);
            u.inverse[j] = next.inverse;
            u.theta[j] = next.theta;
            u.energy[j] = next.energy;
            update_column(L, v + j + 1, d - 1 - j, p.p, next.gain, next.keep);
        }
        double m = c.m, h = c.h;
        if (drop_lost(*u.lost != 0.0, m, h)) clear_lost(u, d);
        run.m_or_yhat[t * run.learners + u.learner] = m;
        run.h_or_stability[t * run.learners + u.learner] = h;
    }
}

static void aioli_single(const LearnerCall &run, const SingleLearner &u, double *scratch) {
    const size_t d = run.dim;
    double *p = scratch, *inverse = p + d, *energy = inverse + d, *hs = energy + d, *ms = hs + d, *v = ms + d;
    const double inverse_curvature = run.inverse_curvature[u.learner], curvature = 1.0 / inverse_curvature;
    for (size_t t = 0; t < run.rounds; ++t) {
        const int64_t closed = run.first + (int64_t)t;
        const double *z = run.Z + t * d;
        if (u.is_floor_round(closed)) {
            forget_in_place(u, d);
            if (d) memcpy(inverse, u.inverse, d * sizeof(double));
            if (d) memcpy(energy, u.energy, d * sizeof(double));
        } else {
            discount_past(u, closed, d, inverse, energy);
        }
        if (d) memcpy(p, z, d * sizeof(double));
        solve(u, d, inverse, energy, p, hs, ms);
        double h = d ? hs[d - 1] : 0.0, m = d ? ms[d - 1] : 0.0;
        const bool lost = drop_lost(*u.lost != 0.0, m, h);
        const V yhat = log_odds(all(m), all(h));
        ScoredRound k = fit_surrogate(yhat, all(h), run.y[t], all(inverse_curvature), all(curvature));
        if (run.weight) {
            const V point = count_copies(k.surrogate, all(m), all(h), run.y[t], all(inverse_curvature), all(curvature), run.weight[t]);
            if (run.point) run.point[t * run.learners + u.learner] = lane(point, 0);
        }
        const Surrogate<V> &s = k.surrogate;
        const Surrogate<double> surrogate{lane(s.weight, 0), lane(s.target, 0), lane(s.slope, 0)};
        if (d) memcpy(v, z, d * sizeof(double));
        PreviousSums<double> before{1.0, 0.0};
        double *L = u.L;
        for (size_t j = 0; j < d; L += d - 1 - j, ++j) {
            const SolvedFeature<double> one{p[j], z[j], inverse[j], energy[j], hs[j], ms[j]};
            const FeatureUpdate<double> next = update_feature(one, surrogate, u.theta[j], before);
            u.inverse[j] = next.inverse;
            u.theta[j] = next.theta;
            u.energy[j] = next.energy;
            update_column(L, v + j + 1, d - 1 - j, p[j], next.gain, next.keep);
        }
        if (lost) clear_lost(u, d);
        run.m_or_yhat[t * run.learners + u.learner] = lane(yhat, 0);
        run.h_or_stability[t * run.learners + u.learner] = lane(k.stability, 0);
        if (run.leverage) run.leverage[t * run.learners + u.learner] = h;
    }
}

// Predictions for rows that might come next: m and h, or the log-odds of logistic loss.
static void single_predict(const LearnerCall &run, const SingleLearner &u, double *scratch, bool as_log_odds) {
    const size_t d = run.dim;
    double *inverse = scratch, *energy = inverse + d, *p = energy + d, *hs = p + d, *ms = hs + d;
    const bool lost = discount_past(u, run.first, d, inverse, energy);
    for (size_t t = 0; t < run.rounds; ++t) {
        if (d) memcpy(p, run.Z + t * d, d * sizeof(double));
        solve(u, d, inverse, energy, p, hs, ms);
        double h = d ? hs[d - 1] : 0.0, m = d ? ms[d - 1] : 0.0;
        drop_lost(lost, m, h);
        const size_t at = t * run.learners + u.learner;
        if (as_log_odds) m = lane(log_odds(all(m), all(h)), 0);
        run.m_or_yhat[at] = m;
        if (!as_log_odds) run.h_or_stability[at] = h;
    }
}

} // namespace
