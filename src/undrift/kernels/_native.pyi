import numpy as np
from numpy.typing import NDArray

from undrift._typing import Vector

def mean_play(state: Vector, y: Vector, beta: float, yhat: Vector, stability: Vector) -> None: ...
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
