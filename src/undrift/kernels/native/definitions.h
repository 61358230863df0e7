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

// What is left of the past after however long a time, at least.
constexpr double LEAST_DISCOUNT = 1e-300;

// Pivots are kept above this fraction of their feature's energy.
constexpr double PIVOT_FLOOR = 1e-24;

// Pivots and energies are kept above this number.
constexpr double PIVOT_MIN = 1e-150;

// Floors are applied in rounds whose number is a multiple of this, counting from 0.
constexpr int64_t FLOOR_PERIOD = 16;

// Floors are applied in every round for discounts below this, whose pivots could underflow in between.
constexpr double SMALL_BETA = 0.015625;

// A feature whose energy exceeds its pivot by this factor is nearly a linear combination of those before it: what is
// left of it in a row, p_j, may be rounding, which forgetting would take for information. It counts only where it
// exceeds RESIDUE_ROUNDING / (1 - beta) times a bound on the terms it is the sum of.
constexpr double COLLINEAR = 1e+17;

// The share of a bound on its terms below which p_j of a collinear feature is rounding, in a single round. L follows
// the rows in steps of 1 - beta, so that it stays wrong by 1 / (1 - beta) roundings.
constexpr double RESIDUE_ROUNDING = 8.881784197001252e-16;

// Mixers bring predictions into +-MIX_LIMIT, and no log-weight falls below -MIX_LIMIT: nothing overflows.
constexpr double MIX_LIMIT = 1e+150;

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

// Memories of the softmax regression over the log-odds of several classes.
constexpr int64_t CLASS_MEMORIES = 3;

// What the last mixer of several classes chooses from: these memories, the log-odds as they are, base rates, the last
// class again; predictions made elsewhere are added.
constexpr int64_t CLASS_CANDIDATES = 6;

// How firmly the regression begins with the log-odds as they are, in rows.
constexpr double CLASS_RIDGE = 10.0;

// Log-odds are counted in units of the inverse of this.
constexpr double CLASS_SCALE = 0.5;

// The single numbers in the state of the level of several classes.
struct ClassNumber {
    enum : int {
        // Labels counted.
        ROUNDS = 0,
        // The last class.
        LAST = 1,
        // How often a label was the one before.
        STAYED = 2,
        // How often it was another.
        CHANGED = 3,
        // Rounds of the last mixer.
        MIXED = 4,
        // Sum of the losses of served predictions less those of the last mixer: the share for classes not seen yet,
        // and     what late labels lost.
        EXCESS = 5,
    };
    static constexpr size_t SIZE = 6;
};

// One memory of the softmax regression over log-odds; n = 2 K + 1.
struct ClassMemoryLayout {
    // The information matrix of the n parameters (n, n), without the ridge.
    size_t information;
    // The inverse of it with the ridge (n, n).
    size_t covariance;
    // The linear part of what is minimised.
    size_t pull;
    // Its minimum: K slopes c_k, K offsets d_k, and the common slope c.
    size_t leader;
    // The numbers of SoftmaxNumber.
    size_t numbers;
    size_t size;
    constexpr explicit ClassMemoryLayout(size_t square, size_t parameters)
        : information(0)
        , covariance(information + square)
        , pull(covariance + square)
        , leader(pull + parameters)
        , numbers(leader + parameters)
        , size(numbers + 4) {}
};

// The state of the level of several classes.
struct ClassLevelLayout {
    // The memories, each of CLASS_MEMORY.
    size_t memories;
    // The last mixer's log-weights.
    size_t log_weights;
    // Sums of the candidates' losses.
    size_t losses;
    // How often each class was seen.
    size_t counts;
    // The numbers of ClassNumber.
    size_t numbers;
    size_t size;
    constexpr explicit ClassLevelLayout(size_t memories_size, size_t candidates, size_t classes)
        : memories(0)
        , log_weights(memories + memories_size)
        , losses(log_weights + candidates)
        , counts(losses + candidates)
        , numbers(counts + classes)
        , size(numbers + 6) {}
};

// What the level of several classes knew about a row when it was served.
struct ClassRecordLayout {
    // What was served.
    size_t log_probabilities;
    // Of each class against the rest.
    size_t log_odds;
    // The candidates' log-probabilities (N, K); 1 for a missing candidate.
    size_t answers;
    size_t size;
    constexpr explicit ClassRecordLayout(size_t classes, size_t answers_size)
        : log_probabilities(0)
        , log_odds(log_probabilities + classes)
        , answers(log_odds + classes)
        , size(answers + answers_size) {}
};

// Labelled rows an online estimator keeps, to fit its scaling again when it has seen 4, 32 and this many.
constexpr int64_t WARMUP = 256;

// Scaled features are clipped here at first: far outside anything ordinary, far inside what a broken sensor says.
constexpr double CLIP = 30.0;

// The serial number of the last outlier, before there was one.
constexpr double NEVER = -2.0;

// A spread below this share of the largest number is the rounding of a constant.
constexpr double ROUNDING = 1e-12;

// Rounds over which the mean |residual|, the unit of intervals, is averaged, once there are as many.
constexpr double INTERVAL_ROUNDS = 200.0;

// A residual or jump counts at most this many times its running mean when that is updated.
constexpr double WILD = 10.0;

// Half-widths of intervals stay above this many units.
constexpr double SMALLEST_WIDTH = 1e-100;

