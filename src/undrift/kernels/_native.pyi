import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.kernels.layout import MixerArguments, State

def levels() -> list[str]: ...
def choose(level: str) -> bool: ...
def level() -> str: ...
def adam_measure(
    kind: int,
    p: NDArray[np.uint64],
    g: NDArray[np.uint64],
    m: NDArray[np.uint64],
    size: NDArray[np.int64],
    rows: Matrix,
    which: NDArray[np.int64],
    with_m: bool,
    threads: int,
    out: Matrix,
) -> None: ...
def adam_apply(
    kind: int,
    p: NDArray[np.uint64],
    g: NDArray[np.uint64],
    m: NDArray[np.uint64],
    v: NDArray[np.uint64],
    average: NDArray[np.uint64],
    size: NDArray[np.int64],
    rows: Matrix,
    which: NDArray[np.int64],
    threads: int,
    out: Matrix,
) -> None: ...
def mean_play(state: Vector, y: Vector, beta: float, yhat: Vector, stability: Vector) -> None: ...
def vaw_play(
    state: State,
    beta: Vector,
    first: int,
    Z: Matrix,
    y: Vector,
    m: Matrix,
    h: Matrix,
    threads: int = 1,
    weight: Vector | None = None,
    elapsed: Vector | None = None,
) -> int: ...
def vaw_predict(
    state: State,
    beta: Vector,
    first: int,
    Z: Matrix,
    m: Matrix,
    h: Matrix,
    threads: int = 1,
    elapsed: float = 1.0,
) -> int: ...
def vaw_outputs_play(
    state: State, theta: State, beta: Vector, first: int, Z: Matrix, Y: Matrix, m: State, h: Matrix
) -> int: ...
def vaw_outputs_predict(
    state: State, theta: State, beta: Vector, first: int, Z: Matrix, m: State, h: Matrix
) -> int: ...
def smoothers_size(periods: NDArray[np.int64], horizon: int) -> int: ...
def smoothers_play(
    state: Vector, gains: Matrix, periods: NDArray[np.int64], reach: Matrix, first: int, y: Vector, out: State
) -> int: ...
def steps_judge(
    regrets: NDArray[np.float64],
    sums: State,
    losses: State,
    followed: NDArray[np.int64],
    answers: NDArray[np.float64],
    mixed: State,
    row: int,
    y: Vector,
) -> None: ...
def steps_mix(
    regrets: NDArray[np.float64],
    sums: State,
    losses: State,
    prior: Vector,
    naive: int,
    answers: State,
    weights: State,
    mixed: Matrix,
    served: Matrix,
) -> None: ...
def watch_features(
    state: Matrix, Z: Matrix, scores: Vector, limit: float, found: NDArray[np.int64], levels: State
) -> int: ...
def drift_play(
    factor: State,
    leader: Matrix,
    counts: Matrix,
    reg: Vector,
    step: Vector,
    first: int,
    Z: Matrix,
    y: Vector,
    m: Matrix,
    h: Matrix,
    event: Matrix,
    weight: Vector | None = None,
    elapsed: Vector | None = None,
    gains: Matrix | None = None,
) -> int: ...
def drift_predict(
    factor: State,
    leader: Matrix,
    reg: Vector,
    step: Vector,
    first: int,
    Z: Matrix,
    m: Matrix,
    h: Matrix,
    elapsed: float = 1.0,
) -> int: ...
def drift_residuals(Z: Matrix, gains: Matrix, error: Vector, start: Vector, out: Vector) -> None: ...
def drift_errors(Z: Matrix, gains: Matrix, y: Vector, start: Vector, out: Vector) -> None: ...
def given_predict(
    numbers: Matrix,
    last: Vector,
    sums: State,
    loss: int,
    level: float,
    step: int,
    Z: Matrix,
    yhat: Vector,
    weights: Matrix,
) -> None: ...
def given_learn(
    numbers: Matrix,
    last: Vector,
    sums: State,
    products: Matrix,
    loss: int,
    level: float,
    step: int,
    z: Vector,
    yhat: float,
    y: float,
    late: float,
) -> None: ...
def given_play(
    numbers: Matrix,
    last: Vector,
    sums: State,
    products: Matrix,
    loss: int,
    level: float,
    Z: Matrix,
    y: Vector,
    yhat: Vector,
    weights: Matrix,
) -> None: ...
def softmax_play(
    information: Matrix,
    covariance: Matrix,
    pull: Vector,
    leader: Vector,
    numbers: Vector,
    basis: Matrix,
    curvature: float,
    reg: float,
    beta: Vector,
    weight: Vector,
    Z: Matrix,
    y: Vector,
    logits: Matrix,
    stability: Vector,
    potential: Vector,
    point: Matrix | None = None,
) -> int: ...
def softmax_predict(
    covariance: Matrix,
    leader: Vector,
    basis: Matrix,
    curvature: float,
    reg: float,
    beta: float,
    Z: Matrix,
    logits: Matrix,
) -> int: ...
def class_level_play(
    state: Vector, S: Matrix, y: Vector, weight: Vector, elapsed: Vector, given: Matrix, logs: Matrix
) -> int: ...
def class_level_predict(state: Vector, S: Matrix, elapsed: Vector, given: Matrix, records: Matrix) -> int: ...
def class_level_settle(state: Vector, classes: int, record: Vector, y: int, weight: float, elapsed: float) -> int: ...
def aioli_play(
    state: State,
    beta: Vector,
    inverse_curvature: Vector,
    first: int,
    Z: Matrix,
    y: Vector,
    yhat: Matrix,
    stability: Matrix,
    threads: int = 1,
    weight: Vector | None = None,
    elapsed: Vector | None = None,
    leverage: Matrix | None = None,
    point: Matrix | None = None,
) -> int: ...
def aioli_predict(
    state: State, beta: Vector, first: int, Z: Matrix, yhat: Matrix, threads: int = 1, elapsed: float = 1.0
) -> int: ...
def mix_logistic_predict(log_weights: Vector, E: Matrix, yhat: Vector) -> None: ...
def mix_squared_predict(log_weights: Vector, state: Vector, rule: int, E: Matrix, yhat: Vector) -> None: ...
def mix_logistic(
    log_weights: Vector,
    log_prior: Vector,
    share: float,
    E: Matrix,
    y: Vector,
    yhat: Vector,
    losses: Vector,
    weights: Matrix,
) -> None: ...
def mix_squared(
    log_weights: Vector,
    log_prior: Vector,
    share: float,
    state: Vector,
    rule: int,
    scale: float,
    E: Matrix,
    y: Vector,
    yhat: Vector,
    losses: Vector,
    clipped_losses: Vector,
    weights: Matrix,
) -> None: ...

