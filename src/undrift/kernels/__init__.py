"""Loops over plain arrays: compiled, with a NumPy twin of the same name and signature in `reference`."""

from __future__ import annotations

from undrift.kernels._native import mean_play as mean_play
from undrift.kernels._native import o2nc_gradient as o2nc_gradient
from undrift.kernels._native import o2nc_play as o2nc_play
from undrift.kernels.reference import aioli_play as aioli_play
from undrift.kernels.reference import aioli_predict as aioli_predict
from undrift.kernels.reference import vaw_play as vaw_play
from undrift.kernels.reference import vaw_predict as vaw_predict

LEVEL = "portable"
"""Instruction set the compiled kernels use on this machine; results are the same bits within a level."""
