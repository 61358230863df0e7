// Generated from kernels/definitions.py by tools/kernel_header.py: change that file, then run the tool.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace undrift {

// Learners interleaved in one group of a stack.
constexpr int64_t LANES = 8;

// The same in an online estimator where a stage has two to four memories: most of a wider group would be padding.
constexpr int64_t FEW_LANES = 4;

// Largest |z_j| and |y| that a kernel accepts.
constexpr double INPUT_LIMIT = 1e+75;

// Largest weight of a row, and longest elapsed time.
constexpr double WEIGHT_LIMIT = 1e+50;

// What is left of the past after however long a time, at least.
constexpr double LEAST_DISCOUNT = 1e-300;

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

// Rounds over which it averages |residuals|, to see when a shock is over: a mean 1000 times too large is forgotten
// within 140 rounds.
constexpr double RECENT_ROUNDS = 20.0;

// The mean squared residual is cut down to this many squares of the recent mean |residual| (8 variances, were they
// normal), ...
constexpr double MOST_SQUARED_RESIDUAL = 12.0;

// ... and the sum of positive mixability gaps to this many.
constexpr double MOST_GAPS = 36.0;

// Labels that come late slow the rates of mixers down by at most this factor: slower ones would not come back from a
// shock.
constexpr double MOST_LATENESS = 4.0;

// Members count as at most this many recent mean |residuals| away from the heaviest: a fixed share gives weight to
// members that a shock has left far off.
constexpr double FARTHEST_MEMBER = 36.0;

// As the share of a mixer for logistic loss: FIRST_SHARE / (t + 1) after round t.
constexpr double GROWING_SHARE = -1.0;

// Such a share costs FIRST_SHARE ln(T + 1) in T rounds.
constexpr double FIRST_SHARE = 0.1;

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

// The numbers that a DiscountedSoftmax keeps besides its matrices.
struct SoftmaxNumber {
    enum : int {
        // The weight of |u|^2 / 2 in what it minimises, after the last round.
        RIDGE = 0,
        // Rounds since its covariance was computed from the information matrix.
        AGE = 1,
        // Fresh starts.
        RESTARTS = 2,
        // Rows that were not learned.
        IGNORED = 3,
    };
    static constexpr size_t SIZE = 4;
};

// The ridge of a DiscountedSoftmax is forgotten like the data, down to this share of it, ...
constexpr double SOFTMAX_LEAST_RIDGE = 1e-08;

// ... and stays above this share of the largest curvature, so that its matrix can be inverted in float64.
constexpr double SOFTMAX_LEAST_SHARE = 1e-09;

// After a row of larger leverage the covariance of a DiscountedSoftmax is computed from its information, ...
constexpr double SOFTMAX_FRESH_LEVERAGE = 1000.0;

// ... and at the latest after so many rounds.
constexpr int64_t SOFTMAX_FRESH_AGE = 1024;

// With more classes a DiscountedSoftmax plays the point from which the search for equal prices begins.
constexpr int64_t SOFTMAX_EXACT_CLASSES = 33;

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
        // The sum of positive mixability gaps, as far as it is remembered; predicts the weighted mean.
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
        // The sum of the positive mixability gaps: the mixture's loss minus the mix loss, where that is positive; cut
        // down     where the last rounds contradict it.
        POSITIVE_GAPS = 3,
        // The sum of all mixability gaps, less what rises of the inverse rate need not cost where weights agree.
        GAPS = 4,
        // The sum of the rises of the inverse rate.
        RATE_RISES = 5,
        // What the fixed share may have cost.
        SHARE_COST = 6,
        // The running mean of the mixture's squared residuals, cut down where the last rounds contradict it.
        MEAN_SQUARED_RESIDUAL = 7,
        // The rounds closed.
        ROUNDS = 8,
        // The running mean of the mixture's |residuals| over the last rounds.
        RECENT_RESIDUAL = 9,
    };
    static constexpr size_t SIZE = 10;
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
        , last_label(mixer_state + 10)
        , stability(last_label + 1)
        , log_weights(stability + members)
        , losses(log_weights + members)
        , clipped_losses(losses + members)
        , size(clipped_losses + members) {}
};

// Labelled rows an online estimator keeps, to fit its scaling again when it has seen 4, 32 and this many.
constexpr int64_t WARMUP = 256;

// Rows an online estimator takes at a time, so that what its members answer stays in cache.
constexpr int64_t CHUNK = 128;

