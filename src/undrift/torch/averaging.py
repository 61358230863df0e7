"""The averaged weights: look at them, copy them, evaluate with them; training never needs a mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from undrift.errors import InputError
from undrift.torch import ahead
from undrift.torch.rounds import Group

if TYPE_CHECKING:
    _Base = torch.optim.Optimizer
else:
    _Base = object


class Averaging(_Base):
    """Methods around `state[p]["average"]`; the parameters hold x except inside `averaged` or after `eval`."""

    NAME: ClassVar[str]

    def __getstate__(self) -> dict[str, Any]:
        self._refuse_while_averaged("copying or pickling")
        self._heed_changes()
        return super().__getstate__()

    @property
    def _training_weights(self) -> dict[torch.Tensor, torch.Tensor] | None:
        """The x of every parameter while the averages are in place, else None."""
        return self.__dict__.get("_kept")

    @property
    def _versions(self) -> dict[int, int]:
        """Torch's count of changes to each parameter, by its id, after the last step; no part of the state."""
        found: dict[int, int] = self.__dict__.setdefault("_kept_versions", {})
        return found

    def _remember_versions(self) -> None:
        self.__dict__["_kept_versions"] = {id(p): p._version for group in self.param_groups for p in group["params"]}

    def _forget_versions(self) -> None:
        self.__dict__.pop("_kept_versions", None)

    def _untouched(self, p: torch.Tensor) -> bool:
        """Say whether a parameter is as the last step left it, as far as torch knows."""
        return self._versions.get(id(p), p._version) == p._version

    def _heed_changes(self) -> None:
        """Have averages run ahead no more once somebody else changes the weights: they are to take in what is left."""
        if not self._versions or self._training_weights is not None:
            return
        if not all(self._untouched(p) for group in self.param_groups for p in group["params"]):
            ahead.stop(self.param_groups, self.state, self._untouched)
            self._forget_versions()

    def _refuse_while_averaged(self, what: str) -> None:
        if self._training_weights is not None:
            raise InputError(
                f"{self.NAME}: {what} while the averaged weights are in place; "
                "leave `with opt.averaged():`, or call opt.train(), first"
            )

    def average_of(self, p: torch.Tensor) -> torch.Tensor:
        """Return the averaged value of a parameter: itself if it has not had a gradient yet."""
        owners = self._owners()
        if p not in owners:
            raise InputError(f"{self.NAME}: average_of needs a parameter of this optimizer")
        return self._average(p, owners[p])

    def _owners(self) -> dict[torch.Tensor, Group]:
        """Return every parameter that is averaged, with its group."""
        if not self.defaults["average"]:
            raise InputError(f"{self.NAME}: no average is kept with average=False")
        self._heed_changes()
        return {p: group for group in self.param_groups for p in group["params"]}

    @torch.no_grad()
    def _average(self, p: torch.Tensor, group: Group) -> torch.Tensor:
        """Return the average of a parameter; worked out one by one, so that no second model is needed for all."""
        x, state = (self._training_weights or {}).get(p, p.detach()), self.state.get(p, {})
        if "average" not in state:
            return x
        average: torch.Tensor = state["average"]
        return ahead.taken_back(average, x, group["ahead"]) if ahead.is_ahead(group) else average

    @torch.no_grad()
    def eval(self) -> None:
        """Put the averaged weights in place; again does nothing. `with opt.averaged():` cannot be forgotten."""
        if self._training_weights is not None:
            return
        owners = self._owners()
        self.__dict__["_kept"] = {p: p.detach().clone() for p in owners}
        for p, group in owners.items():
            self._overwrite(p, self._average(p, group))

    @torch.no_grad()
    def train(self) -> None:
        """Put the training weights back; again does nothing."""
        for p, x in (self._training_weights or {}).items():
            self._overwrite(p, x)
        self.__dict__["_kept"] = None

    def _overwrite(self, p: torch.Tensor, x: torch.Tensor) -> None:
        """Exchange a parameter's values, which counts as no change of them."""
        p.copy_(x)
        if id(p) in self._versions:
            self._versions[id(p)] = p._version

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Evaluate with the averaged weights: they are in place inside the block, x is back after it, come what may.

        Batch normalisation keeps statistics of x; `undrift.torch.update_bn` recomputes them inside the block.
        """
        if self._training_weights is not None:  # a block inside a block
            yield
            return
        try:
            self.eval()
            yield
        finally:
            self.train()

    def average_state_dict(self, model: torch.nn.Module) -> dict[str, Any]:
        """Return the state dict of the trained `model` with every trained parameter replaced by its average."""
        out, owners = dict(model.state_dict()), self._owners()
        for name, p in model.named_parameters(remove_duplicate=False):
            if name in out and p in owners:
                out[name] = self._average(p, owners[p]).to(p.dtype, copy=True)
        return out

    @torch.no_grad()
    def copy_average_to(self, model: torch.nn.Module, source: torch.nn.Module | None = None) -> None:
        """Write the averaged weights into another `model` of the same shape.

        With `source`, the model being trained, parameters are matched by name and buffers are copied too; without it,
        in the order in which the optimizer was given them.
        """
        trained = self._owners()
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
        for (p, group), q in zip(trained.items(), target, strict=True):
            q.copy_(self._average(p, group))
