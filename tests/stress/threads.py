"""Every model predicts N times in four threads (100,000 unless given), first alone, then while a fifth one learns.

Every number must be right: alone, the bits of a single thread; while it learns, those of one of the states it went
through. Then four threads learn at once: no round may be lost.
"""

import sys
import time
import warnings

import undrift as ud
from tests.learners.test_threads import MODELS, rows, together

THREADS = 4
LEARNED = 60


class Estimator:
    """One way to call each kind of model."""

    def __init__(self, make) -> None:
        self.model = make()

    def predict(self, z) -> float:
        return self.model.predict(z)

    def learn(self, z, y) -> None:
        self.model.learn(z, y)

    def count(self) -> int:
        return self.model.rounds


class River(Estimator):
    """Rows are dictionaries."""

    @staticmethod
    def _row(z) -> dict[str, float]:
        return {f"x{j}": float(v) for j, v in enumerate(z)}

    def predict(self, z) -> object:
        return self.model.predict_one(self._row(z))

    def learn(self, z, y) -> None:
        self.model.learn_one(self._row(z), y)

    def count(self) -> int:
        return self.model.model.rounds


class Sklearn(Estimator):
    """Rows are matrices."""

    def predict(self, z) -> object:
        return self.model.predict(z[None])[0]

    def learn(self, z, y) -> None:
        if type(self.model).__name__ == "DriftClassifier":
            self.model.partial_fit(z[None], [y], classes=[-1.0, 1.0])
        else:
            self.model.partial_fit(z[None], [y])

    def count(self) -> int:
        return self.model.model_.rounds


def estimators() -> dict[str, tuple[type[Estimator], object, bool]]:
    """Return by name how to call a model, how to make it, and whether it has two classes."""
    found = {name: (Estimator, make, make().binary) for name, make in MODELS.items()}
    found["online regressor, best"] = Estimator, ud.OnlineRegressor, False
    found["online classifier, best"] = Estimator, ud.OnlineClassifier, True
    from undrift import river, sklearn

    for kind, module in ((River, river), (Sklearn, sklearn)):
        for name, binary in (("DriftRegressor", False), ("DriftClassifier", True)):
            found[f"{kind.__name__} {name}"] = kind, lambda m=module, n=name: getattr(m, n)(speed="fast"), binary
    return found


def trial(kind, make, binary: bool, count: int) -> None:
    Z, y = rows(ud.Zero(binary=binary), 80)
    one = kind(make)
    for z, label in zip(Z[:20], y[:20], strict=True):
        one.learn(z, float(label))
    expected = [one.predict(z) for z in Z[60:]]
    each = -(-count // THREADS)

    def predict() -> None:
        for k in range(each):
            assert one.predict(Z[60 + k % 20]) == expected[k % 20]

    together(*[predict] * THREADS)

    twin, states = kind(make), []
    for t in range(20 + LEARNED):
        if t >= 20:
            states.append(twin.predict(Z[60]))
        twin.learn(Z[t % 60], float(y[t % 60]))
    possible = {*states, twin.predict(Z[60])}

    def learn() -> None:
        for t in range(20, 20 + LEARNED):
            one.learn(Z[t % 60], float(y[t % 60]))
            time.sleep(0.002)

    def watch() -> None:
        for _ in range(each // 10):
            assert one.predict(Z[60]) in possible

    together(learn, *[watch] * THREADS)
    assert one.predict(Z[60]) == twin.predict(Z[60])

    def more() -> None:
        for _ in range(LEARNED):
            one.learn(Z[0], float(y[0]))

    together(*[more] * THREADS)
    assert one.count() == 20 + LEARNED + THREADS * LEARNED


def main(count: int) -> None:
    sys.setswitchinterval(1e-5)  # threads take turns as often as they can
    warnings.simplefilter("ignore")
    every = estimators()
    for name, (kind, make, binary) in every.items():
        start = time.perf_counter()
        trial(kind, make, binary, count)
        print(f"{name:28} {count:,} predictions right, {time.perf_counter() - start:.1f} s", flush=True)
    print(f"{len(every)} estimators, {count:,} predictions each, every number right, no round lost")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
