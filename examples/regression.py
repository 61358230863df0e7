"""Regression with drift: the level and the slope of demand change twice; nobody tells the model."""

import numpy as np

import undrift as ud

rng = np.random.default_rng(0)
hours = np.arange(6000)
temperature = 10.0 * np.sin(2 * np.pi * hours / 24) + rng.normal(size=6000)
slope = np.select([hours < 2000, hours < 4000], [1.5, -1.0], 3.0)
level = np.select(
    [hours < 2000, hours < 4000],
    [
        100.0,
        140.0,
    ],
    120.0,
)
demand = level + slope * temperature + rng.normal(scale=2.0, size=6000)

model = ud.OnlineRegressor()
rows = [{"temperature": t, "hour": h % 24} for t, h in zip(temperature, hours, strict=True)]
trace = model.play(rows, demand)  # every prediction is made before its label is seen

error = np.abs(trace.yhat - demand)
naive = np.abs(np.diff(demand))
after_change = error[4000:4100].mean(), error[4500:].mean()
coverage = next(one for one in model.coverage() if one.level == 0.9)

if __name__ == "__main__":
    print(f"mean error {error.mean():.2f}, repeating the last value {naive.mean():.2f}, the noise alone 1.60")
    print(f"first 100 hours after the second change {after_change[0]:.2f}, 500 hours later {after_change[1]:.2f}")
    print(f"{coverage.measured:.1%} of values lay inside their 90% intervals")
    low, high = model.predict_interval(rows[-1])
    print(f"next, at {temperature[-1]:.1f} degrees: {model.predict(rows[-1]):.1f}, between {low:.1f} and {high:.1f}")
