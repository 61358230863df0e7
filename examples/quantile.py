"""Track the 90% quantile of a stream whose level and spread drift, and certify the run under the pinball loss."""

import numpy as np

import undrift as ud
from undrift.losses import Quantile

rng = np.random.default_rng(0)
t = np.arange(4000)
level, spread = 10.0 + 5.0 * np.sin(t / 600), 1.0 + t / 2000
y = level + spread * rng.exponential(size=4000)
Z = np.column_stack([np.ones(4000), np.sin(2 * np.pi * t / 24)])

model = ud.newton_ensemble("quantile(0.9)", reg=0.05)
trace = model.play(Z, y)
covered = float(np.mean(y[500:] <= trace.yhat[500:]))

fixed = np.array([np.quantile(y, 0.9), 0.0])  # the best constant in hindsight
certificate = ud.regret.certify(model.clone(), Z, y, trace=trace, u=fixed, loss=Quantile(0.9))

if __name__ == "__main__":
    print(f"labels below the tracked 90% quantile: {covered:.1%}")
    print(f"pinball loss {certificate.incurred:.0f}, of the best constant {certificate.comparator_loss:.0f}")
    print(f"regret {certificate.regret:.0f}, bound {certificate.bound:.0f}, holds: {certificate.holds}")
