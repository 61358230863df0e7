"""Bring your own model: boosted trees, refitted as the stream grows, beside undrift's linear memories.

Any object with `fit` and `predict` will do in place of `BoostedTrees`: lightgbm.LGBMRegressor(), a scikit-learn
pipeline. The mixer learns whom to trust, and `cost()` bounds what that can have lost against each.
"""

import numpy as np

import undrift as ud

rng = np.random.default_rng(0)
rounds = 6000
Z = rng.uniform(-1.0, 1.0, size=(rounds, 4))
level = np.cumsum(rng.normal(scale=0.02, size=rounds))  # drifts: what a refitted model is late to learn
y = np.where(Z[:, 0] > 0.0, 2.0 * Z[:, 1], -2.0 * Z[:, 1]) + Z[:, 2] + level + 0.1 * rng.normal(size=rounds)

own = ud.PeriodicRefit(ud.BoostedTrees(columns=1.0), grow=1.5, window=2000)
linear = ud.linear_ensemble(hint="last")
both = ud.Ensemble([linear, own])
served = both.play(np.column_stack([Z, np.ones(rounds)]), y)

losses = {"linear memories": both.losses[0], "own model": both.losses[1], "both": np.sum((served.yhat - y) ** 2) / 2.0}
for name, loss in losses.items():
    print(f"{name:16s} mean loss {loss / rounds:.3f}")
print(f"the mixture lost at most {both.cost().max() / rounds:.3f} a row more than either, whatever the data")
