"""The averaged weights: look at them, copy them, evaluate with them; training never needs a mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from undrift.errors import InputError

if TYPE_CHECKING:
    _Base = torch.optim.Optimizer
else:
    _Base = object


class Averaging(_Base):
    """Methods around `state[p]["average"]`; the parameters hold x except inside `averaged` or after `eval`."""

    NAME: ClassVar[str]

    def __getstate__(self) -> dict[str, Any]:
        self._refuse_while_averaged("copying or pickling")
        return super().__getstate__()

    @property
    def _training_weights(self) -> list[tuple[torch.Tensor, torch.Tensor]] | None:
        """Parameters and their x while the averages are in place, else None."""
        return self.__dict__.get("_kept")

    def _refuse_while_averaged(self, what: str) -> None:
        if self._training_weights is not None:
            raise InputError(
                f"{self.NAME}: {what} while the averaged weights are in place; "
                "leave `with opt.averaged():`, or call opt.train(), first"
            )

    def average_of(self, p: torch.Tensor) -> torch.Tensor:
        """Return the averaged value of a parameter: itself if it has not had a gradient yet."""
        if not self.defaults["average"]:
            raise InputError(f"{self.NAME}: no average is kept with average=False")
        state = self.state.get(p, {})
        average: torch.Tensor = state["average"] if "average" in state else p.detach()
        return average

    @torch.no_grad()
    def eval(self) -> None:
        """Put the averaged weights in place; again does nothing. `with opt.averaged():` cannot be forgotten."""
        if self._training_weights is not None:
            return
        params = [p for group in self.param_groups for p in group["params"]]
        averages = [self.average_of(p) for p in params]
        self.__dict__["_kept"] = [(p, p.detach().clone()) for p in params]
        for p, average in zip(params, averages, strict=True):
            p.copy_(average)

    @torch.no_grad()
    def train(self) -> None:
        """Put the training weights back; again does nothing."""
        for p, x in self._training_weights or []:
            p.copy_(x)
        self.__dict__["_kept"] = None

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Evaluate with the averaged weights: they are in place inside the block, x is back after it, come what may.

        Batch normalisation keeps statistics of x; `undrift.torch.update_bn` recomputes them inside the block.
        """
        if self._training_weights is not None:  # a block inside a block
            yield
            return
        self.eval()
        try:
            yield
        finally:
            self.train()

    def average_state_dict(self, model: torch.nn.Module) -> dict[str, Any]:
        """Return the state dict of the trained `model` with every trained parameter replaced by its average."""
        out = dict(model.state_dict())
        trained = {p for group in self.param_groups for p in group["params"]}
        for name, p in model.named_parameters(remove_duplicate=False):
            if name in out and p in trained:
                out[name] = self.average_of(p).to(p.dtype, copy=True)
        return out

    @torch.no_grad()
    def copy_average_to(self, model: torch.nn.Module, source: torch.nn.Module | None = None) -> None:
        """Write the averaged weights into another `model` of the same shape.

        With `source`, the model being trained, parameters are matched by name and buffers are copied too; without it,
        in the order in which the optimizer was given them.
        """
        trained = [p for group in self.param_groups for p in group["params"]]
        target = list(model.parameters())
        if {id(p) for p in trained} & {id(p) for p in target}:
            raise InputError(
                f"{self.NAME}: copy_average_to would overwrite the weights in training; give it a copy of the model, "
                "or use `with opt.averaged():`"
            )
        if source is not None:
            model.load_state_dict(self.average_state_dict(source))
            return
        if [p.shape for p in trained] != [p.shape for p in target]:
            raise InputError(
                f"{self.NAME}: the parameters of this model do not line up with the optimizer's; pass source=, "
                "the model being trained, to match them by name"
            )
        for p, q in zip(trained, target, strict=True):
            q.copy_(self.average_of(p))
