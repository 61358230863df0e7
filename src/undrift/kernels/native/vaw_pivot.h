// Squared loss, W learners in lanes: what a round does to one feature, and the block of rounds that the loops over
// features share. The factor's update does not depend on the label, so predicting and learning are one pass: with
// p = L^-1 z and the gain be_j = p_j / (beta D_j s_j), every element of L sees v -= p_j L; L += be_j v.
#pragma once
#include "unit.h"

namespace {

template <class X> struct Carry { // what a round hands from feature to feature
    X h, s, part;
};

template <class X> INLINE Carry<X> no_features(X like_this) {
    return {like(like_this, 0.0), like(like_this, 1.0), like(like_this, 0.0)};
}

template <class X> struct Pivot { // feature j of a round, up to its leverage: p is what is left of it
    X p, now, energy, g, h, s;

    INLINE_MEMBER Pivot(X left, X rate, X beta, X inverse, X before, const Carry<X> &c) {
        p = left;
        now = inverse * rate;
        energy = beta * before;
        lever(c);
    }

    INLINE_MEMBER void lever(const Carry<X> &c) {
        g = p * now;
        h = fma(g, p, c.h);
        s = h + 1.0;
    }

    // Whether some lane is faint or steep: such a feature needs care. Most are neither.
    INLINE_MEMBER bool needs_care(const Carry<X> &c) const {
        return any_less(like(p, COLLINEAR), explained(), c.s, CONVEX_SHARE * s);
    }
    INLINE_MEMBER X explained() const { return now * energy; }

    // Drop what is left of a faint feature if it is rounding; returns whether some lane is steep then.
    INLINE_MEMBER bool take_care(X blur, const Carry<X> &c) {
        p = news(p, now, energy, c.h, blur);
        lever(c);
        return any_less(c.s, CONVEX_SHARE * s);
    }
};

template <class X> struct Gain {
    X be, keep, inverse, theta, energy; // keep: s_{j-1} / s_j; with CARE it is 1 where that is not steep
};

// Everything else about j. Without CARE theta counts only where j is not steep.
template <bool CARE, class X> INLINE Gain<X> learn(const Pivot<X> &f, X z, X y, X theta, Carry<X> &c) {
    const X rs = 1.0 / f.s, gain = f.g * rs, keep = c.s * rs, before = c.part;
    const auto steep = is_steep(c.s, f.s);
    c = {f.h, f.s, fma(f.p, theta, before)};
    X next = fma(gain, y - c.part, theta);
    if (CARE) next = select(steep, fma(keep, theta, gain * (y - before)), next);
    return {gain, CARE ? select(steep, keep, like(keep, 1.0)) : keep, f.now * keep, next, fma(z, z, f.energy)};
}

constexpr int BREADTH = 8; // rows of a panel, at most

// One unit's block of at most FLOOR_PERIOD rounds.
template <size_t S> struct Block {
    Unit<S> unit;
    size_t d, n; // features and rounds
    const double *Z, *y;
    V *pb; // (p, be) by feature and round: see the loops
    Carry<V> carry[FLOOR_PERIOD];
    V left[FLOOR_PERIOD][BREADTH]; // what is left of a panel's features
    V rate0, beta0;          // forgetting in the block's first round: 1 where `forget` has done it
    unsigned steep_rounds;   // a bit for each round in which some feature is steep in some lane,
    uint16_t *steep;         // the same by feature, all 0 at first,
    V *keep;                 // and `keep` of steep features, FLOOR_PERIOD numbers each

    void begin(size_t rounds, bool floored) {
        n = rounds;
        rate0 = floored ? all(1.0) : unit.rate;
        beta0 = floored ? all(1.0) : unit.beta;
        steep_rounds = 0;
        if (d) memset(steep, 0, d * sizeof(uint16_t));
    }
    INLINE_MEMBER V rate(size_t t) const { return t ? unit.rate : rate0; }
    INLINE_MEMBER V beta(size_t t) const { return t ? unit.beta : beta0; }
    INLINE_MEMBER double *row(size_t r) const { return unit.L + (r ? row_of(r) : 0) * S; }
    INLINE_MEMBER bool is_steep(size_t j, size_t t) const { return steep[j] >> t & 1; }
    INLINE_MEMBER void note_steep(size_t j, size_t t, V kept) {
        steep_rounds |= 1u << t;
        steep[j] |= (uint16_t)(1u << t);
        keep[j * FLOOR_PERIOD + t] = kept;
    }
};

template <size_t S> INLINE void store_pivot(const Unit<S> &u, size_t r, const Gain<V> &next) {
    store(u.inverse + r * S, next.inverse);
    store(u.theta + r * S, next.theta);
    store(u.energy + r * S, next.energy);
}

} // namespace
