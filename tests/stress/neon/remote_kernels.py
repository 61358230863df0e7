"""A pytest plugin: the kernels of another processor, run by an emulator, in place of the compiled ones.

UNDRIFT_SERVER is the command that runs kernel_server.cpp. Each function has the name and the arguments of the compiled
one, sends its arrays to the server and puts what comes back into them; shapes are not checked.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import struct
import subprocess

import numpy as np
import pytest

from tests.twins import ensemble as reference_ensemble
from undrift.kernels import layout

LEVELS = ["neon", "portable"]
CHOOSE, PLAY, MIX, ROUND, ODDS, ADAM = range(6)
NONE = np.empty(0)
PIECES = {"measure": 65536, "apply": 16384}
"""Numbers the compiled Adam kernels take at a time: the sums are added up by piece."""


class Server:
    """The emulated process, and the level it uses."""

    def __init__(self, command: str) -> None:
        self.process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.level = ""
        assert self.choose(LEVELS[0])

    def call(self, numbers, arrays) -> int:
        data = [array.tobytes() for array in arrays]
        head = [len(numbers), *map(int, numbers), len(data), *map(len, data)]
        self.process.stdin.write(b"".join([struct.pack(f"<{len(head)}q", *head), *data]))
        self.process.stdin.flush()
        size = 8 + sum(map(len, data))
        back = self.process.stdout.read(size)
        if len(back) != size:
            raise RuntimeError(f"the kernel server ended with code {self.process.wait()}")
        at = 8
        for array, sent in zip(arrays, data, strict=True):
            if array.flags.writeable and array.size:
                array[...] = np.frombuffer(back, array.dtype, array.size, at).reshape(array.shape)
            at += len(sent)
        return struct.unpack_from("<q", back)[0]

    def choose(self, name: str) -> bool:
        found = bool(self.call([CHOOSE], [np.frombuffer(name.encode(), np.uint8)]))
        self.level = name if found else self.level
        return found


def played(server, what, state, beta, inverse_curvature, first, Z, y, one, two, threads):
    numbers = [PLAY, what, state.shape[2], len(beta), Z.shape[1], first, len(Z), threads]
    return server.call(numbers, [state, beta, inverse_curvature, Z, y, one, two])


def functions(server: Server) -> dict[str, object]:
    """Return the kernels that depend on a level, by name."""

    def vaw_play(state, beta, first, Z, y, m, h, threads=1):
        return played(server, 0, state, beta, NONE, first, Z, y, m, h, threads)

    def vaw_predict(state, beta, first, Z, m, h, threads=1):
        return played(server, 1, state, beta, NONE, first, Z, NONE, m, h, threads)

    def aioli_play(state, beta, inverse_curvature, first, Z, y, yhat, stability, threads=1):
        return played(server, 2, state, beta, inverse_curvature, first, Z, y, yhat, stability, threads)

    def aioli_predict(state, beta, first, Z, yhat, threads=1):
        return played(server, 3, state, beta, NONE, first, Z, NONE, yhat, NONE, threads)

    def mix(binary, mixer, rule, E, y, yhat, weights):
        server.call([MIX, binary, E.shape[1], len(E), rule], [*mixer, E, y, yhat, weights])

    def mix_logistic(log_weights, log_prior, share, E, y, yhat, losses, weights):
        mixer = log_weights, log_prior, np.array([share, 0.0]), NONE, losses, NONE
        mix(1, mixer, 0, E, y, yhat, weights)

    def mix_squared(log_weights, log_prior, share, state, rule, scale, E, y, yhat, losses, clipped_losses, weights):
        mixer = log_weights, log_prior, np.array([share, scale]), state, losses, clipped_losses
        mix(0, mixer, rule, E, y, yhat, weights)

    def mix_logistic_predict(log_weights, E, yhat):
        mix(1, (log_weights, NONE, np.zeros(2), NONE, NONE, NONE), 0, E, NONE, yhat, NONE)

    def mix_squared_predict(log_weights, state, rule, E, yhat):
        mix(0, (log_weights, NONE, np.zeros(2), state, NONE, NONE), rule, E, NONE, yhat, NONE)

    def log_odds(m0, kappa, m):
        server.call([ODDS], [m0, kappa, m])

    def adam(what, kind, tensors, size, rows, which, with_m, out):
        wide = 8 if kind == 1 else 4
        widths = [2 if kind == 2 else wide] * 2 + [wide] * 3
        out[...] = 0.0
        for i, count in enumerate(size):
            for at in range(0, int(count), PIECES[what]):
                n, sums = min(PIECES[what], int(count) - at), np.zeros(out.shape[1])
                arrays = [
                    np.frombuffer((ctypes.c_char * (width * n)).from_address(int(one[i]) + width * at), np.uint8)
                    if one[i]
                    else NONE
                    for one, width in zip(tensors, widths, strict=True)
                ]
                server.call([ADAM, what == "apply", kind, with_m, n], [rows[which[i]], *arrays, sums])
                out[i] += sums

    def adam_measure(kind, p, g, m, size, rows, which, with_m, threads, out):
        absent = np.zeros_like(p)
        adam("measure", kind, [p, g, m, absent, absent], size, rows, which, with_m, out)

    def adam_apply(kind, p, g, m, v, average, size, rows, which, threads, out):
        adam("apply", kind, [p, g, m, v, average], size, rows, which, True, out)

    class EnsembleKernel(reference_ensemble.EnsembleKernel):
        """Whole rounds; what is set up and read here is what the twin has."""

        def _call(self, what, first, Z, y, yhat, weights=NONE, keys=(NONE, NONE, NONE)):
            mixer = self.mixer or (NONE, NONE, 0.0, NONE, 0, 0.0, NONE, NONE)
            log_weights, log_prior, share, state, rule, scale, losses, clipped_losses = mixer
            numbers = [ROUND, what, self.binary, self.state.shape[2], len(self.beta), self._dim(), first, len(Z)]
            numbers += [len(self.leader), rule, self.mixer is not None]
            arrays = [self.state, self.beta, self.inverse_curvature, self.leader, self.hint, self.last_label]
            arrays += [
                self.stability,
                log_weights,
                log_prior,
                np.array([share, scale]),
                state,
                losses,
                clipped_losses,
                Z,
                y,
                yhat,
                weights,
                *keys,
            ]
            return server.call(numbers, arrays)

        def _dim(self):
            dim = 0
            while layout.length(dim) < self.state.shape[1]:
                dim += 1
            return dim

        def play(self, first, Z, y, yhat, weights):
            return self._call(0, first, Z, y, yhat, weights)

        def predict_rows(self, first, Z, yhat):
            return self._call(1, first, Z, NONE, yhat)

        def learn(self, model, z, y):
            if not self._usable(z) or type(y) is not float:
                return False
            if self.play(model.rounds, z[None], np.array([y]), np.empty(1), NONE):
                return False
            model.rounds += 1
            return True

        def predict(self, model, z):
            yhat = np.empty(1)
            return None if not self._usable(z) or self.predict_rows(model.rounds, z[None], yhat) else float(yhat[0])

        def _usable(self, z):
            return type(z) is np.ndarray and z.dtype == np.float64 and z.shape == (self._dim(),)

        def slot_size(self):
            return self._call(3, 0, NONE, NONE, NONE)

        def slot_shape(self):
            lanes = 1 if self.state.shape[2] == 1 else self._call(4, 0, NONE, NONE, NONE)
            return -(-len(self.beta) // lanes), self.state.shape[1], lanes

        def play_keys(self, states, rounds, slots, Z, y, yhat, threads=1):
            return self._call(2, 0, Z, y, yhat, keys=(states, rounds, slots))

    found = {name: one for name, one in locals().items() if callable(one) and name not in ("server", "mix", "adam")}
    return found | {"levels": lambda: LEVELS, "level": lambda: server.level, "choose": server.choose}


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Replace the kernels before any test module, or the fixture of levels, is imported."""
    from undrift import kernels
    from undrift.kernels import _native

    for name, function in functions(Server(os.environ["UNDRIFT_SERVER"])).items():
        setattr(_native, name, function)
        if name in ("levels", "level", "choose", "log_odds"):
            continue  # those of the package ask the module
        assert hasattr(kernels, name)
        setattr(kernels, name, function)
