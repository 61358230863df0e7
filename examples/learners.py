"""Two drifting streams, memories chosen and learned, and the naive guesses they must beat."""

import time

import numpy as np

import undrift as ud
from undrift.losses import logistic, squared

ROUNDS, DIM = 5000, 5


def drifting_stream(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and the signal in them; its coefficients wander, and jump after rounds 2000 and 3500."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(ROUNDS, DIM))
    u = np.cumsum(rng.normal(scale=0.01, size=(ROUNDS, DIM)), axis=0) + rng.normal(size=DIM)
    for jump in (2000, 3500):
        u[jump:] += rng.normal(scale=2.0, size=DIM)
    return Z, np.sum(Z * u, axis=1)


def shown(title: str, unit: str, models: dict[str, ud.Learner], Z, y, loss) -> None:
    """Play every model over the stream and print what it reached, best first."""
    print(f"\n{title}\n{'model':<44}{unit:>12}{'us/round':>12}")
    results = []
    for name, model in models.items():
        start = time.perf_counter()
        trace = model.play(Z, y)
        took = (time.perf_counter() - start) / len(y) * 1e6
        results.append((float(np.mean(loss.value(trace.yhat, y))), name, took))
    for value, name, took in sorted(results):
        print(f"{name:<44}{value:>12.4f}{took:>12.2f}")


def main() -> None:
    """Run both tasks."""
    print(f"undrift {ud.__version__}: {ROUNDS} rounds, {DIM} features, coefficients that wander and jump twice.")
    print("Every prediction is made before its label is seen. Lower is better.")
    Z, signal = drifting_stream(0)
    rng = np.random.default_rng(1)
    half_lives = (5, 20, 80, 320, np.inf)
    regressors = {f"VAW, half-life {h:g} rounds": ud.DiscountedVAW(half_life=h) for h in half_lives}
    regressors["VAW, half-life 20 rounds, hint ridge"] = ud.DiscountedVAW(half_life=20, hint="ridge")
    regressors["memory learned (linear_ensemble)"] = ud.linear_ensemble()
    regressors["everything learned (OnlineRegressor)"] = ud.OnlineRegressor()
    regressors |= {"same as last time": ud.Persistence(), "running mean": ud.DiscountedMean(beta=1.0)}
    y = signal + rng.normal(scale=0.5, size=ROUNDS)
    shown("Regression: what is y? (the noise alone costs 0.125)", "loss", regressors, Z, y, squared)

    classifiers = {f"AIOLI, half-life {h:g} rounds": ud.DiscountedAIOLI(half_life=h, bound=10) for h in half_lives}
    classifiers["memory learned (logistic_ensemble)"] = ud.logistic_ensemble(10, 5)
    classifiers["everything learned (OnlineClassifier)"] = ud.OnlineClassifier()
    classifiers |= {"same as last time": ud.Persistence(binary=True), "base rate": ud.BaseRate()}
    labels = np.where(rng.random(ROUNDS) < 1.0 / (1.0 + np.exp(-signal)), 1.0, -1.0)
    shown("Classification: is it +1? (a coin costs 0.693)", "log-loss", classifiers, Z, labels, logistic)

    model = regressors["VAW, half-life 20 rounds"]
    truth = np.linalg.lstsq(Z[-40:], y[-40:], rcond=None)[0]
    print("\nCoefficients now, VAW with half-life 20:", np.round(model.coef, 2))
    print("Least squares on the last 40 rounds:    ", np.round(truth, 2))


if __name__ == "__main__":
    main()