class Shared:
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

class Lock:
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...
    @property
    def shared(self) -> Shared: ...

class EnsembleKernel:
    def __init__(
        self,
        *,
        binary: bool,
        state: State,
        beta: Vector,
        inverse_curvature: Vector,
        leader: NDArray[np.int64],
        hint: NDArray[np.int64],
        last_label: Vector,
        stability: Vector,
        mixer: MixerArguments | None,
        lock: Lock | None = None,
    ) -> None: ...
    def learn(self, model: object, z: object, y: object) -> bool: ...
    def predict(self, model: object, z: object) -> float | None: ...
    def predict_rows(self, first: int, Z: Matrix, yhat: Vector) -> int: ...
    def play(self, first: int, Z: Matrix, y: Vector, yhat: Vector, weights: Matrix) -> int: ...
    def slot_size(self) -> int: ...
    def slot_shape(self) -> tuple[int, int, int]: ...
    def play_keys(
        self,
        states: Matrix,
        rounds: NDArray[np.int64],
        slots: NDArray[np.int64],
        Z: Matrix,
        y: Vector,
        yhat: Vector,
        threads: int = 1,
    ) -> int: ...

def hinted_predictions(m: Matrix, h: Matrix, hint: Matrix, y: Vector, yhat: Matrix, stability: Matrix) -> None: ...
def log_odds(m0: Vector, kappa: Vector, m: Vector) -> None: ...
def o2nc_gradient(kind: int, x: Vector, out: Vector) -> None: ...
def o2nc_play(
    kind: int,
    numbers: Vector,
    seed: int,
    steps: int,
    x: Vector,
    average: Vector,
    m: Vector,
    truth: Vector,
    delta: Vector,
    sample: Vector,
    v: Vector,
    offsets: NDArray[np.int64],
    scalars: Vector,
    counts: NDArray[np.int64],
) -> int: ...
def waves(table: Matrix, X: Matrix, bound: float, out: Matrix, first: int) -> None: ...
def fill_rows(value: Vector, seen: Vector, missing: Vector, Z: Matrix, out: Matrix) -> None: ...
def scale_rows(
    center: Vector, scale: Vector, limit: Vector, exceeded: Vector, first: int, Z: Matrix, out: Matrix
) -> None: ...

