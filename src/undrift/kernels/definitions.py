"""What Python and the compiled kernels must agree on, defined here and nowhere else: layouts, indices, shared limits.

Constants that tune one kernel stand in its C++ file, beside the algorithm.

`python tools/kernel_header.py` writes all of it to `native/definitions.h`, and a test compares the two:

| here | there |
|---|---|
| a number in capitals | a constant |
| an `IntEnum` | a struct of indices and their number, `SIZE` |
| a `Layout` | a struct of offsets, made from the dimensions, and their sum, `size` |

Docstrings become comments.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)


class Field(NamedTuple):
    """A part of a record: some consecutive numbers."""

    name: str
    size: int | str
    """How many: a number, the name of a dimension, or "triangle(name)" for d (d - 1) / 2 of that dimension."""
    doc: str

    @property
    def dimension(self) -> str | None:
        """The name of the dimension that the size depends on."""
        return self.size.removeprefix("triangle(").removesuffix(")") if isinstance(self.size, str) else None

    def count(self, dimensions: dict[str, int]) -> int:
        """Return the size for given dimensions."""
        if isinstance(self.size, int) or self.dimension is None:
            return int(self.size)
        d = dimensions[self.dimension]
        return d if self.size == self.dimension else d * (d - 1) // 2

    @property
    def count_text(self) -> str:
        """The size as a C++ expression."""
        d = self.dimension
        return str(self.size) if self.size == d or d is None else f"{d} * ({d} - 1) / 2"


class Layout:
    """Where the parts of a record lie: one after the other, without gaps."""

    def __init__(self, *fields: Field) -> None:
        self.fields = fields
        self._known: dict[tuple[tuple[str, int], ...], dict[str, slice]] = {}

    @property
    def dimensions(self) -> list[str]:
        """The names of the dimensions that sizes depend on, in order of appearance."""
        return list(dict.fromkeys(field.dimension for field in self.fields if field.dimension is not None))

    def slices(self, **dimensions: int) -> dict[str, slice]:
        """Return where each part lies, for given dimensions."""
        asked = tuple(dimensions.items())
        if asked not in self._known:  # learners ask again and again
            found, start = {}, 0
            for field in self.fields:
                found[field.name] = slice(start, start := start + field.count(dimensions))
            self._known[asked] = found
        return self._known[asked].copy()

    def size(self, **dimensions: int) -> int:
        """Return how many numbers a record takes."""
        return sum(field.count(dimensions) for field in self.fields)

    def split(self, record: NDArray[T], **dimensions: int) -> dict[str, NDArray[T]]:
        """Return the parts of a record, as views; numbers after the last part are left out."""
        return {name: record[where] for name, where in self.slices(**dimensions).items()}


LANES = 8
"""Learners interleaved in one group of a stack."""
FEW_LANES = 4
"""The same in an online estimator where a stage has two to four memories: most of a wider group would be padding."""

INPUT_LIMIT = 1e75
"""Largest |z_j| and |y| that a kernel accepts."""

LEAST_DISCOUNT = 1e-300
"""What is left of the past after however long a time, at least."""

PIVOT_FLOOR = 1e-24
"""Pivots are kept above this fraction of their feature's energy."""

PIVOT_MIN = 1e-150
"""Pivots and energies are kept above this number."""

FLOOR_PERIOD = 16
"""Floors are applied in rounds whose number is a multiple of this, counting from 0."""

SMALL_BETA = 0.015625
"""Floors are applied in every round for discounts below this, whose pivots could underflow in between."""

COLLINEAR = 1e17
"""A feature whose energy exceeds its pivot by this factor is nearly a linear combination of those before it: what is
left of it in a row, p_j, may be rounding, which forgetting would take for information. It counts only where it exceeds
RESIDUE_ROUNDING / (1 - beta) times a bound on the terms it is the sum of."""

RESIDUE_ROUNDING = 2.0**-50
"""The share of a bound on its terms below which p_j of a collinear feature is rounding, in a single round. L follows
the rows in steps of 1 - beta, so that it stays wrong by 1 / (1 - beta) roundings."""

MIX_LIMIT = 1e150
"""Mixers bring predictions into +-MIX_LIMIT, and no log-weight falls below -MIX_LIMIT: nothing overflows."""


MOST_LATENESS = 4.0
"""Labels that come late slow the rates of mixers down by at most this factor: slower ones would not come back from a
shock."""

FARTHEST_MEMBER = 36.0
"""Members count as at most this many recent mean |residuals| away from the heaviest: a fixed share gives weight to
members that a shock has left far off."""


