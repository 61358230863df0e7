// Logistic loss, W learners in lanes. The weight of a round depends on its prediction, so a round is a forward solve,
// the scalar solve, and the update; a round's update and the next one's forward solve go through L together.
#pragma once
#include "logistic.h"
#include "solve.h"

namespace {

template <class X> struct Scores { // of one round, once its prediction is known
    X weight, target, slope;
};

struct Verdict {
    Scores<V> scores;
    V stability;
};

// rest: 1 / bend. Labels are -1 or +1.
INLINE Verdict score(V yhat, V h, double y, V bend, V rest) {
    const V e = decay(magnitude(yhat)).exp, rq = 1.0 / (1.0 + e);
    const V weight = ((e * rq) * rq) * rest, wh = weight * h;
    const V wrong = select(yhat * y >= all(0.0), e * rq, rq); // sigma(-y yhat)
    return {{weight, yhat, y * wrong}, (bend * wh) / (1.0 + wh)};
}

// Feature j of the update, from what the solve left of it.
template <class X> struct Feature {
    X p, z, now, energy, h, part; // now and energy: 1/D and energy after forgetting
};

template <class X> struct Update {
    X inverse, theta, energy, be, keep;
};

template <class X> struct Before { // what the features before this one came to
    X s, part;
};

template <class X> INLINE Update<X> learn(const Feature<X> &f, const Scores<X> &k, X theta, Before<X> &b) {
    const X s = fma(k.weight, f.h, like(f.h, 1.0)), rs = 1.0 / s, gain = (f.p * f.now) * rs, keep = b.s * rs;
    const auto steep = is_steep(b.s, s);
    X next = fma(gain, fma(k.weight, k.target - f.part, k.slope), theta);
    if (RARELY(any(steep)))
        next = select(steep, fma(keep, theta, gain * fma(k.weight, k.target - b.part, k.slope)), next);
    b = {s, f.part};
    return {f.now * keep, next, fma(k.weight * f.z, f.z, f.energy), k.weight * gain, select(steep, keep, like(keep, 1.0))};
}

constexpr size_t FEATURES = 8; // arrays of:
struct Features { // scratch of one round, one vector per feature
    V *p, *be, *keep, *next; // next: p of the round after
    Past past;
    Steps steps;
    Features() = default;
    Features(double *scratch, size_t d, bool odd = false) { // p and next change places from round to round
        V *first = (V *)scratch;
        p = first + (odd ? d : 0);
        next = first + (odd ? 0 : d);
        be = first + 2 * d;
        keep = be + d;
        past = {keep + d, keep + 2 * d};
        steps = {keep + 3 * d, keep + 4 * d};
    }
};

// Rows of L in a round in which some lane of some feature is steep.
template <size_t S> APART void update_steep(const Unit<S> &u, size_t d, const double *z, const Features &f) {
    for (size_t r = 1; r < d; ++r) {
        V v = all(z[r]);
        double *row = u.L + row_of(r) * S;
        for (size_t j = 0; j < r; ++j) {
            V l = load(row + j * S);
            learn_element(f.p[j], f.be[j], f.keep[j], l, v);
            store(row + j * S, l);
        }
    }
}

// How a solve comes to the elements of R rows of L while they still have to learn the round before.
template <int R> struct Updating {
    const V *p, *be;
    V v[R];
    Updating(const double *z, const Features &f, size_t r0) {
        p = f.p;
        be = f.be;
        UNROLL for (int i = 0; i < R; ++i) v[i] = all(z[r0 + i]);
    }
    INLINE_MEMBER V element(int i, double *at, size_t j) {
        V l = load(at);
        v[i] = fnma(p[j], l, v[i]);
        l = fma(be[j], v[i], l);
        store(at, l);
        return l;
    }
};

template <int R, size_t S>
INLINE void update_rows(const Unit<S> &u, size_t r0, const double *z, const Features &f) {
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
            store(row[i] + j * S, fma(f.be[j], v[i], l));
        }
    for (int i = 1; i < R; ++i)
        for (int k = 0; k < i; ++k) {
            const V l = load(row[i] + (r0 + k) * S);
            v[i] = fnma(f.p[r0 + k], l, v[i]);
            store(row[i] + (r0 + k) * S, fma(f.be[r0 + k], v[i], l));
        }
}

template <size_t S> INLINE void update(const Unit<S> &u, size_t d, const double *z, const Features &f) {
    size_t r = 0;
    for (; r + 4 <= d; r += 4) update_rows<4>(u, r, z, f);
    for (; r < d; ++r) update_rows<1>(u, r, z, f);
}

constexpr int TALL = REGISTERS >= 32 ? 8 : 4; // rows at a time, two vectors each

// As many panels of R rows as fit in, from row r on.
template <int R, size_t S>
INLINE void update_and_solve_rows(const Unit<S> &u, size_t d, size_t &r, const double *z, const Features &f, V &h,
                                  V &m) {
    for (; r + R <= d; r += R)
        solve_rows<R, 1, true>(u, d, r, z + d, f.past, f.next, &h, &m, f.steps, Updating<R>(z, f, r));
}

