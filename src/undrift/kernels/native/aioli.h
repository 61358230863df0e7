// Logistic loss, W learners in lanes. AIOLI replaces the loss of a round by a quadratic surrogate whose weight depends on
// the prediction, so a round has three steps: a forward solve for m and h, the scalar equation
// yhat + h tanh(yhat / 2) = m (logistic.h), and the update of L D L^T with the surrogate's weight. To go through L once a
// round, the update of one round and the forward solve of the next are done together.
#pragma once
#include "logistic.h"
#include "solve.h"

namespace {

// The surrogate of a round's loss: weight (x.z - target)^2 / 2 - slope x.z.
template <class X> struct Surrogate {
    X weight, target, slope;
};

struct ScoredRound {
    Surrogate<V> surrogate;
    V stability;
};

// The surrogate at the log-odds yhat for the label y, -1 or +1: weight = curvature sigma(yhat) sigma(-yhat),
// slope = y sigma(-y yhat). The stability of the round is weight h / (1 + weight h) / curvature.
INLINE ScoredRound fit_surrogate(V yhat, V h, double y, V inverse_curvature, V curvature) {
    const V e = decay(magnitude(yhat)).exp, rq = 1.0 / (1.0 + e);
    const V weight = ((e * rq) * rq) * curvature, wh = weight * h;
    const V wrong = select(yhat * y >= all(0.0), e * rq, rq); // sigma(-y yhat)
    return {{weight, yhat, y * wrong}, (inverse_curvature * wh) / (1.0 + wh)};
}

// Let a loss count `by` times; returns where its copies beyond the first are expanded.
// Up to 1 the surrogate counts that often. Of more copies, the first is an ordinary round, which takes the past from (m, h)
// to (m1, h1) in the direction of z. At yhat the others would be by - 1 steps as long as that one, and diverge. They are
// expanded at their own least loss on top of that past: no step leads beyond the point where the label's loss is flat.
INLINE V count_copies(Surrogate<V> &s, V m, V h, double y, V inverse_curvature, V curvature, double by) {
    const V yhat = s.target;
    if (!(by > 1.0)) {
        s.weight = s.weight * by;
        s.slope = s.slope * by;
        return yhat;
    }
    const double more = by - 1.0;
    const V part = 1.0 / fma(s.weight, h, all(1.0)), m1 = fma(fma(h, s.slope, m - yhat), part, yhat);
    const V point = y * least_loss(y * m1, smaller(more * (h * part), all(PREDICTION_LIMIT * PREDICTION_LIMIT)));
    const Surrogate<V> copy = fit_surrogate(point, h, y, inverse_curvature, curvature).surrogate;
    const V weight = more * copy.weight;
    s.slope = s.slope + fma(weight, point - yhat, more * copy.slope); // both quadratics around yhat
    s.weight = s.weight + weight;
    return point;
}

// Feature j of a round after the solve: p = (L^-1 z)_j, 1/D and energy after forgetting, h and m summed up to j.
template <class X> struct SolvedFeature {
    X p, z, inverse, energy, h, m;
};

// What a round makes of feature j; see PivotUpdate in vaw_pivot.h. The gain includes the weight.
template <class X> struct FeatureUpdate {
    X inverse, theta, energy, gain, keep;
};

// s = 1 + weight h and the prediction m, summed over the features before this one.
template <class X> struct PreviousSums {
    X s, m;
};

template <class X>
INLINE FeatureUpdate<X> update_feature(const SolvedFeature<X> &f, const Surrogate<X> &k, X theta, PreviousSums<X> &b) {
    const X s = fma(k.weight, f.h, like(f.h, 1.0)), rs = 1.0 / s, gain = (f.p * f.inverse) * rs, keep = b.s * rs;
    const auto convex = takes_convex_form(b.s, s);
    X next = fma(gain, fma(k.weight, k.target - f.m, k.slope), theta);
    if (RARELY(any(convex)))
        next = select(convex, fma(keep, theta, gain * fma(k.weight, k.target - b.m, k.slope)), next);
    b = {s, f.m};
    const X kept = select(convex, keep, like(keep, 1.0));
    return {f.inverse * keep, next, fma(k.weight * f.z, f.z, f.energy), k.weight * gain, kept};
}

constexpr size_t FEATURE_ARRAYS = 8; // of FeatureScratch

// Scratch of one round: arrays of one vector per feature.
struct FeatureScratch {
    V *p, *gain, *keep, *next; // next: p of the round after
    DiscountedPivots past;
    SumsByFeature sums;
    FeatureScratch() = default;
    FeatureScratch(double *scratch, size_t d, bool odd = false) { // p and next change places from round to round
        V *first = (V *)scratch;
        p = first + (odd ? d : 0);
        next = first + (odd ? 0 : d);
        gain = first + 2 * d;
        keep = gain + d;
        past = {keep + d, keep + 2 * d};
        sums = {keep + 3 * d, keep + 4 * d};
    }
};

// Update L with row z in a round in which some feature takes the convex form.
template <size_t S> APART void update_convex(const Unit<S> &u, size_t d, const double *z, const FeatureScratch &f) {
    for (size_t r = 1; r < d; ++r) {
        V v = all(z[r]);
        double *row = u.L + row_of(r) * S;
        for (size_t j = 0; j < r; ++j) {
            V l = load(row + j * S);
            update_element(f.p[j], f.gain[j], f.keep[j], l, v);
            store(row + j * S, l);
        }
    }
}

// How a solve gets the elements of R rows of L that the round before has not updated yet: it updates them on the way.
template <int R> struct UpdateElements {
    const V *p, *gain;
    V v[R];
    UpdateElements(const double *z, const FeatureScratch &f, size_t r0) {
        p = f.p;
        gain = f.gain;
        UNROLL for (int i = 0; i < R; ++i) v[i] = all(z[r0 + i]);
    }
    INLINE_MEMBER V element(int i, double *at, size_t j) {
        V l = load(at);
        v[i] = fnma(p[j], l, v[i]);
        l = fma(gain[j], v[i], l);
        store(at, l);
        return l;
    }
};

// Update rows r0 .. r0+R-1 of L with row z.
template <int R, size_t S>
INLINE void update_rows(const Unit<S> &u, size_t r0, const double *z, const FeatureScratch &f) {
    V v[R];
    double *row[R];
    for (int i = 0; i < R; ++i) {
        v[i] = all(z[r0 + i]);
        row[i] = u.L + (r0 + i ? row_of(r0 + i) : 0) * S;
    }
    for (size_t j = 0; j < r0; ++j)
        for (int i = 0; i < R; ++i) {
            const V l = load(row[i] + j * S);
            v[i] = fnma(f.p[j], l, v[i]);
            store(row[i] + j * S, fma(f.gain[j], v[i], l));
        }
    for (int i = 1; i < R; ++i)
        for (int k = 0; k < i; ++k) {
            const V l = load(row[i] + (r0 + k) * S);
            v[i] = fnma(f.p[r0 + k], l, v[i]);
            store(row[i] + (r0 + k) * S, fma(f.gain[r0 + k], v[i], l));
        }
}

template <size_t S> INLINE void update(const Unit<S> &u, size_t d, const double *z, const FeatureScratch &f) {
    size_t r = 0;
    for (; r + 4 <= d; r += 4) update_rows<4>(u, r, z, f);
    for (; r < d; ++r) update_rows<1>(u, r, z, f);
}

constexpr int PANEL_ROWS = REGISTERS >= 32 ? 8 : 4; // rows at a time: each needs two vectors

// Update and solve panels of R rows, as many as there are from row r on.
template <int R, size_t S>
INLINE void update_and_solve_rows(const Unit<S> &u, size_t d, size_t &r, const double *z, const FeatureScratch &f, V &h,
                                  V &m) {
    for (; r + R <= d; r += R)
        solve_rows<R, 1, true>(u, d, r, z + d, f.past, f.next, &h, &m, f.sums, UpdateElements<R>(z, f, r));
}

// Update L with row z and solve for the row after it, in one pass.
template <size_t S>
APART void update_and_solve(const Unit<S> &u, size_t d, const double *z, const FeatureScratch &f, V &h, V &m) {
    V hs = all(0.0), ms = all(0.0);
    size_t r = 0;
    update_and_solve_rows<PANEL_ROWS>(u, d, r, z, f, hs, ms);
    if (PANEL_ROWS > 4) update_and_solve_rows<4>(u, d, r, z, f, hs, ms);
    update_and_solve_rows<1>(u, d, r, z, f, hs, ms);
    h = hs;
    m = ms;
}

// Forget at the begin of a round. In a floor round lost learners start afresh; `lost` becomes the lanes lost after it.
template <size_t S>
INLINE void forget_round(const Unit<S> &u, int64_t closed, size_t d, const DiscountedPivots &past, M &lost) {
    V inverse_beta = u.inverse_beta, beta = u.beta;
    if (is_floor_round(u, closed)) {
        if (any(lost)) clear_lost(u, d);
        forget_in_place(u, closed, d);
        lost = load(u.lost) != all(0.0);
        inverse_beta = beta = all(1.0);
    }
    for (size_t j = 0; j < d; ++j) {
        past.inverse[j] = load(u.inverse + j * S) * inverse_beta;
        past.energy[j] = load(u.energy + j * S) * beta;
    }
}

// Update pivots, theta and energies, and fill the gains; returns whether some feature takes the convex form.
template <size_t S>
INLINE bool update_features(const Unit<S> &u, size_t d, const double *z, const Surrogate<V> &k, const FeatureScratch &f) {
    PreviousSums<V> before{all(1.0), all(0.0)};
    M convex = all(0.0) != all(0.0);
    for (size_t j = 0; j < d; ++j) {
        const SolvedFeature<V> one{f.p[j],           all(z[j]),    f.past.inverse[j],
                                   f.past.energy[j], f.sums.h[j], f.sums.m[j]};
        const FeatureUpdate<V> next = update_feature(one, k, load(u.theta + j * S), before);
        f.gain[j] = next.gain;
        f.keep[j] = next.keep;
        convex = convex | (next.keep < all(1.0));
        store(u.inverse + j * S, next.inverse);
        store(u.theta + j * S, next.theta);
        store(u.energy + j * S, next.energy);
    }
    return any(convex);
}

// All rounds of C units, whose scalar equations are solved side by side. The update of L is left to the solve of the next
// round, unless a feature takes the convex form, a learner is lost, or no round follows.
template <int C, size_t S> static void aioli_units(const LearnerCall &run, const Unit<S> *units, double *scratch) {
    const size_t d = run.dim;
    V inverse_curvature[C], curvature[C], m[C], h[C], yhat[C];
    M lost[C];
    bool solved[C];
    for (int c = 0; c < C; ++c) {
        const Unit<S> &u = units[c];
        double b[W];
        for (size_t i = 0; i < W; ++i) b[i] = i < u.count ? run.inverse_curvature[u.learner + i] : 1.0;
        inverse_curvature[c] = load(b);
        curvature[c] = 1.0 / inverse_curvature[c];
        lost[c] = load(u.lost) != all(0.0);
        solved[c] = false;
    }
    for (size_t t = 0; t < run.rounds; ++t) {
        const int64_t closed = run.first + (int64_t)t;
        const double *z = run.Z + t * d;
        FeatureScratch f[C];
        for (int c = 0; c < C; ++c) {
            const Unit<S> &u = units[c];
            f[c] = FeatureScratch(scratch + c * FEATURE_ARRAYS * d * W, d, t & 1);
            if (!solved[c]) {
                forget_round(u, closed, d, f[c].past, lost[c]);
                solve<1, true>(u, d, z, f[c].past, f[c].p, &h[c], &m[c], f[c].sums);
            }
            lost[c] = drop_lost(lost[c], m[c], h[c]);
        }
        log_odds<C>(m, h, yhat);
        for (int c = 0; c < C; ++c) {
            const Unit<S> &u = units[c];
            ScoredRound k = fit_surrogate(yhat[c], h[c], run.y[t], inverse_curvature[c], curvature[c]);
            if (run.weight) {
                const V point = count_copies(k.surrogate, m[c], h[c], run.y[t], inverse_curvature[c], curvature[c], run.weight[t]);
                if (run.point) store_lanes(run.point + t * run.learners + u.learner, point, u.count);
            }
            if (run.leverage) store_lanes(run.leverage + t * run.learners + u.learner, h[c], u.count);
            store_lanes(run.m_or_yhat + t * run.learners + u.learner, yhat[c], u.count);
            store_lanes(run.h_or_stability + t * run.learners + u.learner, k.stability, u.count);
            if (any(lost[c])) store(u.lost, select(lost[c], all(1.0), all(0.0)));
            const bool convex = update_features(u, d, z, k.surrogate, f[c]);
            solved[c] = t + 1 < run.rounds && !convex && !any(lost[c]);
            if (solved[c]) {
                forget_round(u, closed + 1, d, f[c].past, lost[c]);
                update_and_solve(u, d, z, f[c], h[c], m[c]);
            } else if (convex) {
                update_convex(u, d, z, f[c]);
            } else {
                update(u, d, z, f[c]);
            }
        }
    }
    for (int c = 0; c < C; ++c)
        if (any(lost[c])) clear_lost(units[c], d);
}

} // namespace