class EstimatorRow:
    def __init__(self, lock: Lock) -> None: ...
    def bind(
        self, kernel: Estimator, state: Vector, names: tuple[str, ...] | None, forests: ForestRow | None
    ) -> None: ...
    def predict(self, z: object, elapsed: float = 1.0) -> float | None: ...
    def learn(self, model: object, z: object, y: float, weight: float = 1.0, elapsed: float = 1.0) -> bool: ...
    def serve(self, z: object, record: Vector, commit: bool, elapsed: float = 1.0) -> bool: ...
    def settle(self, model: object, record: Vector, y: float) -> bool: ...
    def learn_peeked(self, model: object, z: object, y: float, record: Vector, rounds: int) -> bool: ...

class Estimator:
    record_size: int
    quantiles_at: int
    candidates_at: int

    def __init__(
        self,
        *,
        binary: bool,
        despiked: bool,
        indicators: bool,
        dim: int,
        began: int,
        given: int,
        waves: Matrix,
        spans: Vector,
        tails: Vector,
        blank: Vector,
        parts: dict[str, tuple[int, int]],
    ) -> None: ...
    def add_family(
        self,
        *,
        parts: dict[str, tuple[int, int]],
        name: str,
        dim: int,
        beta: Vector,
        inverse_curvature: Vector,
        log_prior: Vector,
        share: float,
        rule: int,
        scale: float,
        design: int,
        spans: int,
        knots: int,
        screened: int,
        order: Vector,
    ) -> None: ...
    def add_given(self) -> None: ...
    def set_robust(
        self,
        other: Estimator,
        *,
        parts: dict[str, tuple[int, int]],
        log_prior: Vector,
        share: float,
        rule: int,
        scale: float,
    ) -> None: ...
    def set_offered(self, *, parts: dict[str, tuple[int, int]], offered: int, loss: int, level: float) -> None: ...
    def set_level2(
        self,
        *,
        parts: dict[str, tuple[int, int]],
        name: str,
        dim: int,
        beta: Vector,
        inverse_curvature: Vector,
        log_prior: Vector,
        share: float,
        rule: int,
        scale: float,
    ) -> None: ...
    def set_last(
        self,
        *,
        parts: dict[str, tuple[int, int]],
        name: str,
        log_prior: Vector,
        share: float,
        rule: int,
        scale: float,
    ) -> None: ...
    def serve(self, state: Vector, z: Vector, record: Vector, commit: bool, elapsed: float = 1.0) -> int: ...
    def advance(self, state: Vector, z: Vector) -> int: ...
    def settle(self, state: Vector, record: Vector, y: float) -> int: ...
    def refit(self, state: Vector) -> None: ...
    def predict_rows(self, state: Vector, Z: Matrix, yhat: Vector, elapsed: float = 1.0) -> int: ...
    def play(
        self,
        state: Vector,
        Z: Matrix,
        y: Vector,
        yhat: Vector,
        quantiles: Matrix,
        known: Vector,
        weight: Vector | None = None,
        elapsed: Vector | None = None,
    ) -> int: ...
    def play_late(
        self,
        state: Vector,
        Z: Matrix,
        y: Vector,
        records: Matrix,
        pending: int,
        delay: int,
        weight: Vector | None = None,
        elapsed: Vector | None = None,
    ) -> int: ...
    def play_keys(
        self,
        states: Matrix,
        slots: NDArray[np.int64],
        Z: Matrix,
        y: Vector,
        yhat: Vector,
        known: Vector,
        threads: int,
    ) -> int: ...

def tree_rows(state: Vector, spans: Vector, Z: Matrix, y: Vector, X: Matrix, commit: bool) -> None: ...
def settle_tree_label(state: Vector, y: float, newest: bool) -> None: ...
def trees_predict(trees: NDArray[np.float64], base: float, X: Matrix, score: Vector) -> None: ...

class ForestRow:
    def __init__(self) -> None: ...
    def point(
        self,
        context: Vector,
        spans: Vector,
        dim: int,
        answers: int,
        logistic: bool,
        forests: list[tuple[NDArray[np.float64], float, NDArray[np.int64]]],
    ) -> None: ...
    def offer(
        self, block: tuple[Matrix, Vector, Vector] | None, count: NDArray[np.int64], at: int, most: int
    ) -> None: ...
    def answer(self, X: Matrix, out: Matrix) -> None: ...

class TreeBuilder:
    base: float

    def __init__(
        self,
        *,
        X: Matrix,
        y: Vector,
        weight: Vector,
        old: NDArray[np.float64],
        base: float,
        trees: NDArray[np.float64],
        logistic: bool,
        columns: int,
        learning_rate: float,
        leaf_weight: float,
        seed: int,
    ) -> None: ...
    def step(self, budget: int, threads: int = 1) -> bool: ...
