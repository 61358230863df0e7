// The Adam loops over tensors in memory: what one instruction-set level offers, in plain structs.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace undrift {

// The numbers one tensor's loop needs, in the order of the rows Python sends.
struct AdamRow {
    double sign, l2, gap1, gap2, damping, clip, step, weight, decay, m_scale, v_scale;
};

enum AdamKind { ADAM_FLOAT = 0, ADAM_DOUBLE = 1, ADAM_BFLOAT = 2 }; // bfloat16 parameters have single-precision state

// Part of a tensor; null pointers where there is no second moment per coordinate or no average.
struct AdamPiece {
    void *p;
    const void *g;
    void *m, *v, *average;
    size_t count;
    const AdamRow *row;
};

struct AdamTable {
    // sums[0] = |g|^2, sums[1] = |m|^2 after the round (0 unless asked); nothing is changed
    void (*measure)(int kind, const AdamPiece &piece, bool with_m, double sums[2]);
    // make the step; sums[0] = |m|^2, sums[1] = |x - average|^2 before either moved, sums[2] = |g|^2 (infinite where the
    // squares overflow the type of the state)
    void (*apply)(int kind, const AdamPiece &piece, double sums[3]);
};

extern const AdamTable adam_portable, adam_neon, adam_v2, adam_v3, adam_v4; // each defined when its level was compiled

} // namespace undrift