// Scaled features are clipped here at first: far outside anything ordinary, far inside what a broken sensor says.
constexpr double CLIP = 30.0;

// A clip limit widens by this factor at a lone outlier,
constexpr double CREEP = 1.05;

// and by this one at each that follows without a pause,
constexpr double LEAP = 2.0;

// but never beyond this, so that products of two scaled numbers stay ordinary.
constexpr double WIDEST_LIMIT = 1e+60;

// The serial number of the last outlier, before there was one.
constexpr double NEVER = -2.0;

// A spread below this share of the largest number is the rounding of a constant.
constexpr double ROUNDING = 1e-12;

// A label may jump this many mean jumps before it is cut; 6 deviations, were jumps normal.
constexpr double JUMP_FACTOR = 8.0;

// Rounds over which the mean jump of the labels is averaged.
constexpr double JUMP_ROUNDS = 200.0;

// Doublings of the bound on a jump are counted up to this number.
constexpr double MOST_CUTS = 200.0;

// Rounds over which the mean |residual|, the unit of intervals, is averaged, once there are as many, ...
constexpr double INTERVAL_ROUNDS = 200.0;

// ... and over which two shorter means are taken, from which the spread is predicted: so many, ...
constexpr double RECENT_RESIDUALS = 20.0;

// ... and so many.
constexpr double LAST_RESIDUALS = 3.0;

// With late labels the unit is averaged over at least so many times as many rounds as they are late by, ...
constexpr double LATE_ROUNDS = 20.0;

// ... and intervals learn more slowly by this power of how late they are: learning from late feedback asks for the
// square root, and a little less leaves them quick enough for short streams.
constexpr double LATE_POWER = 0.4;

// A residual or jump counts at most this many times its running mean when that is updated.
constexpr double WILD = 10.0;

// Half-widths of intervals stay above this many units,
constexpr double SMALLEST_WIDTH = 1e-100;

// and below this many.
constexpr double LARGEST_WIDTH = 1e+100;

// What a label outside of its interval adds to the logarithm of the width at first, ...
constexpr double FIRST_STEP = 0.05;

// ... falling with the square root of the rounds, counted in this many, ...
constexpr double STEP_ROUNDS = 20.0;

// ... down to this: the spread model follows what changes from row to row, so that widths can be calm.
constexpr double LEAST_STEP = 0.0075;

// With late labels a step is at most this / late^LATE_POWER.
constexpr double LATE_STEP = 0.08;

// These are the steps of the quantile of this level; others take steps by the root of how much rarer they are missed,
// so that all of them learn in about the same time.
constexpr double STEP_TAIL = 0.1;

// The median moves by this part of a step, in spreads, ...
constexpr double MEDIAN_STEP = 0.5;

// Predictions are sorted by their size into so many groups, ...
constexpr int64_t FIFTHS = 5;

// ... whose widths differ by a factor of their own for either side: its logarithm moves by this part of a step for
// every level. Late labels, whose neighbours all push the same way, move it and the median more slowly still.
constexpr double FIFTH_STEP = 0.2;

// The largest such logarithm.
constexpr double LARGEST_FACTOR = 1.0;

// Misses of a level beyond those expected are counted over about this many rounds: enough for five expected misses at
// level 0.9, few enough to correct a run of misses within a hundred rows.
constexpr double MISS_ROUNDS = 50.0;

// The logarithm of a level's widths rises at first by this number for each standard deviation of excess misses.
constexpr double FIRST_RESPONSE = 0.28;

// That number is halved after this many rounds, a third after twice as many, and so on: widths and spread model are
// better known then, and misses that are chance should not move widths.
constexpr double RESPONSE_ROUNDS = 1000.0;

// That number never falls below this one.
constexpr double LEAST_RESPONSE = 0.04;

// The cuts between these groups move by steps of this many label scales in the end, ...
constexpr double CUT_STEP = 0.01;

// ... of this many at first, ...
constexpr double FIRST_CUT_STEP = 0.2;

// ... and in between by this many / rounds.
constexpr double CUT_ROUNDS = 5.0;

// Variance of the spread model's coefficients before the first residual: 50 residuals say as much. It never grows
// larger.
constexpr double SPREAD_PRIOR = 0.02;

// How much of it returns every round: what was learned is forgotten over about 1000 rounds.
constexpr double SPREAD_DRIFT = 1e-06;