GROWING_SHARE = -1.0
"""As the share of a mixer for logistic loss: FIRST_SHARE / (t + 1) after round t."""

FIRST_SHARE = 0.1
"""Such a share costs FIRST_SHARE ln(T + 1) in T rounds."""

LEVERAGE_LIMIT = 1e12
"""A row of larger leverage would leave too few digits of the covariance of a `DriftVAW`: it starts afresh."""


class DriftEvent(IntEnum):
    """What a row did to a `DriftVAW`."""

    LEARNED = 0
    """It was learned."""
    RESTARTED = 1
    """Its leverage was beyond LEVERAGE_LIMIT: the learner started afresh, and learned it."""
    IGNORED = 2
    """Its leverage was beyond LEVERAGE_LIMIT even for a fresh learner: it was not learned."""


class DriftCount(IntEnum):
    """The sums that a `DriftVAW` keeps."""

    LEAST = 0
    """The least value, over all paths, of their losses so far plus what they pay for start and movement."""
    RESTARTS = 1
    """Fresh starts."""
    IGNORED = 2
    """Rows that were not learned."""


class SoftmaxNumber(IntEnum):
    """The numbers that a `DiscountedSoftmax` keeps besides its matrices."""

    RIDGE = 0
    """The weight of |u|^2 / 2 in what it minimises, after the last round."""
    AGE = 1
    """Rounds since its covariance was computed from the information matrix."""
    RESTARTS = 2
    """Fresh starts."""
    IGNORED = 3
    """Rows that were not learned."""


class Hint(IntEnum):
    """A guess of the coming label that discounted VAW is pulled towards where it knows little."""

    ZERO = 0
    """Zero, as in the paper."""
    LAST = 1
    """The last label."""
    RIDGE = 2
    """The leader's own prediction: plain discounted ridge regression."""


class MixingRule(IntEnum):
    """Where the rate of a mixer for squared loss comes from, and what it predicts; see `mix_squared`."""

    RANGE = 0
    """The largest label; predicts the weighted mean."""
    AGGREGATING = 1
    """The largest label; predicts by Vovk's substitution."""
    SELF_CONFIDENT = 2
    """The sum of positive mixability gaps, as far as it is remembered; predicts the weighted mean."""
    RESIDUAL_SCALE = 3
    """The mean squared residual of the mixture; predicts the weighted mean."""


class MixerState(IntEnum):
    """The numbers in the state of a mixer for squared loss. For logistic loss the first one counts rounds."""

    LABEL_MIN = 0
    """The smallest label so far, or -LABEL_MAX under the rules RANGE and AGGREGATING."""
    LABEL_MAX = 1
    """The largest label so far, or the largest |label| under these rules."""
    INVERSE_RATE = 2
    """The inverse rate of the coming round; 0 keeps the prior."""
    POSITIVE_GAPS = 3
    """The sum of the positive mixability gaps: the mixture's loss minus the mix loss, where that is positive; cut down
    where the last rounds contradict it."""
    GAPS = 4
    """The sum of all mixability gaps, less what rises of the inverse rate need not cost where weights agree."""
    RATE_RISES = 5
    """The sum of the rises of the inverse rate."""
    SHARE_COST = 6
    """What the fixed share may have cost."""
    MEAN_SQUARED_RESIDUAL = 7
    """The running mean of the mixture's squared residuals, cut down where the last rounds contradict it."""
    ROUNDS = 8
    """The rounds closed."""
    RECENT_RESIDUAL = 9
    """The running mean of the mixture's |residuals| over the last rounds."""


INFORMATION = Layout(
    Field("inverse_pivots", "dim", "1/D of the discounted information matrix A = L D L^T."),
    Field("theta", "dim", "D^-1 L^-1 r, so that the leader is x = L^-T theta."),
    Field("energy", "dim", "The diagonal of A by its own recursion, the yardstick of the pivot floor."),
    Field("floored", 1, "How many pivots were raised to the floor so far."),
    Field("lost", 1, "1 from the round in which the numbers left float64's range until the next floor round."),
    Field("resets", 1, "How often that happened."),
    Field("factor", "triangle(dim)", "L below its diagonal, by rows in a stack, by columns for one or two learners."),
)
"""The state of one learner with `dim` features."""

