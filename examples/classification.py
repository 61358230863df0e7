"""Classification: what predicts a click changes in the middle, and a feature appears late."""

import numpy as np

import undrift as ud
from undrift.losses import logistic, sigmoid

rng = np.random.default_rng(0)
model, base = ud.OnlineClassifier(speed="fast"), ud.BaseRate()
T = 4000
price, age, mobile = rng.normal(size=(3, T))
odds = np.where(np.arange(T) < 2000, -1.0 - 2.0 * price, -1.0 + 1.5 * age) + np.where(
    np.arange(T) < 3000, 0.0, 2.0 * mobile
)
clicked = rng.random(T) < sigmoid(odds)

yhat, naive = np.zeros(T), np.zeros(T)
for t in range(T):
    row = {"price": price[t], "age": age[t]}
    if t >= 3000:
        row["mobile"] = mobile[t]  # a name nobody saw before
    yhat[t], naive[t] = model.log_odds(row), base.predict([])  # of a learner by itself, predict is log-odds
    model.learn(row, clicked[t])
    base.learn([], clicked[t])

label = np.where(clicked, 1.0, -1.0)
loss, naive_loss = logistic.value(yhat, label), logistic.value(naive, label)

if __name__ == "__main__":
    print(f"log-loss {loss.mean():.3f}; knowing only how often people click: {naive_loss.mean():.3f}")
    for name, part in (
        ("before the change", slice(0, 2000)),
        ("after it", slice(2000, 3000)),
        ("with mobile", slice(3000, T)),
    ):
        print(f"  {name:18} {loss[part].mean():.3f} against {naive_loss[part].mean():.3f}")
    print(f"chance that the last visitor clicks again: {model.predict_proba(row)[1]:.0%}")
    print("proven: at most", np.round(model.cost().max(), 2), "more loss than any candidate, in total")
