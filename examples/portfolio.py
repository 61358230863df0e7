"""A portfolio that learns from growth alone: deviations from an equal split, under log-wealth, with a certificate."""

import numpy as np

import undrift as ud

rng = np.random.default_rng(0)
days, stocks = 1000, 4
drift = np.repeat(0.002 * rng.normal(size=(4, stocks)), days // 4, axis=0)  # who does well changes four times
growth = np.exp(drift + 0.01 * rng.normal(size=(days, stocks)))

market = growth.mean(axis=1)  # the equal split: the label is its growth
Z = growth - market[:, None]  # what a deviation from it adds: the row
model = ud.newton_ensemble("log_wealth", gamma=0.5, reg=1e-3, radius=1.0)
trace = model.play(Z, market)
wealth, equal = float(np.prod(market + trace.yhat)), float(np.prod(market))

best = int(np.argmax(np.sum(np.log(growth), axis=0)))
u = np.eye(stocks)[best] - 1.0 / stocks  # all in the stock that was best in the end
certificate = ud.regret.certify(model.clone(), Z, market, trace=trace, u=u)

if __name__ == "__main__":
    print(f"wealth {wealth:.2f}, of the equal split {equal:.2f}, of the best stock {np.prod(growth[:, best]):.2f}")
    print(f"log-wealth lost against the best stock {certificate.regret:.2f}, never more than {certificate.bound:.2f}")
