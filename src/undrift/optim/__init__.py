"""The Adam half of the theory: updates from discounted FTRL, the four convergence theorems as advice, certificates."""

from __future__ import annotations

from undrift.optim.conditions import Verdict as Verdict
from undrift.optim.conditions import conditions as conditions
from undrift.optim.conditions import judge as judge
from undrift.optim.core import NORMS as NORMS
from undrift.optim.core import Tuning as Tuning
from undrift.optim.o2nc import Run as Run
from undrift.optim.o2nc import o2nc as o2nc
from undrift.optim.objectives import Objective as Objective
from undrift.optim.plan import Budget as Budget
from undrift.optim.plan import best_epsilon as best_epsilon
from undrift.optim.plan import budget as budget
from undrift.optim.plan import tune as tune
from undrift.optim.problem import Problem as Problem
from undrift.optim.problem import goldstein as goldstein
from undrift.optim.stationarity import LiveCertificate as LiveCertificate
from undrift.optim.stationarity import StationarityCertificate as StationarityCertificate
from undrift.optim.theorems import amplification as amplification
from undrift.optim.theorems import rho as rho
