"""goldstein: a (c, epsilon)-stationary point is Goldstein stationary; moving far mass to the centre shows it."""

import numpy as np

from undrift.optim import Objective, goldstein


def test_the_cloud_pulled_into_the_ball_stays_below_the_promise():
    rng = np.random.default_rng(0)
    moved = 0
    for name in ("saturated", "kinks", "well", "basins"):
        objective = Objective(name, 2)
        for _ in range(200):
            points = rng.normal(size=(12, 2)) * 10.0 ** rng.uniform(-1, 0.5)
            weights = rng.dirichlet(np.ones(12))
            x = weights @ points
            c, delta = 10.0 ** rng.uniform(-1, 1), 10.0 ** rng.uniform(-1, 0.5)
            gradients = np.array([objective.gradient(y) for y in points])
            distances = np.sum((points - x) ** 2, axis=1)
            epsilon = np.linalg.norm(weights @ gradients) + c * weights @ distances
            inside = distances <= delta**2
            moved += not inside.all()
            gradients[~inside] = objective.gradient(x)  # an element of the delta-subdifferential at x
            assert np.linalg.norm(weights @ gradients) <= goldstein(epsilon, c, delta, objective.lipschitz) * (
                1 + 1e-12
            )
    assert moved > 200


def test_twice_the_lipschitz_constant_is_reached():
    """Half of the cloud at x with gradient G, half just outside the ball with gradient -G: their mean is 0.

    Inside the ball every gradient is G, so that is the smallest element of the subdifferential there.
    """
    G, c, delta = 1.0, 1e-3, 0.5
    r = delta * (1.0 + 1e-9)
    epsilon = abs(0.5 * G - 0.5 * G) + c * 0.5 * r**2
    promised = goldstein(epsilon, c, delta, G)
    assert G <= promised <= 1.001 * G