// Update L with row z and solve for the row after it, in one pass.
template <size_t S>
APART void update_and_solve(const Unit<S> &u, size_t d, const double *z, const Features &f, V &h, V &m) {
    V hs = all(0.0), ms = all(0.0);
    size_t r = 0;
    update_and_solve_rows<TALL>(u, d, r, z, f, hs, ms);
    if (TALL > 4) update_and_solve_rows<4>(u, d, r, z, f, hs, ms);
    update_and_solve_rows<1>(u, d, r, z, f, hs, ms);
    h = hs;
    m = ms;
}

// Forget what the coming round forgets. Lost learners start afresh in a floor round; `lost` says who is lost after it.
template <size_t S> INLINE void forget_round(const Unit<S> &u, int64_t closed, size_t d, const Past &past, M &lost) {
    V rate = u.rate, beta = u.beta;
    if (floors(u, closed)) {
        if (any(lost)) clear_lost(u, d);
        forget_in_place(u, closed, d);
        lost = load(u.lost) != all(0.0);
        rate = beta = all(1.0);
    }
    for (size_t j = 0; j < d; ++j) {
        past.now[j] = load(u.inverse + j * S) * rate;
        past.energy[j] = load(u.energy + j * S) * beta;
    }
}

// What a round does to pivots, theta and energies, and its gains; returns whether some lane of some feature is steep.
template <size_t S>
INLINE bool learn_features(const Unit<S> &u, size_t d, const double *z, const Scores<V> &k, const Features &f) {
    Before<V> before{all(1.0), all(0.0)};
    M steep = all(0.0) != all(0.0);
    for (size_t j = 0; j < d; ++j) {
        const Feature<V> one{f.p[j], all(z[j]), f.past.now[j], f.past.energy[j], f.steps.h[j], f.steps.m[j]};
        const Update<V> next = learn(one, k, load(u.theta + j * S), before);
        f.be[j] = next.be;
        f.keep[j] = next.keep;
        steep = steep | (next.keep < all(1.0));
        store(u.inverse + j * S, next.inverse);
        store(u.theta + j * S, next.theta);
        store(u.energy + j * S, next.energy);
    }
    return any(steep);
}

// All rounds of C units, whose scalar solves overlap. L is gone through once a round: its update is left to the solve
// of the next, unless a feature is steep or a learner lost, or no round follows.
template <int C, size_t S> static void aioli_units(const Run &run, const Unit<S> *units, double *scratch) {
    const size_t d = run.dim;
    V bend[C], rest[C], m[C], h[C], yhat[C];
    M lost[C];
    bool solved[C];
    for (int c = 0; c < C; ++c) {
        const Unit<S> &u = units[c];
        double b[W];
        for (size_t i = 0; i < W; ++i) b[i] = i < u.count ? run.bend[u.learner + i] : 1.0;
        bend[c] = load(b);
        rest[c] = 1.0 / bend[c];
        lost[c] = load(u.lost) != all(0.0);
        solved[c] = false;
    }
    for (size_t t = 0; t < run.rounds; ++t) {
        const int64_t closed = run.first + (int64_t)t;
        const double *z = run.Z + t * d;
        Features f[C];
        for (int c = 0; c < C; ++c) {
            const Unit<S> &u = units[c];
            f[c] = Features(scratch + c * FEATURES * d * W, d, t & 1);
            if (!solved[c]) {
                forget_round(u, closed, d, f[c].past, lost[c]);
                solve<1, true>(u, d, z, f[c].past, f[c].p, &h[c], &m[c], f[c].steps);
            }
            lost[c] = judge(lost[c], m[c], h[c]);
        }
        log_odds<C>(m, h, yhat);
        for (int c = 0; c < C; ++c) {
            const Unit<S> &u = units[c];
            const Verdict k = score(yhat[c], h[c], run.y[t], bend[c], rest[c]);
            store_some(run.one + t * run.learners + u.learner, yhat[c], u.count);
            store_some(run.two + t * run.learners + u.learner, k.stability, u.count);
            if (any(lost[c])) store(u.lost, select(lost[c], all(1.0), all(0.0)));
            const bool steep = learn_features(u, d, z, k.scores, f[c]);
            solved[c] = t + 1 < run.rounds && !steep && !any(lost[c]);
            if (solved[c]) {
                forget_round(u, closed + 1, d, f[c].past, lost[c]);
                update_and_solve(u, d, z, f[c], h[c], m[c]);
            } else if (steep) {
                update_steep(u, d, z, f[c]);
            } else {
                update(u, d, z, f[c]);
            }
        }
    }
    for (int c = 0; c < C; ++c)
        if (any(lost[c])) clear_lost(units[c], d);
}

} // namespace