// A residual counts at most this many predicted spreads when the spread model learns it.
constexpr double MOST_SURPRISE = 5.0;

// Columns of the spread model are cut here.
constexpr double MOST_SPREAD_INPUT = 3.0;

// The logarithm of the predicted spread, in units, is cut here.
constexpr double MOST_LOG_SPREAD = 4.0;

// Interval levels an estimator can follow at once.
constexpr int64_t MOST_LEVELS = 32;

// Level 2 sees differences of labels up to this many label scales.
constexpr double MOST_SCALES = 1e+60;

// Level 2 sees log-odds up to this, a probability of one in a million.
constexpr double SURE = 13.8;

// Columns of a family's rows, where they hold more than the constant and the features.
constexpr int64_t MOST_COLUMNS = 96;

// Labels over which the shorter one of their two running means is taken, ...
constexpr double SHORT_LABEL_SPAN = 5.0;

// ... and the longer one.
constexpr double LONG_LABEL_SPAN = 50.0;

// A residual counts at most this many times the mean |residual| when products are chosen by it.
constexpr double SCREENED_RESIDUAL = 2.0;

// Residuals below this share of the label scale are rounding: products are then chosen without them.
constexpr double LEAST_RESIDUAL = 1e-06;

// Probabilities that were made elsewhere are brought into [this, 1 - this].
constexpr double LEAST_PROBABILITY = 1e-06;

// What the rows of a family's memories are made of; all begin with the constant 1.
struct FamilyDesign {
    enum : int {
        // The scaled features.
        LINEAR = 0,
        // The features and their waves.
        WAVES = 1,
        // The features, the last labels, and every feature's distance from its running means.
        CONTEXT = 2,
        // Inputs (the features, some of these distances, the last label), hinges of them and products of pairs.
        EXPANDED = 3,
        // No memories: the answers come with the row, made elsewhere.
        GIVEN = 4,
    };
    static constexpr size_t SIZE = 5;
};

// What is known of the last labels when a row is served, in label units, as the arm learns them.
struct LabelContext {
    enum : int {
        // The last label, ...
        LAST = 0,
        // the one before it, ...
        BEFORE = 1,
        // the running mean over SHORT_LABEL_SPAN labels, ...
        SHORT_MEAN = 2,
        // and over LONG_LABEL_SPAN labels.
        LONG_MEAN = 3,
    };
    static constexpr size_t SIZE = 4;
};

// The numbers that say what a column of an expanded family is.
struct ExpandedColumn {
    enum : int {
        // The input it is made of; -1: the column is 0.
        FIRST = 0,
        // The input that the first one is multiplied by; -1: the column is a hinge, max(0, input - knot).
        SECOND = 1,
        // Where the hinge begins.
        KNOT = 2,
    };
    static constexpr size_t SIZE = 3;
};

// The numbers by which an online regressor tells a bad label from a new level.
struct Despiker {
    enum : int {
        // The last label that was not cut.
        LAST = 0,
        // The running mean of |jumps|; 0 until labels differ.
        MEAN_JUMP = 1,
        // How many labels of the present series were cut.
        CUTS = 2,
    };
    static constexpr size_t SIZE = 3;
};

// The numbers at the head of the record of a served row.
struct RecordPart {
    enum : int {
        // Its place among all rows served, from 1 on.
        SERIAL = 0,
        // How many features rows had.
        WIDTH = 1,
        // 1 if a label had been settled before, so that the prediction means something.
        KNOWN = 2,
        // 1 if there was an interval.
        BOUNDED = 3,
        // The prediction.
        YHAT = 4,
        // The last label known, as learners saw it; for two classes the log-odds of no change.
        HINT = 5,
        // How much the row counts; 1.
        WEIGHT = 6,
        // Time since the row before; 1.
        ELAPSED = 7,
        // Rows that came since and are not counted in serial numbers; 0 unless the row was predicted before it came.
        UNCOUNTED = 8,
        // What the last mixer made of the candidates.
        RAW = 9,
        // The prediction of the robust arm; the same as RAW without one.
        ROBUST = 10,
        // The bucket of the gate by how far the two arms disagreed.
        BUCKET = 11,
        // The unit of the gate: its mean |residual|.
        UNIT = 12,
        // What the gate made of the two arms; the same as RAW without a robust arm.
        GATED = 13,
    };
    static constexpr size_t SIZE = 14;
};

// Buckets of the gate between the raw and the robust arm of an online regressor: by how far they disagree.
constexpr int64_t GATE_BUCKETS = 4;

