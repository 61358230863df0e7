"""Clipped and clip-free Adam for optax: chains of small transforms, with averaged weights that can always be found.

>>> import jax, jax.numpy as jnp, optax, undrift.optax
>>> params = {"w": jnp.array([3.0, -4.0])}
>>> tx = optax.chain(optax.clip(10.0), undrift.optax.clipped_adam(0.1))
>>> state = tx.init(params)
>>> for _ in range(100):
...     updates, state = tx.update(jax.grad(lambda p: (p["w"] ** 2).sum())(params), state, params)
...     params = optax.apply_updates(params, updates)
>>> bool(jnp.abs(undrift.optax.eval_params(state, params)["w"]).max() < 0.1)
True
"""

from __future__ import annotations

from undrift.errors import MissingExtraError

try:
    import optax as _optax  # noqa: F401  # only to say clearly that it is missing
except ModuleNotFoundError as missing:  # pragma: no cover  # the test environment has it
    raise MissingExtraError("undrift.optax needs optax; install it with: pip install 'undrift[optax]'") from missing

from undrift.optax.aliases import clip_free_adam as clip_free_adam
from undrift.optax.aliases import clipped_adam as clipped_adam
from undrift.optax.aliases import from_tuning as from_tuning
from undrift.optax.aliases import scale_by_exponential as scale_by_exponential
from undrift.optax.aliases import skip_nonfinite as skip_nonfinite
from undrift.optax.averaging import AverageState as AverageState
from undrift.optax.averaging import certificate as certificate
from undrift.optax.averaging import eval_params as eval_params
from undrift.optax.averaging import track_average as track_average
from undrift.optax.leader import LeaderState as LeaderState
from undrift.optax.leader import scale_by_leader as scale_by_leader
