"""A River pipeline: their preprocessing, evaluation and metrics around our regressor."""

import datetime as dt

from river import compose, datasets, evaluate, metrics

from undrift.river import DriftRegressor


def calendar(x):
    """Make numbers of a month."""
    month: dt.datetime = x["month"]
    return {"month": month.month, "year": month.year}


ours = compose.FuncTransformer(calendar) | DriftRegressor()
measured = evaluate.progressive_val_score(datasets.AirlinePassengers(), ours, metrics.MAE())

last, naive = 0.0, metrics.MAE()
for _, passengers in datasets.AirlinePassengers():
    naive.update(passengers, last)
    last = passengers

if __name__ == "__main__":
    print(f"airline passengers, predicted month by month: {measured}; repeating the last month: {naive}")