ENSEMBLE_SLOT = Layout(
    Field("information", "information_size", "The states of all discounts, each of INFORMATION, interleaved in lanes."),
    Field("mixer_state", len(MixerState), "The numbers of MixerState."),
    Field("last_label", 1, "The label of the round before."),
    Field("stability", "members", "Sums of the members' stability."),
    Field("log_weights", "members", "The mixer's log-weights."),
    Field("losses", "members", "Sums of the members' losses."),
    Field("clipped_losses", "members", "The same with predictions clipped to the labels' range."),
)
"""One key's ensemble in the states of `play_keys`: the states of its discounts, its mixer and its sums."""

CLASS_MEMORIES = 3
"""Memories of the softmax regression over the log-odds of several classes."""

CLASS_CANDIDATES = 6
"""What the last mixer of several classes chooses from: these memories, the log-odds as they are, base rates, the last
class again; predictions made elsewhere are added."""

CLASS_RIDGE = 10.0
"""How firmly the regression begins with the log-odds as they are, in rows."""

CLASS_SCALE = 0.5
"""Log-odds are counted in units of the inverse of this."""


class ClassNumber(IntEnum):
    """The single numbers in the state of the level of several classes."""

    ROUNDS = 0
    """Labels counted."""
    LAST = 1
    """The last class."""
    STAYED = 2
    """How often a label was the one before."""
    CHANGED = 3
    """How often it was another."""
    MIXED = 4
    """Rounds of the last mixer."""
    EXCESS = 5
    """Sum of the losses of served predictions less those of the last mixer: the share for classes not seen yet, and
    what late labels lost."""


CLASS_MEMORY = Layout(
    Field("information", "square", "The information matrix of the n parameters (n, n), without the ridge."),
    Field("covariance", "square", "The inverse of it with the ridge (n, n)."),
    Field("pull", "parameters", "The linear part of what is minimised."),
    Field("leader", "parameters", "Its minimum: K slopes c_k, K offsets d_k, and the common slope c."),
    Field("numbers", len(SoftmaxNumber), "The numbers of SoftmaxNumber."),
)
"""One memory of the softmax regression over log-odds; n = 2 K + 1."""

CLASS_LEVEL = Layout(
    Field("memories", "memories_size", "The memories, each of CLASS_MEMORY."),
    Field("log_weights", "candidates", "The last mixer's log-weights."),
    Field("losses", "candidates", "Sums of the candidates' losses."),
    Field("counts", "classes", "How often each class was seen."),
    Field("numbers", len(ClassNumber), "The numbers of ClassNumber."),
)
"""The state of the level of several classes."""

CLASS_RECORD = Layout(
    Field("log_probabilities", "classes", "What was served."),
    Field("log_odds", "classes", "Of each class against the rest."),
    Field("answers", "answers_size", "The candidates' log-probabilities (N, K); 1 for a missing candidate."),
)
"""What the level of several classes knew about a row when it was served."""


WARMUP = 256
"""Labelled rows an online estimator keeps, to fit its scaling again when it has seen 4, 32 and this many."""


CLIP = 30.0
"""Scaled features are clipped here at first: far outside anything ordinary, far inside what a broken sensor says."""


NEVER = -2.0
"""The serial number of the last outlier, before there was one."""

ROUNDING = 1e-12
"""A spread below this share of the largest number is the rounding of a constant."""


INTERVAL_ROUNDS = 200.0
"""Rounds over which the mean |residual|, the unit of intervals, is averaged, once there are as many."""


WILD = 10.0
"""A residual or jump counts at most this many times its running mean when that is updated."""

SMALLEST_WIDTH = 1e-100
"""Half-widths of intervals stay above this many units."""

LARGEST_WIDTH = 1e100
"""Half-widths of intervals stay below this many units."""


FIFTHS = 5
"""Predictions are sorted by their size into this many groups, whose intervals differ by a factor of their own."""


SPREAD_PRIOR = 0.02
"""Variance of the spread model's coefficients before the first residual: 50 residuals say as much. It never grows
larger."""


MOST_COLUMNS = 96
"""Columns of a family's rows, where they hold more than the constant and the features."""


LEAST_PROBABILITY = 1e-6
"""Probabilities that were made elsewhere are brought into [this, 1 - this]."""


class FamilyDesign(IntEnum):
    """What the rows of a family's memories are made of; all begin with the constant 1."""

    LINEAR = 0
    """The scaled features."""
    WAVES = 1
    """The features and their waves."""
    CONTEXT = 2
    """The features, the last labels, and every feature's distance from its running means."""
    EXPANDED = 3
    """Inputs (the features, some of these distances, the last label), hinges of them and products of pairs."""
    GIVEN = 4
    """No memories: the answers come with the row, made elsewhere."""


