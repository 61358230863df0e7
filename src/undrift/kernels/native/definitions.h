// Generated from kernels/definitions.py by tools/kernel_header.py: change that file, then run the tool.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace undrift {

// Learners interleaved in one group of a stack.
constexpr int64_t LANES = 8;

// Largest |z_j| and |y| that a kernel accepts.
constexpr double INPUT_LIMIT = 1e+75;

// Pivots are kept above this fraction of their feature's energy, ...
constexpr double PIVOT_FLOOR = 1e-24;

// ... and above this number, as are energies.
constexpr double PIVOT_MIN = 1e-150;

// Floors are applied in rounds whose number is a multiple of this, counting from 0, ...
constexpr int64_t FLOOR_PERIOD = 16;

// ... and in every round for discounts below this, whose pivots could underflow in between.
constexpr double SMALL_BETA = 0.015625;

// A feature whose energy exceeds its pivot by this factor is nearly a linear combination of those before it: what is
// left of it in a row, p_j, may be rounding, which forgetting would take for information, and counts only above ...
constexpr double COLLINEAR = 1e+17;

// ... this / (1 - beta), relative to a bound on the terms p_j is the sum of: L follows the rows in steps of 1 - beta,
// so it stays wrong by 1 / (1 - beta) roundings.
constexpr double RESIDUE_ROUNDING = 8.881784197001252e-16;

// Where less than this share of a column's past stays in it, s_{j-1} < CONVEX_SHARE s_j, the update takes its convex
// form. The other form loses the square root of the share in accuracy: three binary digits here, all of them at a
// leverage of 1e32. Ordinary rows stay above it, even with a memory of one round (all but 2 pivots in 1000).
constexpr double CONVEX_SHARE = 0.015625;

// A prediction beyond this, or a leverage beyond its square, means that the numbers have left float64: the learner is
// lost and starts afresh in the next floor round.
constexpr double PREDICTION_LIMIT = 1e+150;

// Mixers bring predictions into +-MIX_LIMIT, and no log-weight falls below -MIX_LIMIT: nothing overflows.
constexpr double MIX_LIMIT = 1e+150;

// Rounds over which a mixer averages squared residuals, once it has seen as many.
constexpr double RESIDUAL_ROUNDS = 1000.0;

// A row of larger leverage would leave too few digits of the covariance of a DriftVAW: it starts afresh.
constexpr double LEVERAGE_LIMIT = 1000000000000.0;

// What a row did to a DriftVAW.
struct DriftEvent {
    enum : int {
        // It was learned.
        LEARNED = 0,
        // Its leverage was beyond LEVERAGE_LIMIT: the learner started afresh, and learned it.
        RESTARTED = 1,
        // Its leverage was beyond LEVERAGE_LIMIT even for a fresh learner: it was not learned.
        IGNORED = 2,
    };
    static constexpr size_t SIZE = 3;
};

// The sums that a DriftVAW keeps.
struct DriftCount {
    enum : int {
        // The least value, over all paths, of their losses so far plus what they pay for start and movement.
        LEAST = 0,
        // Fresh starts.
        RESTARTS = 1,
        // Rows that were not learned.
        IGNORED = 2,
    };
    static constexpr size_t SIZE = 3;
};

// A guess of the coming label that discounted VAW is pulled towards where it knows little.
struct Hint {
    enum : int {
        // Zero, as in the paper.
        ZERO = 0,
        // The last label.
        LAST = 1,
        // The leader's own prediction: plain discounted ridge regression.
        RIDGE = 2,
    };
    static constexpr size_t SIZE = 3;
};

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

// The state of one learner with dim features.
struct InformationLayout {
    // 1/D of the discounted information matrix A = L D L^T.
    size_t inverse_pivots;
    // D^-1 L^-1 r, so that the leader is x = L^-T theta.
    size_t theta;
    // The diagonal of A by its own recursion, the yardstick of the pivot floor.
    size_t energy;
    // How many pivots were raised to the floor so far.
    size_t floored;
    // 1 from the round in which the numbers left float64's range until the next floor round.
    size_t lost;
    // How often that happened.
    size_t resets;
    // L below its diagonal, by rows in a stack, by columns for one or two learners.
    size_t factor;
    size_t size;
    constexpr explicit InformationLayout(size_t dim)
        : inverse_pivots(0)
        , theta(inverse_pivots + dim)
        , energy(theta + dim)
        , floored(energy + dim)
        , lost(floored + 1)
        , resets(lost + 1)
        , factor(resets + 1)
        , size(factor + dim * (dim - 1) / 2) {}
};

// One key's ensemble in the states of play_keys: the states of its discounts, its mixer and its sums.
struct EnsembleSlotLayout {
    // The states of all discounts, each of INFORMATION, interleaved in lanes.
    size_t information;
    // The numbers of MixerState.
    size_t mixer_state;
    // The label of the round before.
    size_t last_label;
    // Sums of the members' stability.
    size_t stability;
    // The mixer's log-weights.
    size_t log_weights;
    // Sums of the members' losses.
    size_t losses;
    // The same with predictions clipped to the labels' range.
    size_t clipped_losses;
    size_t size;
    constexpr explicit EnsembleSlotLayout(size_t information_size, size_t members)
        : information(0)
        , mixer_state(information + information_size)
        , last_label(mixer_state + 9)
        , stability(last_label + 1)
        , log_weights(stability + members)
        , losses(log_weights + members)
        , clipped_losses(losses + members)
        , size(clipped_losses + members) {}
};

} // namespace undrift
