// Logistic loss, W learners in lanes. The weight of a round depends on its prediction, so a round is a forward solve,
// the scalar solve, and the update.
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

constexpr size_t FEATURES = 7; // arrays of:
struct Features { // scratch of one round, one vector per feature
    V *p, *be, *keep;
    Past past;
    Steps steps;
    Features(double *scratch, size_t d) {
        p = (V *)scratch;
        be = p + d;
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

// All rounds of C units, whose scalar solves overlap.
template <int C, size_t S> static void aioli_units(const Run &run, const Unit<S> *units, double *scratch) {
    const size_t d = run.dim;
    V bend[C], rest[C];
    M lost[C];
    for (int c = 0; c < C; ++c) {
        const Unit<S> &u = units[c];
        double b[W];
        for (size_t i = 0; i < W; ++i) b[i] = i < u.count ? run.bend[u.learner + i] : 1.0;
        bend[c] = load(b);
        rest[c] = 1.0 / bend[c];
        lost[c] = load(u.lost) != all(0.0);
    }
    for (size_t t = 0; t < run.rounds; ++t) {
        const int64_t closed = run.first + (int64_t)t;
        const double *z = run.Z + t * d;
        V m[C], h[C], yhat[C];
        for (int c = 0; c < C; ++c) {
            const Unit<S> &u = units[c];
            const Features f(scratch + c * FEATURES * d * W, d);
            V rate = u.rate, beta = u.beta;
            if (floors(u, closed)) {
                if (any(lost[c])) clear_lost(u, d);
                forget_in_place(u, closed, d);
                lost[c] = load(u.lost) != all(0.0);
                rate = beta = all(1.0);
            }
            for (size_t j = 0; j < d; ++j) {
                f.past.now[j] = load(u.inverse + j * S) * rate;
                f.past.energy[j] = load(u.energy + j * S) * beta;
            }
            solve<1, true>(u, d, z, f.past, f.p, &h[c], &m[c], f.steps);
            lost[c] = judge(lost[c], m[c], h[c]);
        }
        log_odds<C>(m, h, yhat);
        for (int c = 0; c < C; ++c) {
            const Unit<S> &u = units[c];
            const Features f(scratch + c * FEATURES * d * W, d);
            const Verdict k = score(yhat[c], h[c], run.y[t], bend[c], rest[c]);
            Before<V> before{all(1.0), all(0.0)};
            M steep = all(0.0) != all(0.0);
            for (size_t j = 0; j < d; ++j) {
                const Feature<V> one{f.p[j], all(z[j]), f.past.now[j], f.past.energy[j], f.steps.h[j], f.steps.m[j]};
                const Update<V> next = learn(one, k.scores, load(u.theta + j * S), before);
                f.be[j] = next.be;
                f.keep[j] = next.keep;
                steep = steep | (next.keep < all(1.0));
                store(u.inverse + j * S, next.inverse);
                store(u.theta + j * S, next.theta);
                store(u.energy + j * S, next.energy);
            }
            size_t r = 0;
            if (any(steep)) {
                update_steep(u, d, z, f);
                r = d;
            }
            for (; r + 4 <= d; r += 4) update_rows<4>(u, r, z, f);
            for (; r < d; ++r) update_rows<1>(u, r, z, f);
            store_some(run.one + t * run.learners + u.learner, yhat[c], u.count);
            store_some(run.two + t * run.learners + u.learner, k.stability, u.count);
            if (any(lost[c])) store(u.lost, select(lost[c], all(1.0), all(0.0)));
        }
    }
    for (int c = 0; c < C; ++c)
        if (any(lost[c])) clear_lost(units[c], d);
}

} // namespace