// Half-widths of intervals stay below this many units.
constexpr double LARGEST_WIDTH = 1e+100;

// Predictions are sorted by their size into this many groups, whose intervals differ by a factor of their own.
constexpr int64_t FIFTHS = 5;

// Variance of the spread model's coefficients before the first residual: 50 residuals say as much. It never grows
// larger.
constexpr double SPREAD_PRIOR = 0.02;

// Columns of a family's rows, where they hold more than the constant and the features.
constexpr int64_t MOST_COLUMNS = 96;

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
        // The last label.
        LAST = 0,
        // The label before the last one.
        BEFORE = 1,
        // The running mean over SHORT_LABEL_SPAN labels (estimator_context.h).
        SHORT_MEAN = 2,
        // The running mean over LONG_LABEL_SPAN labels.
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
        // How many labels were known.
        ROUNDS = 14,
        // How many different ones, of two classes; 0 for numbers.
        CLASSES = 15,
    };
    static constexpr size_t SIZE = 16;
};

// Buckets of the gate between the raw and the robust arm of an online regressor: by how far they disagree.
constexpr int64_t GATE_BUCKETS = 4;

// Arms that differ by up to this many mean |residuals| agree: bucket 0.
constexpr double FIRST_DISAGREEMENT = 4.0;

// Each bucket after bucket 0 reaches this many times farther than the one before, the last one to infinity.
constexpr double DISAGREEMENT_STEP = 8.0;

// Weight that returns to the prior of a bucket in each of its rounds.
constexpr double GATE_SHARE = 0.0001;

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
        // In the other buckets: what priors, falling rates and the share may have cost against the raw arm.
        RAW_COST = 4,
        // The same against the robust arm.
        ROBUST_COST = 5,
        // What labels beyond both arms, which these buckets cut, change in the losses against the raw arm.
        RAW_CUT = 6,
        // The same against the robust arm.
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
        // 0.5 if the prediction is above the first cut between fifths of predictions, else -0.5.
        FIRST_CUT = 2,
        // The same for the second cut.
        SECOND_CUT = 3,
        // The same for the third cut.
        THIRD_CUT = 4,
        // The same for the fourth cut.
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
        // Part of an error that the level takes over.
        LEVEL = 0,
        // Part of what the level leaves that the value at this place of the season takes over.
        SEASON = 1,
        // What is left of the trend after a row.
        DAMPING = 2,
        // Part of what the level takes over that the trend takes over too.
        TREND = 3,
    };
    static constexpr size_t SIZE = 4;
};

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

// Surprises of a watched feature among which a new one is ranked; they follow its FeatureNumbers.
constexpr int64_t FEATURE_WINDOW = 500;

// How often something that happens in runs (holes, repeated values) happened to a feature; runs count when over.
struct RunNumber {
    enum : int {
        // Shiryaev-Roberts sum of the bets that from now on it always happens.
        SUM = 0,
        // Rows so far.
        ROWS = 1,
        // Length of the run that goes on.
        LENGTH = 2,
        // Rows in which it did not happen after one in which it did not.
        NO_NO = 3,
        // Rows in which it happened after one in which it did not.
        NO_YES = 4,
        // Rows in which it did not happen after one in which it did.
        YES_NO = 5,
        // Rows in which it happened after one in which it did.
        YES_YES = 6,
        // 1 once a row came in which it did not happen.
        STOPPED = 7,
        // 1 while the run that goes on has been reported.
        REPORTED = 8,
    };
    static constexpr size_t SIZE = 9;
};

// What is kept of a watched feature, before the window of its surprises.
struct FeatureNumber {
    enum : int {
        // The last value; NaN before the first.
        LAST = 0,
        // Pairs of values that the regression of a value on the one before it has learned.
        ROUNDS = 1,
        // Mean of the values before.
        MEAN_BEFORE = 2,
        // Mean of the values after them.
        MEAN_NOW = 3,
        // Sum of squares of the values before, around their mean.
        VARIANCE = 4,
        // Sum of products of both, around their means.
        COVARIANCE = 5,
        // Where the next surprise goes in the window.
        PLACE = 6,
        // Surprises in the window.
        KEPT = 7,
        // Shiryaev-Roberts sums of the bets that the level rose, and then that it fell, by each of three shifts.
        BETS = 8,
        // The usual level.
        USUAL = 14,
        // Rows that the usual level rests on.
        LEVEL_ROWS = 15,
        // Page's sums for a rise and for a fall: a change began after the last row in which the sum was 0.
        PAGE = 16,
        // The usual level when that was, for a rise and for a fall.
        BEFORE = 18,
        // Rows since then.
        SINCE = 20,
        // Sum of the values since then.
        TOTAL = 22,
        // The RunNumbers of repeated values.
        FROZEN = 24,
        // The RunNumbers of holes.
        MISSING = 33,
        // Where the window begins.
        END = 42,
    };
    static constexpr size_t SIZE = 18;
};

// What can be found in one row of a feature; several are added.
struct FeatureChange {
    enum : int {
        // It stays missing for longer than it ever did.
        MISSING = 1,
        // It repeats a value for longer than it ever did.
        FROZEN = 2,
        // Its level rose.
        UP = 4,
        // Its level fell.
        DOWN = 8,
    };
    static constexpr size_t SIZE = 4;
};

} // namespace undrift
