"""The lemmas behind the Adam theorems as functions that return both sides, for tests and for readers.

Everything is in present-day units: a step size here is the paper's $\\eta_t\\beta^{-t}$, a sum of gradients is
$S_t = \\sum_s \\beta^{t-s}g_s$. Where the printed form is false, `printed=True` returns it all the same.
"""

from __future__ import annotations

from undrift.optim.lemmas.conversion import exponential_scaling as exponential_scaling
from undrift.optim.lemmas.conversion import o2nc_conversion as o2nc_conversion
from undrift.optim.lemmas.conversion import second_order_smooth as second_order_smooth
from undrift.optim.lemmas.conversion import smooth as smooth
from undrift.optim.lemmas.decomposition import composite_decomposition as composite_decomposition
from undrift.optim.lemmas.decomposition import decomposition as decomposition
from undrift.optim.lemmas.ftrl import clip_free_closed_form as clip_free_closed_form
from undrift.optim.lemmas.ftrl import ftrl_identity as ftrl_identity
from undrift.optim.lemmas.ftrl import optimistic_identity as optimistic_identity
from undrift.optim.lemmas.ftrl import stability as stability
from undrift.optim.lemmas.sums import LemmaSides as LemmaSides
from undrift.optim.lemmas.sums import ema_self_confident as ema_self_confident
from undrift.optim.lemmas.sums import self_confident as self_confident
from undrift.optim.lemmas.sums import self_confident_integral as self_confident_integral
from undrift.optim.lemmas.sums import step_change as step_change
from undrift.optim.lemmas.sums import step_growth as step_growth
from undrift.optim.lemmas.sums import step_sum as step_sum
