"""Finishing: what is done with a run that is in its folder: reading, certifying, comparing, predicting."""
