"""The averaged weights: look at them, copy them, evaluate with them; training never needs a mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from undrift.errors import InputError
from undrift.torch.tensors import State

if TYPE_CHECKING:
    _Base = torch.optim.Optimizer
else:
    _Base = object


class Averaging(_Base):
    """Methods around `state[p]["average"]`; the parameters hold x except inside `averaged` or after `eval`.

    While the averaged weights are in place the state keeps x under that name, so that whoever saves model and
    optimizer then loses nothing, and `train` works after loading both. Values are exchanged one tensor at a time: no
    second model is needed. (Averages of half-precision parameters are wider and stay in the state as well.)
    """

    NAME: ClassVar[str]

    @property
    def _swapped(self) -> bool:
        """Whether the averaged weights are in place."""
        return any("x" in state for state in self.state.values())

    def _refuse_while_averaged(self, what: str) -> None:
        if self._swapped:
            raise InputError(
                f"{self.NAME}: {what} while the averaged weights are in place; "
                "leave `with opt.averaged():`, or call opt.train(), first"
            )

    def average_of(self, p: torch.Tensor) -> torch.Tensor:
        """Return the averaged value of a parameter: itself if it has not had a gradient yet."""
        if p not in self._averaged_parameters():
            raise InputError(f"{self.NAME}: average_of needs a parameter of this optimizer")
        return self._average(p)

    def _averaged_parameters(self) -> dict[torch.Tensor, None]:
        """Return every parameter, in order, if averages are kept; what the groups say after loading is what counts."""
        if not self.param_groups[0]["average"]:
            raise InputError(f"{self.NAME}: no average is kept with average=False")
        return dict.fromkeys(p for group in self.param_groups for p in group["params"])

    def _average(self, p: torch.Tensor) -> torch.Tensor:
        average: torch.Tensor = self.state.get(p, {}).get("average", p.detach())  # swapped: it is in place
        return average

    @torch.no_grad()
    def eval(self) -> None:
        """Put the averaged weights in place; again, or with average=False, does nothing.

        `with opt.averaged():` cannot be forgotten.
        """
        if not self._swapped:
            for p, state in self.state.items():
                if "average" in state:
                    _exchange(p, state)

    @torch.no_grad()
    def train(self) -> None:
        """Put the training weights back; again does nothing."""
        for p, state in self.state.items():
            if "x" in state:
                _exchange_back(p, state)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Evaluate with the averaged weights: they are in place inside the block, x is back after it, come what may.

        Whoever changes the weights inside the block changes the average. Batch normalisation keeps statistics of x;
        `undrift.torch.update_bn` recomputes them inside the block.
        """
        self._averaged_parameters()
        if self._swapped:  # a block inside a block
            yield
            return
        try:
            self.eval()
            yield
        finally:
            self.train()

    def average_state_dict(self, model: torch.nn.Module) -> dict[str, Any]:
        """Return the state dict of the trained `model` with every trained parameter replaced by its average."""
        out, averaged = dict(model.state_dict()), self._averaged_parameters()
        for name, p in model.named_parameters(remove_duplicate=False):
            if name in out and p in averaged:
                out[name] = self._average(p).to(p.dtype, copy=True)
        return out

    @torch.no_grad()
    def copy_average_to(self, model: torch.nn.Module, source: torch.nn.Module | None = None) -> None:
        """Write the averaged weights into another `model` of the same shape.

        With `source`, the model being trained, parameters are matched by name and buffers are copied too; without it,
        in the order in which the optimizer was given them.
        """
        trained = self._averaged_parameters()
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
            q.copy_(self._average(p))


def _exchange(p: torch.Tensor, state: State) -> None:
    """Put the average into the parameter and x into the state."""
    x = p.detach().clone()
    p.copy_(state["average"])
    if state["average"].dtype == p.dtype:
        state["x"] = state.pop("average").copy_(x)
    else:
        state["x"] = x


def _exchange_back(p: torch.Tensor, state: State) -> None:
    """Put x back into the parameter and, unless it has stayed there, the average into the state."""
    x = state.pop("x")
    average = p.detach().clone() if "average" not in state else None
    p.copy_(x)
    if average is not None:
        state["average"] = x.copy_(average)
