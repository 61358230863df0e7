// A unit: W neighbouring learners of a stack, one in each lane of a native vector, and the steps of a round that touch
// each feature once (the equations are in tests/twins/reference.py). The same number of neighbouring learners lies side by
// side, and the next number of the unit S doubles later: S = LANES in the caller's state, S = W in a compact copy, and
// S = SLOT_LANES in a slot.
#pragma once
#include "kernel_table.h"
#include "vec.h"

namespace {
using namespace undrift;

// Where less than this share of a column's past stays in it, s_{j-1} < CONVEX_SHARE s_j, the update takes its convex
// form. The other form loses the square root of the share in accuracy: three binary digits here, all of them at a
// leverage of 1e32. Ordinary rows stay above it, even with a memory of one round (all but 2 pivots in 1000).
constexpr double CONVEX_SHARE = 0.015625;
// A prediction beyond this, or a leverage beyond its square, means that the numbers have left float64: the learner
// is lost and starts afresh in the next floor round.
constexpr double PREDICTION_LIMIT = 1e+150;

// Where row r >= 1 of L begins among its stored elements, which lie row by row below the diagonal.
INLINE size_t row_of(size_t r) { return r * (r - 1) / 2; }

// The square of the relative size below which what is left of a collinear feature is rounding.
template <class X> INLINE X rounding_bound(X beta) {
    const X width = like(beta, RESIDUE_ROUNDING) / larger(1.0 - beta, like(beta, 1e-5));
    return width * width;
}

// The factor by which forgetting lowers a pivot from one floor round to the next: beta^FLOOR_PERIOD, or beta itself.
template <class X> INLINE X discount_between_floors(X beta) {
    static_assert(FLOOR_PERIOD == 16, "four squares");
    const X two = beta * beta, four = two * two, eight = four * four;
    return select(beta < like(beta, SMALL_BETA), beta, eight * eight);
}

// The largest 1/D after a floor round in which it was `start`. A pivot is raised to PIVOT_FLOOR times its feature's energy,
// but no further than it fell by forgetting since the last floor round: where the energy jumps, the pivot stays.
template <class X> INLINE X inverse_pivot_ceiling(X energy, X start, X between_floors) {
    const X lowest = 1.0 / larger(PIVOT_FLOOR * energy, like(energy, PIVOT_MIN));
    return smaller(larger(start * between_floors, lowest), like(start, 1.0 / PIVOT_MIN));
}

// Whether the features before this one explain nearly all of it: its pivot is tiny beside its energy.
template <class X> INLINE auto is_collinear(X discounted_inverse, X energy) {
    return discounted_inverse * energy > like(discounted_inverse, COLLINEAR);
}

// What is left of a feature in a row, p, but 0 where the feature is collinear and p no larger than the rounding of the
// terms it is the sum of. By Cauchy and Schwarz these are at most sqrt(h energy), h the leverage of the features before.

template <class K, class X> INLINE X drop_rounding(K collinear, X p, X energy, X h, X rounding) {
    return select(collinear & (p * p <= rounding * (h * energy)), like(p, 0.0), p);
}

// The same; features that are not collinear cost one comparison.
template <class X> INLINE X drop_rounding(X p, X discounted_inverse, X energy, X h, X rounding) {
    const auto collinear = is_collinear(discounted_inverse, energy);
    return any(collinear) ? drop_rounding(collinear, p, energy, h, rounding) : p;
}

// Whether the update of column j takes its convex form. The share of its past in the updated column is
// keep = s_{j-1} / s_j with s = 1 + leverage: where feature j raises the leverage that much, little is kept.
template <class X> INLINE auto takes_convex_form(X before, X s) { return before < CONVEX_SHARE * s; }

// Update the element l of L in column j, and v, what is left of its row's feature after the columns before j:
//     v <- v - p l,  l <- l + gain v                     where keep is 1,
//     l <- keep l + gain v,  v <- v - p l (with old l)   in the convex form, where keep < 1.
// Both give the same l in exact arithmetic, but where keep is small the first is a small difference of large numbers.
template <class X> INLINE void update_element(X p, X gain, X keep, X &l, X &v) {
    const X convex = fma(keep, l, gain * v);
    v = fnma(p, l, v);
    l = select(keep < like(keep, 1.0), convex, fma(gain, v, l));
}

// The discounts of a unit's learners, and what follows from them.
struct DiscountLanes {
    V beta, inverse_beta;
    V rounding;              // see rounding_bound
    V between_floors;        // see discount_between_floors
    size_t learner, count;   // the unit's first learner, and how many there are: the other lanes are padding
    bool floors_every_round; // some learner's discount is below SMALL_BETA