class LabelContext(IntEnum):
    """What is known of the last labels when a row is served, in label units, as the arm learns them."""

    LAST = 0
    """The last label."""
    BEFORE = 1
    """The label before the last one."""
    SHORT_MEAN = 2
    """The running mean over SHORT_LABEL_SPAN labels (estimator_context.h)."""
    LONG_MEAN = 3
    """The running mean over LONG_LABEL_SPAN labels."""


class ExpandedColumn(IntEnum):
    """The numbers that say what a column of an expanded family is."""

    FIRST = 0
    """The input it is made of; -1: the column is 0."""
    SECOND = 1
    """The input that the first one is multiplied by; -1: the column is a hinge, max(0, input - knot)."""
    KNOT = 2
    """Where the hinge begins."""


class Despiker(IntEnum):
    """The numbers by which an online regressor tells a bad label from a new level."""

    LAST = 0
    """The last label that was not cut."""
    MEAN_JUMP = 1
    """The running mean of |jumps|; 0 until labels differ."""
    CUTS = 2
    """How many labels of the present series were cut."""


class RecordPart(IntEnum):
    """The numbers at the head of the record of a served row."""

    SERIAL = 0
    """Its place among all rows served, from 1 on."""
    WIDTH = 1
    """How many features rows had."""
    KNOWN = 2
    """1 if a label had been settled before, so that the prediction means something."""
    BOUNDED = 3
    """1 if there was an interval."""
    YHAT = 4
    """The prediction."""
    HINT = 5
    """The last label known, as learners saw it; for two classes the log-odds of no change."""
    WEIGHT = 6
    """How much the row counts; 1."""
    ELAPSED = 7
    """Time since the row before; 1."""
    UNCOUNTED = 8
    """Rows that came since and are not counted in serial numbers; 0 unless the row was predicted before it came."""
    RAW = 9
    """What the last mixer made of the candidates."""
    ROBUST = 10
    """The prediction of the robust arm; the same as RAW without one."""
    BUCKET = 11
    """The bucket of the gate by how far the two arms disagreed."""
    UNIT = 12
    """The unit of the gate: its mean |residual|."""
    GATED = 13
    """What the gate made of the two arms; the same as RAW without a robust arm."""
    ROUNDS = 14
    """How many labels were known."""
    CLASSES = 15
    """How many different ones, of two classes; 0 for numbers."""


GATE_BUCKETS = 4
"""Buckets of the gate between the raw and the robust arm of an online regressor: by how far they disagree."""

FIRST_DISAGREEMENT = 4.0
"""Arms that differ by up to this many mean |residuals| agree: bucket 0."""

DISAGREEMENT_STEP = 8.0
"""Each bucket after bucket 0 reaches this many times farther than the one before, the last one to infinity."""


GATE_SHARE = 1e-4
"""Weight that returns to the prior of a bucket in each of its rounds."""


class GateNumber(IntEnum):
    """The single numbers in the state of the gate."""

    UNIT = 0
    """The running mean of the gate's |residuals|, capped; 0 until one was wrong."""
    ROUNDS = 1
    """Rounds judged."""
    LATE = 2
    """In bucket 0: loss of served predictions beyond what the weights of settling time would have lost."""
    GAPS = 3
    """In the other buckets: the sum of mixability gaps."""
    RAW_COST = 4
    """In the other buckets: what priors, falling rates and the share may have cost against the raw arm."""
    ROBUST_COST = 5
    """The same against the robust arm."""
    RAW_CUT = 6
    """What labels beyond both arms, which these buckets cut, change in the losses against the raw arm."""
    ROBUST_CUT = 7
    """The same against the robust arm."""
    ROBUST_LOSS = 8
    """Sum of the robust arm's losses."""


class GateBucket(IntEnum):
    """The numbers of one bucket of the gate. Bucket 0 has a mixer of its own and counts its rounds here."""

    ROUNDS = 0
    """Rounds judged; 0: not used so far."""
    LOG_ODDS = 1
    """Log-odds of the raw arm's weight."""
    PRIOR = 2
    """The raw arm's weight when the bucket was first used."""
    INVERSE_RATE = 3
    """The inverse rate of its last round."""


class GivenLoss(IntEnum):
    """By which loss given predictions are combined."""

    SQUARED = 0
    """(yhat - y)^2 / 2."""
    PINBALL = 1
    """max(level (y - yhat), (1 - level) (yhat - y)); level 1/2 is half the absolute error."""
    LOGISTIC = 2
    """ln(1 + exp(-y yhat)), for two classes."""


