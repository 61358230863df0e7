// Squared loss: what a round does to one feature, and the block of rounds that the loops over features share.
//
// The update of L does not depend on the label, so predicting and learning are one pass over L. With p = L^-1 z,
// h_j = sum_{i <= j} p_i^2 / (beta D_i), s_j = 1 + h_j and gain_j = p_j / (beta D_j s_j), in the order of j:
//     D_j <- beta D_j s_j / s_{j-1}              theta_j <- theta_j + gain_j (y - sum_{i <= j} p_i theta_i)
//     v_r <- v_r - p_j L_rj,  L_rj <- L_rj + gain_j v_r     for all rows r > j; v starts as z, and p_j = v_j
#pragma once
#include "unit.h"

namespace {

// Sums over the features of a round so far: the leverage h, s = 1 + h, and the leader's prediction m.
template <class X> struct RunningSums {
    X h, s, m;
};

template <class X> INLINE RunningSums<X> zero_sums(X like_this) {
    return {like(like_this, 0.0), like(like_this, 1.0), like(like_this, 0.0)};
}

// Feature j of a round, up to its leverage.
template <class X> struct Pivot {
    X p, discounted_inverse, energy; // 1/(beta D) and the discounted energy
    X g, h, s;                       // g = p / (beta D)

    INLINE_MEMBER Pivot(X remainder, X inverse_beta, X beta, X inverse, X before, const RunningSums<X> &c) {
        p = remainder;
        discounted_inverse = inverse * inverse_beta;
        energy = beta * before;
        compute_leverage(c);
    }

    INLINE_MEMBER void compute_leverage(const RunningSums<X> &c) {
        g = p * discounted_inverse;
        h = fma(g, p, c.h);
        s = h + 1.0;
    }

    // Whether the feature is collinear or needs the convex form in some lane. Most features are neither.
    INLINE_MEMBER bool needs_care(const RunningSums<X> &c) const {
        return any_less(like(p, COLLINEAR), energy_ratio(), c.s, CONVEX_SHARE * s);
    }
    INLINE_MEMBER X energy_ratio() const { return discounted_inverse * energy; }

    // Set p to 0 where the feature is collinear and p is rounding; returns whether some lane needs the convex form.
    INLINE_MEMBER bool take_care(X rounding, const RunningSums<X> &c) {
        p = drop_rounding(p, discounted_inverse, energy, c.h, rounding);
        compute_leverage(c);
        return any_less(c.s, CONVEX_SHARE * s);
    }
};

// What a round makes of feature j. keep is s_{j-1} / s_j; with CARE it is 1 where the convex form is not needed.
template <class X> struct PivotUpdate {
    X gain, keep, inverse, theta, energy;
};

// Update feature j and the sums. Without CARE theta is right only where the convex form is not needed.
template <bool CARE, class X>
INLINE PivotUpdate<X> update_pivot(const Pivot<X> &f, X z, X y, X theta, RunningSums<X> &c) {
    const X rs = 1.0 / f.s, gain = f.g * rs, keep = c.s * rs, before = c.m;
    const auto convex = takes_convex_form(c.s, f.s);
    c = {f.h, f.s, fma(f.p, theta, before)};
    X next = fma(gain, y - c.m, theta);
    if (CARE) next = select(convex, fma(keep, theta, gain * (y - before)), next);
    const X kept = CARE ? select(convex, keep, like(keep, 1.0)) : keep;
    return {gain, kept, f.discounted_inverse * keep, next, fma(z, z, f.energy)};
}

constexpr int MAX_PANEL_ROWS = 8; // a panel: neighbouring rows of L that are updated together

// One unit's block of at most FLOOR_PERIOD rounds.
template <size_t S> struct Block {
    Unit<S> unit;
    size_t d, n; // features and rounds
    const double *Z, *y;
    V *p_gain;                                 // pairs (p, gain) by feature and round, in an order of the loop's own
    RunningSums<V> sums[FLOOR_PERIOD];         // by round
    V remainder[FLOOR_PERIOD][MAX_PANEL_ROWS]; // v of a panel's rows, by round
    V first_inverse_beta, first_beta;          // forgetting in the first round: 1 where `forget` has done it already
    unsigned convex_rounds;                    // a bit for each round in which some feature takes the convex form,
    uint16_t *convex;                          // the same by feature,
    V *keep;                                   // and `keep` of these features, FLOOR_PERIOD numbers each

    void begin(size_t rounds, bool floored) {
        n = rounds;
        first_inverse_beta = floored ? all(1.0) : unit.inverse_beta;
        first_beta = floored ? all(1.0) : unit.beta;
        convex_rounds = 0;
        if (d) memset(convex, 0, d * sizeof(uint16_t));
    }
    INLINE_MEMBER V inverse_beta(size_t t) const { return t ? unit.inverse_beta : first_inverse_beta; }
    INLINE_MEMBER V beta(size_t t) const { return t ? unit.beta : first_beta; }
    INLINE_MEMBER double *row(size_t r) const { return unit.L + (r ? row_of(r) : 0) * S; }
    INLINE_MEMBER bool is_convex(size_t j, size_t t) const { return convex[j] >> t & 1; }
    INLINE_MEMBER void mark_convex(size_t j, size_t t, V kept) {
        convex_rounds |= 1u << t;
        convex[j] |= (uint16_t)(1u << t);
        keep[j * FLOOR_PERIOD + t] = kept;
    }
};

template <size_t S> INLINE void store_pivot(const Unit<S> &u, size_t r, const PivotUpdate<V> &next) {
    store(u.inverse + r * S, next.inverse);
    store(u.theta + r * S, next.theta);
    store(u.energy + r * S, next.energy);
}

} // namespace
