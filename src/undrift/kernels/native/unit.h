// A unit: W neighbouring learners of a stack, one per lane of a native vector, and the steps of a round that touch
// each feature once. A number of the unit sits every S doubles: S = LANES in the caller's state, S = W in a compact copy,
// S = SLIM in a slot.
#pragma once
#include "table.h"
#include "vec.h"

namespace {
using namespace undrift;

INLINE size_t row_of(size_t r) { return r * (r - 1) / 2; } // place of L's row r among the stored elements (r >= 1)

template <class X> INLINE X blurred(X beta) {
    const X width = like(beta, RESIDUE_ROUNDING) / larger(1.0 - beta, like(beta, 1e-5));
    return width * width;
}

// What forgetting leaves of a pivot from one floor round to the next.
template <class X> INLINE X held(X beta) {
    static_assert(FLOOR_PERIOD == 16, "four squares");
    const X two = beta * beta, four = two * two, eight = four * four;
    return select(beta < like(beta, SMALL_BETA), beta, eight * eight);
}

// How large 1/D may be in a floor round. Only forgetting is undone: where a feature's energy jumps, its pivot stays.
template <class X> INLINE X ceiling_of(X energy, X start, X hold) {
    const X lowest = 1.0 / larger(PIVOT_FLOOR * energy, like(energy, PIVOT_MIN));
    return smaller(larger(start * hold, lowest), like(start, 1.0 / PIVOT_MIN));
}

// What is left of a feature in a row, unless that is rounding: |p's terms| <= sqrt(h energy), h of the features before.
// Healthy features never get beyond the first comparison.
template <class X> INLINE auto is_faint(X now, X energy) { return now * energy > like(now, COLLINEAR); }

template <class K, class X> INLINE X news(K faint, X p, X energy, X h, X blur) {
    return select(faint & (p * p <= blur * (h * energy)), like(p, 0.0), p);
}

template <class X> INLINE X news(X p, X now, X energy, X h, X blur) {
    const auto faint = is_faint(now, energy);
    return any(faint) ? news(faint, p, energy, h, blur) : p;
}

// Whether the features up to j raise s = 1 + leverage so steeply that little is kept of column j's past: its share in the
// updated column is keep = s_{j-1} / s_j.
template <class X> INLINE auto is_steep(X before, X s) { return before < CONVEX_SHARE * s; }

// Column j of a round, for one element l of L and what is left of its feature: v loses its part along p_j, then l learns.
// keep is 1 where that is not steep. l + be v and keep l + be (v as it was) are the same number, but where keep is small
// the first is a small difference of large ones.
template <class X> INLINE void learn_element(X p, X be, X keep, X &l, X &v) {
    const X convex = fma(keep, l, be * v);
    v = fnma(p, l, v);
    l = select(keep < like(keep, 1.0), convex, fma(be, v, l));
}

struct Pace { // of W neighbouring learners: the discount, its reciprocal, and where rounding ends
    V beta, rate, blur, hold;
    size_t learner, count;
    bool hasty;