class GivenNumber(IntEnum):
    """The single numbers in the state of the mixer of given predictions."""

    UNIT = 0
    """The running mean of |residuals|, capped; 0 until one was wrong."""
    ROUNDS = 1
    """Rounds judged."""
    LARGEST = 2
    """The largest |regret| of a round and member, as far as it is remembered."""
    LOSS = 3
    """Sum of the losses of what was served."""


class GivenMember(IntEnum):
    """The numbers of each member of the mixer of given predictions."""

    REGRET = 0
    """Sum of the linearised regrets of rounds against it, as far as they are remembered."""
    SQUARES = 1
    """Sum of their squares, as far as they are remembered."""
    FORGOTTEN = 2
    """Positive regret that was forgotten after shocks."""
    CUT = 3
    """What labels far beyond all members, which are cut, change in the losses against it."""
    LOSS = 4
    """Sum of its losses."""
    SLOPES = 5
    """Sum of the loss's slope at the prediction times how far that is above the member, as it came, with labels as they
    came: weighted by any convex combination, a bound on the excess over it."""


class EstimatorNumber(IntEnum):
    """The single numbers in the state of an online estimator."""

    ROUNDS = 0
    """Labels settled."""
    SKIPPED = 1
    """Those of rows that were served before any label was known: nothing was predicted that could be judged."""
    UNLABELLED = 2
    """Rows whose label never came."""
    SERVED = 3
    """Rows served: the serial number of the last one."""
    LAST_SERIAL = 4
    """The highest serial number settled."""
    CENTER = 5
    """What is taken off labels before the families learn them; fixed between refits."""
    LABEL_SCALE = 6
    """The unit of level 2's features; 0 until labels differ."""
    LAST = 7
    """The last label."""
    HINT = 8
    """The last label as learners saw it."""
    LATE = 9
    """Loss of served predictions beyond what the weights of settling time would have lost with the same answers."""
    MEAN = 10
    """The mean of all labels."""
    STAYED = 11
    """Labels that were the same as the one before, of two classes."""
    CHANGED = 12
    """Labels that were not."""
    NEGATIVE = 13
    """Labels -1."""
    POSITIVE = 14
    """Labels +1."""
    NEGATIVE_LABEL = 15
    """What the negative label of two classes was called, 0 or -1;"""
    BOOLEAN_LABELS = 16
    """1 if labels were given as False and True."""


class IntervalState(IntEnum):
    """The first numbers in the state of intervals.

    Four numbers per level follow: widths in spreads below and above the median, excess misses, hits.
    """

    UNIT = 0
    """The mean |residual|."""
    ROUNDS = 1
    """How many labels were compared with an interval."""
    RESIDUALS = 2
    """How many residuals the unit has seen."""
    RECENT = 3
    """The mean |residual| over RECENT_RESIDUALS rounds."""
    LAST = 4
    """The same over LAST_RESIDUALS rounds."""
    MEDIAN = 5
    """How far the median is above the prediction, in spreads."""
    LATE = 6
    """How many rows after its own the last label arrived, 1 if before the next row; 0 before the first one."""


class SpreadColumn(IntEnum):
    """The first columns of the spread model, which predicts the logarithm of |residual|; scaled features follow."""

    CONSTANT = 0
    """1."""
    PREDICTION = 1
    """The prediction, in label scales from the centre of the labels."""
    FIRST_CUT = 2
    """0.5 if the prediction is above the first cut between fifths of predictions, else -0.5."""
    SECOND_CUT = 3
    """The same for the second cut."""
    THIRD_CUT = 4
    """The same for the third cut."""
    FOURTH_CUT = 5
    """The same for the fourth cut."""
    DISAGREEMENT = 6
    """The logarithm of how far the candidates that learn are from the prediction, in units."""
    RECENT = 7
    """The logarithm of the mean |residual| over RECENT_RESIDUALS rounds, in units."""
    LAST = 8
    """The same over LAST_RESIDUALS rounds."""
    MOVE = 9
    """The logarithm of the predicted distance from the last label, in units."""
    SEASON = 10
    """The logarithm of the size of residuals at the row's place in the best season; 0 without a season."""


class SeasonLength(IntEnum):
    """The lengths, in rows, of the seasons by which residuals may differ in size."""

    WEEK_OF_DAYS = 7
    """A week of daily rows."""
    DAY_OF_HOURS = 24
    """A day of hourly rows."""
    DAY_OF_HALF_HOURS = 48
    """A day of half-hourly rows."""
    DAY_OF_QUARTERS = 96
    """A day of rows every 15 minutes."""