// Up to this many mean |residuals| the two arms agree (bucket 0); ...
constexpr double FIRST_DISAGREEMENT = 4.0;

// ... each further bucket reaches this many times farther, the last one to infinity.
constexpr double DISAGREEMENT_STEP = 8.0;

// Rounds over which the gate and the mixer of given predictions average their |residuals|.
constexpr double GATE_ROUNDS = 50.0;

// Weight that returns to the prior of a bucket in each of its rounds.
constexpr double GATE_SHARE = 0.0001;

// In bucket 0, where the arms agree, a label farther than this many mean |residuals| from both says nothing about
// which one is better: it is cut there when they are compared. In the other buckets it is cut one mean |residual|
// beyond.
constexpr double GATE_CUT = 8.0;

// Log-odds of the two arms stay within this in the other buckets: as a round moves them by 2, three turn them.
constexpr double MOST_GATE_ODDS = 5.0;

// A bucket that is used for the first time begins with the raw arm's weight in the nearest used one, at least this
// and at most 1 less this.
constexpr double LEAST_PRIOR = 0.05;

// The most that it begins with if that is bucket 0: arms that agree do not show whom to trust where they do not.
constexpr double MOST_PRIOR = 0.5;

// Members of the mixer of given predictions count as at most this many mean |residuals| from their weighted median.
constexpr double GIVEN_REACH = 8.0;

// The largest |regret| of a round in units of the mean |residual|, so that its square is a number.
constexpr double LARGEST_REGRET = 1e+100;

// The single numbers in the state of the gate.
struct GateNumber {
    enum : int {
        // The running mean of the gate's |residuals|, capped; 0 until one was wrong.
        UNIT = 0,
        // Rounds judged.
        ROUNDS = 1,
        // In bucket 0: loss of served predictions beyond what the weights of settling time would have lost.
        LATE = 2,
        // In the other buckets: the sum of mixability gaps.
        GAPS = 3,
        // In the other buckets: what priors, falling rates and the share may have cost against the raw arm, ...
        RAW_COST = 4,
        // ... and against the robust arm.
        ROBUST_COST = 5,
        // What labels beyond both arms, which these buckets cut, change in the losses against the raw arm, ...
        RAW_CUT = 6,
        // ... and against the robust arm.
        ROBUST_CUT = 7,
        // Sum of the robust arm's losses.
        ROBUST_LOSS = 8,
    };
    static constexpr size_t SIZE = 9;
};

// The numbers of one bucket of the gate. Bucket 0 has a mixer of its own and counts its rounds here.
struct GateBucket {
    enum : int {
        // Rounds judged; 0: not used so far.
        ROUNDS = 0,
        // Log-odds of the raw arm's weight.
        LOG_ODDS = 1,
        // The raw arm's weight when the bucket was first used.
        PRIOR = 2,
        // The inverse rate of its last round.
        INVERSE_RATE = 3,
    };
    static constexpr size_t SIZE = 4;
};

// By which loss given predictions are combined.
struct GivenLoss {
    enum : int {
        // (yhat - y)^2 / 2.
        SQUARED = 0,
        // max(level (y - yhat), (1 - level) (yhat - y)); level 1/2 is half the absolute error.
        PINBALL = 1,
        // ln(1 + exp(-y yhat)), for two classes.
        LOGISTIC = 2,
    };
    static constexpr size_t SIZE = 3;
};

// The single numbers in the state of the mixer of given predictions.
struct GivenNumber {
    enum : int {
        // The running mean of |residuals|, capped; 0 until one was wrong.
        UNIT = 0,
        // Rounds judged.
        ROUNDS = 1,
        // The largest |regret| of a round and member, as far as it is remembered.
        LARGEST = 2,
        // Sum of the losses of what was served.
        LOSS = 3,
    };
    static constexpr size_t SIZE = 4;
};

// The numbers of each member of the mixer of given predictions.
struct GivenMember {
    enum : int {
        // Sum of the linearised regrets of rounds against it, as far as they are remembered.
        REGRET = 0,
        // Sum of their squares, as far as they are remembered.
        SQUARES = 1,
        // Positive regret that was forgotten after shocks.
        FORGOTTEN = 2,
        // What labels far beyond all members, which are cut, change in the losses against it.
        CUT = 3,
        // Sum of its losses.
        LOSS = 4,
        // Sum of the loss's slope at the prediction times how far that is above the member, as it came, with labels
        // as they     came: weighted by any convex combination, a bound on the excess over it.
        SLOPES = 5,
    };
    static constexpr size_t SIZE = 6;
};

