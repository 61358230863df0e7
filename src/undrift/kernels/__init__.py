"""Loops over plain arrays: compiled, each with a NumPy twin of the same name and signature in `tests/twins`.

The best instruction set of the machine is chosen at import; see `dispatch` for the levels and how to use another.
`threads` of a call shares the learners out; the results are the same bits for any number of threads, any cut of the
rounds and any layout of the state, within a level.
"""

from __future__ import annotations

from undrift.kernels._native import EnsembleKernel as EnsembleKernel
from undrift.kernels._native import Estimator as Estimator
from undrift.kernels._native import EstimatorRow as EstimatorRow
from undrift.kernels._native import ForestRow as ForestRow
from undrift.kernels._native import Lock as Lock
from undrift.kernels._native import Shared as Shared
from undrift.kernels._native import TreeBuilder as TreeBuilder
from undrift.kernels._native import adam_apply as adam_apply
from undrift.kernels._native import adam_measure as adam_measure
from undrift.kernels._native import aioli_play as aioli_play
from undrift.kernels._native import aioli_predict as aioli_predict
from undrift.kernels._native import class_level_play as class_level_play
from undrift.kernels._native import class_level_predict as class_level_predict
from undrift.kernels._native import class_level_settle as class_level_settle
from undrift.kernels._native import drift_errors as drift_errors
from undrift.kernels._native import drift_play as drift_play
from undrift.kernels._native import drift_predict as drift_predict
from undrift.kernels._native import drift_residuals as drift_residuals
from undrift.kernels._native import fill_rows as fill_rows
from undrift.kernels._native import given_learn as given_learn
from undrift.kernels._native import given_play as given_play
from undrift.kernels._native import given_predict as given_predict
from undrift.kernels._native import hinted_predictions as hinted_predictions
from undrift.kernels._native import mean_play as mean_play
from undrift.kernels._native import mix_logistic as mix_logistic
from undrift.kernels._native import mix_logistic_predict as mix_logistic_predict
from undrift.kernels._native import mix_squared as mix_squared
from undrift.kernels._native import mix_squared_predict as mix_squared_predict
from undrift.kernels._native import o2nc_gradient as o2nc_gradient
from undrift.kernels._native import o2nc_play as o2nc_play
from undrift.kernels._native import scale_rows as scale_rows
from undrift.kernels._native import settle_tree_label as settle_tree_label
from undrift.kernels._native import smoothers_play as smoothers_play
from undrift.kernels._native import smoothers_size as smoothers_size
from undrift.kernels._native import softmax_play as softmax_play
from undrift.kernels._native import softmax_predict as softmax_predict
from undrift.kernels._native import steps_judge as steps_judge
from undrift.kernels._native import steps_mix as steps_mix
from undrift.kernels._native import tree_rows as tree_rows
from undrift.kernels._native import trees_predict as trees_predict
from undrift.kernels._native import vaw_outputs_play as vaw_outputs_play
from undrift.kernels._native import vaw_outputs_predict as vaw_outputs_predict
from undrift.kernels._native import vaw_play as vaw_play
from undrift.kernels._native import vaw_predict as vaw_predict
from undrift.kernels._native import watch_features as watch_features
from undrift.kernels._native import waves as waves
from undrift.kernels.dispatch import level as level
from undrift.kernels.dispatch import levels as levels
from undrift.kernels.dispatch import set_level as set_level
from undrift.kernels.dispatch import use_level as use_level