LEAF = -1
"""What stands for the column of a node that is not split."""


class TreeNode(IntEnum):
    """The numbers of a node of a tree; a tree is 2 leaves - 1 of them, its root first."""

    COLUMN = 0
    """The column it is split by, LEAF for a leaf."""
    VALUE = 1
    """Rows whose number is at most this go left; for a leaf, what it adds to the prediction."""
    LEFT = 2
    """Where the left child is in the tree; the right one follows it."""
    MISSING_LEFT = 3
    """1 if rows without a number go left."""


class SmootherHead(IntEnum):
    """The numbers at the beginning of a bank of smoothers."""

    SEEN = 0
    """Values so far, missing ones left out."""
    FIRST = 1
    """The row of the first value."""


class SmootherGain(IntEnum):
    """How a smoother of a bank follows its series."""

    LEVEL = 0
    """Part of an error that the level takes over."""
    SEASON = 1
    """Part of what the level leaves that the value at this place of the season takes over."""
    DAMPING = 2
    """What is left of the trend after a row."""
    TREND = 3
    """Part of what the level takes over that the trend takes over too."""


class StepSum(IntEnum):
    """What is kept for every step of a series, besides regrets: sums over the rows judged, discounted."""

    SEEN = 0
    """Forecasts judged so far, not discounted."""
    ROWS = 1
    """Forecasts judged."""
    SQUARES = 2
    """Squared errors of the mixture, cut."""
    RECENT = 3
    """The mean squared error over a third of the rows, at most STEP_RECENT."""
    MOVES = 4
    """Squares of the move that the mixture forecast, away from the last value, in units."""
    AGREEMENT = 5
    """The same move times the one that came."""
    SPREAD = 6
    """Squares of: the move forecast times what it left unexplained."""


FEATURE_WINDOW = 500
"""Surprises of a watched feature among which a new one is ranked; they follow its `FeatureNumber`s."""


class RunNumber(IntEnum):
    """How often something that happens in runs (holes, repeated values) happened to a feature; runs count when over."""

    SUM = 0
    """Shiryaev-Roberts sum of the bets that from now on it always happens."""
    ROWS = 1
    """Rows so far."""
    LENGTH = 2
    """Length of the run that goes on."""
    NO_NO = 3
    """Rows in which it did not happen after one in which it did not."""
    NO_YES = 4
    """Rows in which it happened after one in which it did not."""
    YES_NO = 5
    """Rows in which it did not happen after one in which it did."""
    YES_YES = 6
    """Rows in which it happened after one in which it did."""
    STOPPED = 7
    """1 once a row came in which it did not happen."""
    REPORTED = 8
    """1 while the run that goes on has been reported."""


class FeatureNumber(IntEnum):
    """What is kept of a watched feature, before the window of its surprises."""

    LAST = 0
    """The last value; NaN before the first."""
    ROUNDS = 1
    """Pairs of values that the regression of a value on the one before it has learned."""
    MEAN_BEFORE = 2
    """Mean of the values before."""
    MEAN_NOW = 3
    """Mean of the values after them."""
    VARIANCE = 4
    """Sum of squares of the values before, around their mean."""
    COVARIANCE = 5
    """Sum of products of both, around their means."""
    PLACE = 6
    """Where the next surprise goes in the window."""
    KEPT = 7
    """Surprises in the window."""
    BETS = 8
    """Shiryaev-Roberts sums of the bets that the level rose, and then that it fell, by each of three shifts."""
    USUAL = 14
    """The usual level."""
    LEVEL_ROWS = 15
    """Rows that the usual level rests on."""
    PAGE = 16
    """Page's sums for a rise and for a fall: a change began after the last row in which the sum was 0."""
    BEFORE = 18
    """The usual level when that was, for a rise and for a fall."""
    SINCE = 20
    """Rows since then."""
    TOTAL = 22
    """Sum of the values since then."""
    FROZEN = 24
    """The `RunNumber`s of repeated values."""
    MISSING = 33
    """The `RunNumber`s of holes."""
    END = 42
    """Where the window begins."""


class FeatureChange(IntEnum):
    """What can be found in one row of a feature; several are added."""

    MISSING = 1
    """It stays missing for longer than it ever did."""
    FROZEN = 2
    """It repeats a value for longer than it ever did."""
    UP = 4
    """Its level rose."""
    DOWN = 8
    """Its level fell."""