// The single numbers in the state of an online estimator.
struct EstimatorNumber {
    enum : int {
        // Labels settled.
        ROUNDS = 0,
        // Those of rows that were served before any label was known: nothing was predicted that could be judged.
        SKIPPED = 1,
        // Rows whose label never came.
        UNLABELLED = 2,
        // Rows served: the serial number of the last one.
        SERVED = 3,
        // The highest serial number settled.
        LAST_SERIAL = 4,
        // What is taken off labels before the families learn them; fixed between refits.
        CENTER = 5,
        // The unit of level 2's features; 0 until labels differ.
        LABEL_SCALE = 6,
        // The last label.
        LAST = 7,
        // The last label as learners saw it.
        HINT = 8,
        // Loss of served predictions beyond what the weights of settling time would have lost with the same answers.
        LATE = 9,
        // The mean of all labels.
        MEAN = 10,
        // Labels that were the same as the one before, of two classes.
        STAYED = 11,
        // Labels that were not.
        CHANGED = 12,
        // Labels -1.
        NEGATIVE = 13,
        // Labels +1.
        POSITIVE = 14,
        // What the negative label of two classes was called, 0 or -1;
        NEGATIVE_LABEL = 15,
        // 1 if labels were given as False and True.
        BOOLEAN_LABELS = 16,
    };
    static constexpr size_t SIZE = 17;
};

// The first numbers in the state of intervals.      Four numbers per level follow: widths in spreads below and above
// the median, excess misses, hits.
struct IntervalState {
    enum : int {
        // The mean |residual|.
        UNIT = 0,
        // How many labels were compared with an interval.
        ROUNDS = 1,
        // How many residuals the unit has seen.
        RESIDUALS = 2,
        // The mean |residual| over RECENT_RESIDUALS rounds.
        RECENT = 3,
        // The same over LAST_RESIDUALS rounds.
        LAST = 4,
        // How far the median is above the prediction, in spreads.
        MEDIAN = 5,
        // How many rows after its own the last label arrived, 1 if before the next row; 0 before the first one.
        LATE = 6,
    };
    static constexpr size_t SIZE = 7;
};

// The first columns of the spread model, which predicts the logarithm of |residual|; scaled features follow.
struct SpreadColumn {
    enum : int {
        // 1.
        CONSTANT = 0,
        // The prediction, in label scales from the centre of the labels.
        PREDICTION = 1,
        // 0.5 if it is above the first cut between fifths of predictions, else -0.5, ...
        FIRST_CUT = 2,
        // ... above the second, ...
        SECOND_CUT = 3,
        // ... the third, ...
        THIRD_CUT = 4,
        // ... and the fourth.
        FOURTH_CUT = 5,
        // The logarithm of how far the candidates that learn are from the prediction, in units.
        DISAGREEMENT = 6,
        // The logarithm of the mean |residual| over RECENT_RESIDUALS rounds, in units.
        RECENT = 7,
        // The same over LAST_RESIDUALS rounds.
        LAST = 8,
        // The logarithm of the predicted distance from the last label, in units.
        MOVE = 9,
        // The logarithm of the size of residuals at the row's place in the best season; 0 without a season.
        SEASON = 10,
    };
    static constexpr size_t SIZE = 11;
};

// The lengths, in rows, of the seasons by which residuals may differ in size.
struct SeasonLength {
    enum : int {
        // A week of daily rows.
        WEEK_OF_DAYS = 7,
        // A day of hourly rows.
        DAY_OF_HOURS = 24,
        // A day of half-hourly rows.
        DAY_OF_HALF_HOURS = 48,
        // A day of rows every 15 minutes.
        DAY_OF_QUARTERS = 96,
    };
    static constexpr size_t SIZE = 4;
};

// The mean |residual| at a place in a season is taken over the last residuals there, about this many.
constexpr double SEASON_VISITS = 16.0;

// Seasons are compared by how well they predicted |residuals| over this many rounds.
constexpr double SEASON_LOSS_ROUNDS = 1000.0;

// What is added to a ratio before its logarithm is taken; the least size that a season predicts.
constexpr double LEAST_RATIO = 0.05;

// Bins of a column in histograms of trees; the last one holds missing values.
constexpr int64_t TREE_BINS = 64;

