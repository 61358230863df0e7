// Generated from kernels/definitions.py by tools/kernel_header.py: change that file, then run the tool.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace undrift {

// Mixers bring predictions into +-MIX_LIMIT, and no log-weight falls below -MIX_LIMIT: nothing overflows.
constexpr double MIX_LIMIT = 1e+150;

// Rounds over which a mixer averages squared residuals, once it has seen as many.
constexpr double RESIDUAL_ROUNDS = 1000.0;

// Where the rate of a mixer for squared loss comes from, and what it predicts; see mix_squared.
struct MixingRule {
    enum : int {
        // The largest label; predicts the weighted mean.
        RANGE = 0,
        // The largest label; predicts by Vovk's substitution.
        AGGREGATING = 1,
        // The sum of positive mixability gaps; predicts the weighted mean.
        SELF_CONFIDENT = 2,
        // The mean squared residual of the mixture; predicts the weighted mean.
        RESIDUAL_SCALE = 3,
    };
    static constexpr size_t SIZE = 4;
};

// The numbers in the state of a mixer for squared loss. For logistic loss the first one counts rounds.
struct MixerState {
    enum : int {
        // The smallest label so far, or -LABEL_MAX under the rules RANGE and AGGREGATING.
        LABEL_MIN = 0,
        // The largest label so far, or the largest |label| under these rules.
        LABEL_MAX = 1,
        // The inverse rate of the coming round; 0 keeps the prior.
        INVERSE_RATE = 2,
        // The sum of the positive mixability gaps: the mixture's loss minus the mix loss, where that is positive.
        POSITIVE_GAPS = 3,
        // The sum of all mixability gaps.
        GAPS = 4,
        // The sum of the rises of the inverse rate.
        RATE_RISES = 5,
        // What the fixed share may have cost.
        SHARE_COST = 6,
        // The running mean of the mixture's squared residuals.
        MEAN_SQUARED_RESIDUAL = 7,
        // The rounds closed.
        ROUNDS = 8,
    };
    static constexpr size_t SIZE = 9;
};

} // namespace undrift
