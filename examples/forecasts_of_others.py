"""A column of someone else's forecasts: a batch model of last month, a foundation model, a vendor's feed.

The column is a candidate, never a feature: it is corrected and mixed, ignored while it is broken, and where it is
missing it says nothing. What the mixture can have lost against it is known for every run.
"""

import numpy as np

import undrift as ud

rng = np.random.default_rng(0)
rounds = 4000
temperature = 10.0 * np.sin(np.arange(rounds) / 200.0) + rng.normal(size=rounds)
orders = rng.poisson(20.0, size=rounds).astype(float)
load = 50.0 + 2.0 * orders - 0.5 * temperature + rng.normal(size=rounds)

vendor = load - 4.0 + 2.0 * rng.normal(size=rounds)  # good, but always too low
vendor[rng.random(rounds) < 0.1] = np.nan  # some are missing
vendor[2500:2800] = 0.0  # and for a while the feed is broken
rows = [
    {"temperature": t, "hour": float(k % 24), "vendor": v}
    for k, (t, v) in enumerate(zip(temperature, vendor, strict=True))
]

model = ud.OnlineRegressor(candidates=["vendor"])
error = model.play(rows, load).yhat - load
alone = ud.OnlineRegressor().play([{k: v for k, v in row.items() if k != "vendor"} for row in rows], load).yhat - load

spoke = ~np.isnan(vendor)
spoke[:500] = False
later = np.arange(rounds) >= 500
figures = {
    "the vendor, where it spoke": np.sqrt(np.mean((vendor - load)[spoke] ** 2)),
    "without the vendor": np.sqrt(np.mean(alone[later] ** 2)),
    "with its column as a candidate": np.sqrt(np.mean(error[later] ** 2)),
}
for name, value in figures.items():
    print(f"{name:32s} RMSE {value:.2f}")
index = model.candidates.index("vendor")
print(f"proven: the mixture's losses minus the column's, where it spoke, are at most {model.cost()[index]:,.0f}")