// The bins' edges are quantiles of at most this many rows, evenly spaced.
constexpr int64_t BIN_SAMPLE = 4096;

// Gradients and curvatures of a tree become whole numbers of at most this many bits, so that their sums are exact in
// any order; fewer for many rows, so that the sum of all stays below ...
constexpr int64_t GRADIENT_BITS = 50;

// ... this many bits.
constexpr int64_t SUM_BITS = 62;

// A split whose gain is below this share of its children's scores is rounding.
constexpr double LEAST_GAIN = 1e-10;

// The largest curvature of the logistic loss: a row of this curvature weighs as much as a whole row in a leaf.
constexpr double LOGISTIC_CURVATURE = 0.25;

// Leaves are drawn towards 0 as if by this many rows.
constexpr double TREE_RIDGE = 1.0;

// What stands for the column of a node that is not split.
constexpr int64_t LEAF = -1;

// The numbers of a node of a tree; a tree is 2 leaves - 1 of them, its root first.
struct TreeNode {
    enum : int {
        // The column it is split by, LEAF for a leaf.
        COLUMN = 0,
        // Rows whose number is at most this go left; for a leaf, what it adds to the prediction.
        VALUE = 1,
        // Where the left child is in the tree; the right one follows it.
        LEFT = 2,
        // 1 if rows without a number go left.
        MISSING_LEFT = 3,
    };
    static constexpr size_t SIZE = 4;
};

// The numbers at the beginning of a bank of smoothers.
struct SmootherHead {
    enum : int {
        // Values so far, missing ones left out.
        SEEN = 0,
        // The row of the first value.
        FIRST = 1,
    };
    static constexpr size_t SIZE = 2;
};

// How a smoother of a bank follows its series.
struct SmootherGain {
    enum : int {
        // Part of an error that the level takes over, ...
        LEVEL = 0,
        // ... that the value at this place of the season does, of what the level leaves, ...
        SEASON = 1,
        // What is left of the trend after a row.
        DAMPING = 2,
        // ... and that the trend does, of what the level takes over.
        TREND = 3,
    };
    static constexpr size_t SIZE = 4;
};

// Losses of smoothers are remembered over 1,000 rows.
constexpr double SMOOTHER_BETA = 0.999;

// A squared error counts at most this many times the mean of the best smoother.
constexpr double SMOOTHER_MOST_LOSS = 64.0;

// What is added to losses before their ratio is taken.
constexpr double SMOOTHER_LEAST_LOSS = 1e-300;

// A smoother has no weight below this part of the best one's.
constexpr double SMOOTHER_LEAST_WEIGHT = 1e-12;

// What is kept for every step of a series, besides regrets: sums over the rows judged, discounted.
struct StepSum {
    enum : int {
        // Forecasts judged so far, not discounted.
        SEEN = 0,
        // Forecasts judged.
        ROWS = 1,
        // Squared errors of the mixture, cut.
        SQUARES = 2,
        // The mean squared error over a third of the rows, at most STEP_RECENT.
        RECENT = 3,
        // Squares of the move that the mixture forecast, away from the last value, in units.
        MOVES = 4,
        // The same move times the one that came.
        AGREEMENT = 5,
        // Squares of: the move forecast times what it left unexplained.
        SPREAD = 6,
    };
    static constexpr size_t SIZE = 7;
};

// Regrets and sums of a step are remembered over 1,000 rows.
constexpr double STEP_BETA = 0.999;

// An error counts at most this many times the root mean squared error of its step.
constexpr double STEP_CUT = 8.0;

// Regrets are in units of the mean squared error over a third of the rows judged so far, at most this many ...
constexpr double STEP_RECENT = 60.0;

// ... and at least so many, or all, ...
constexpr double STEP_FEW = 10.0;

// ... of which this part of the mean over all remembered rows is the least, ...
constexpr double STEP_LEAST_RECENT = 0.03;

// ... and count at most this much.
constexpr double STEP_MOST_REGRET = 64.0;

// Moves from the last value are in roots of these units, and count at most this much: a jump must not outweigh the
// rest.
constexpr double STEP_MOST_MOVE = 8.0;

// A candidate none of whose regrets is larger than this says what the others together do, but for rounding.
constexpr double STEP_LEAST_REGRET = 1e-06;

// The part of the trust in the mixture that all steps have in common.
constexpr double STEP_SHARED = 0.5;

} // namespace undrift