    Pace() = default;
    Pace(const Run &run, size_t unit) {
        learner = unit * W;
        count = run.learners - learner < W ? run.learners - learner : W;
        double b[W];
        hasty = false;
        for (size_t i = 0; i < W; ++i) {
            b[i] = i < count ? run.beta[learner + i] : 1.0; // spare lanes hold harmless numbers
            hasty |= b[i] < SMALL_BETA;
        }
        beta = load(b);
        rate = all(1.0) / beta;
        blur = blurred(beta);
        hold = held(beta);
    }
};

template <size_t S> struct Unit : Pace {
    double *inverse, *theta, *energy, *floored, *lost, *resets, *L;

    Unit() = default;
    Unit(double *base, const Run &run, size_t unit) : Pace(run.paces ? ((const Pace *)run.paces)[unit] : Pace(run, unit)) {
        const InformationLayout at(run.dim);
        inverse = base + at.inverse_pivots * S;
        theta = base + at.theta * S;
        energy = base + at.energy * S;
        floored = base + at.floored * S;
        lost = base + at.lost * S;
        resets = base + at.resets * S;
        L = base + at.factor * S;
    }
};

// Rounds that may be taken before the next floor.
INLINE size_t stretch(bool hasty, int64_t closed, size_t left) {
    const size_t n = hasty ? 1 : (size_t)(FLOOR_PERIOD - closed % FLOOR_PERIOD);
    return n < left ? n : left;
}

template <size_t S> INLINE bool floors(const Unit<S> &u, int64_t closed) { return u.hasty || closed % FLOOR_PERIOD == 0; }

// The lanes that floor in this round.
template <size_t S> INLINE M due(const Unit<S> &u, int64_t closed) {
    return u.beta < all(closed % FLOOR_PERIOD == 0 ? 2.0 : SMALL_BETA);
}

// Forget, in a floor round: discount, keep pivots above the floor, start afresh where lost. (Elsewhere forgetting is a
// factor inside the round.) Writes 1/D and the energy, every O doubles; returns how many pivots were raised.
template <size_t O, size_t S>
static V forget(const Unit<S> &u, int64_t closed, size_t d, double *inverse, double *energy) {
    const M here = due(u, closed), lost = load(u.lost) != all(0.0);
    V raised = all(0.0);
    for (size_t j = 0; j < d; ++j) {
        const V mild = load(u.inverse + j * S) * u.rate, e = load(u.energy + j * S) * u.beta;
        const V floor_e = larger(e, all(PIVOT_MIN));
        const V start = select(lost, ceiling_of(floor_e, all(0.0), u.hold), mild);
        const V ceiling = ceiling_of(floor_e, start, u.hold);
        raised += select(start > ceiling, all(1.0), all(0.0));
        store(inverse + j * O, select(here, smaller(start, ceiling), mild));
        store(energy + j * O, select(here, floor_e, e));
    }
    return select(here, raised, all(0.0));
}

template <size_t S> static void forget_in_place(const Unit<S> &u, int64_t closed, size_t d) {
    const V raised = forget<S>(u, closed, d, u.inverse, u.energy), lost = load(u.lost);
    const M here = due(u, closed);
    store(u.floored, load(u.floored) + raised);
    store(u.resets, load(u.resets) + select(here, lost, all(0.0)));
    store(u.lost, select(here, all(0.0), lost));
}

// Lost learners predict 0 until the next floor round; what their numbers became does not matter. Give them harmless
// ones (leader 0, L = I), so that no state ever holds a NaN and every cut of a stream leaves the same bits.
template <size_t S> COLD void clear_lost(const Unit<S> &u, size_t d) {
    const M lost = load(u.lost) != all(0.0);
    for (size_t j = 0; j < d; ++j) {
        store(u.inverse + j * S, select(lost, all(1.0), load(u.inverse + j * S)));
        store(u.theta + j * S, select(lost, all(0.0), load(u.theta + j * S)));
    }
    for (size_t k = 0; k < row_of(d); ++k) store(u.L + k * S, select(lost, all(0.0), load(u.L + k * S)));
}

// Zero m and h where lost, in this round or since the last floor; returns the lanes lost so far.
template <class K, class X> INLINE K judge(K lost, X &m, X &h) {
    lost = lost | neither((magnitude(m) <= like(m, PREDICTION_LIMIT)) & (h <= like(h, PREDICTION_LIMIT * PREDICTION_LIMIT)));
    m = select(lost, like(m, 0.0), m);
    h = select(lost, like(h, 0.0), h);
    return lost;
}

INLINE void store_some(double *p, V v, size_t count) {
    if (count == W) return store(p, v);
    for (size_t i = 0; i < count; ++i) p[i] = lane(v, i);
}

} // namespace