    DiscountLanes() = default;
    DiscountLanes(const LearnerCall &run, size_t unit) {
        learner = unit * W;
        count = run.learners - learner < W ? run.learners - learner : W;
        double b[W];
        fill_lanes(b, run.beta);
        beta = load(b);
        rounding = rounding_bound(beta);
        between_floors = discount_between_floors(beta);
        if (run.aged_beta) {
            fill_lanes(b, run.between_floors);
            between_floors = load(b);
            fill_lanes(b, run.aged_beta);
            beta = load(b);
        }
        inverse_beta = all(1.0) / beta;
        floors_every_round = any(beta < all(SMALL_BETA));
    }

  private:
    void fill_lanes(double *lanes, const double *by_learner) const {
        for (size_t i = 0; i < W; ++i) lanes[i] = i < count ? by_learner[learner + i] : 1.0; // padding
    }
};

// The parts of a unit's state, in the order of InformationLayout.
template <size_t S> struct Unit : DiscountLanes {
    double *inverse, *theta, *energy, *floored, *lost, *resets, *L;

    Unit() = default;
    Unit(double *base, const LearnerCall &run, size_t unit)
        : DiscountLanes(run.discounts ? ((const DiscountLanes *)run.discounts)[unit] : DiscountLanes(run, unit)) {
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

// How many of `left` rounds come before the next floor round, when `closed` rounds are closed.
INLINE size_t rounds_until_floor(bool floors_every_round, int64_t closed, size_t left) {
    const size_t n = floors_every_round ? 1 : (size_t)(FLOOR_PERIOD - closed % FLOOR_PERIOD);
    return n < left ? n : left;
}

template <size_t S> INLINE bool is_floor_round(const Unit<S> &u, int64_t closed) {
    return u.floors_every_round || closed % FLOOR_PERIOD == 0;
}

// The lanes for which this is a floor round.
template <size_t S> INLINE M floored_lanes(const Unit<S> &u, int64_t closed) {
    return u.beta < all(closed % FLOOR_PERIOD == 0 ? 2.0 : SMALL_BETA);
}

// Forget in a floor round: discount, raise pivots to the floor, and start afresh where a learner is lost. (In other rounds
// forgetting is a factor inside the round.) Writes 1/D and the energy every O doubles; returns how many pivots were raised.
template <size_t O, size_t S>
static V forget(const Unit<S> &u, int64_t closed, size_t d, double *inverse, double *energy) {
    const M here = floored_lanes(u, closed), lost = load(u.lost) != all(0.0);
    V raised = all(0.0);
    for (size_t j = 0; j < d; ++j) {
        const V mild = load(u.inverse + j * S) * u.inverse_beta, e = load(u.energy + j * S) * u.beta;
        const V floor_e = larger(e, all(PIVOT_MIN));
        const V start = select(lost, inverse_pivot_ceiling(floor_e, all(0.0), u.between_floors), mild);
        const V ceiling = inverse_pivot_ceiling(floor_e, start, u.between_floors);
        raised += select(start > ceiling, all(1.0), all(0.0));
        store(inverse + j * O, select(here, smaller(start, ceiling), mild));
        store(energy + j * O, select(here, floor_e, e));
    }
    return select(here, raised, all(0.0));
}

template <size_t S> static void forget_in_place(const Unit<S> &u, int64_t closed, size_t d) {
    const V raised = forget<S>(u, closed, d, u.inverse, u.energy), lost = load(u.lost);
    const M here = floored_lanes(u, closed);
    store(u.floored, load(u.floored) + raised);
    store(u.resets, load(u.resets) + select(here, lost, all(0.0)));
    store(u.lost, select(here, all(0.0), lost));
}

// Lost learners predict 0 until the next floor round, whatever their numbers are. They get harmless ones (leader 0,
// L = I), so that no state ever holds a NaN and every cut of a stream leaves the same bits.
template <size_t S> COLD void clear_lost(const Unit<S> &u, size_t d) {
    const M lost = load(u.lost) != all(0.0);
    for (size_t j = 0; j < d; ++j) {
        store(u.inverse + j * S, select(lost, all(1.0), load(u.inverse + j * S)));
        store(u.theta + j * S, select(lost, all(0.0), load(u.theta + j * S)));
    }
    for (size_t k = 0; k < row_of(d); ++k) store(u.L + k * S, select(lost, all(0.0), load(u.L + k * S)));
}

// Set m and h to 0 where a learner is lost, since the last floor round or in this one; returns the lanes that are lost.
template <class K, class X> INLINE K drop_lost(K lost, X &m, X &h) {
    constexpr double leverage_limit = PREDICTION_LIMIT * PREDICTION_LIMIT;
    lost = lost | invert((magnitude(m) <= like(m, PREDICTION_LIMIT)) & (h <= like(h, leverage_limit)));
    m = select(lost, like(m, 0.0), m);
    h = select(lost, like(h, 0.0), h);
    return lost;
}

// Store the first `count` lanes.
INLINE void store_lanes(double *p, V v, size_t count) {
    if (count == W) return store(p, v);
    for (size_t i = 0; i < count; ++i) p[i] = lane(v, i);
}

} // namespace
