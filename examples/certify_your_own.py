"""Certify a learner undrift does not ship: gradient descent whose weights leak, on logistic loss.

Its promise, by the usual FTRL argument: x <- beta (x - eta g) satisfies, for every t and u,
sum_s beta^(t-s) (f_s(x_s) - f_s(u)) <= |u|^2 / (2 eta) + sum_s beta^(t-s) eta |g_s|^2 / 2.
"""

import numpy as np

import undrift as ud
from undrift.losses import logistic
from undrift.trace import Trace

rng = np.random.default_rng(0)
Z = rng.normal(size=(2000, 3))
drift = np.repeat(rng.normal(size=(4, 3)), 500, axis=0)
y = np.where(np.sum(Z * drift, axis=1) + rng.logistic(size=2000) > 0, 1.0, -1.0)

# The learner and its certificate, in ten lines.
beta, eta, x = 0.999, 0.05, np.zeros(3)
yhat, stability = np.zeros(len(y)), np.zeros(len(y))
for t in range(len(y)):
    yhat[t] = Z[t] @ x
    g = logistic.slope(yhat[t], y[t]) * Z[t]
    stability[t] = eta * (g @ g) / 2
    x = beta * (x - eta * g)
trace = Trace(yhat, stability, potential=np.full(len(y), 1 / eta))
u = ud.regret.comparators.piecewise(Z, y, logistic, segments=4)
certificate = ud.regret.certify(ud.regret.Template(beta=beta), Z, y, trace=trace, u=u, loss=logistic)

if __name__ == "__main__":
    print(f"regret {certificate.regret:8.1f}   against four pieces that lose {certificate.comparator_loss:.1f}")
    print(f"bound  {certificate.bound:8.1f}   holds: {certificate.holds}")
    for name in ("start", "stability", "variation", "potential_drift"):
        print(f"  {name:15} {getattr(certificate, name):8.1f}")
