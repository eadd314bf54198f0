"""The fastest way to decode a model plainly on this machine: tried once, remembered, used from then on."""

from edge_spec.tuning.kept import Tuned, keep, kept_models, recall
from edge_spec.tuning.search import Tried, tune

__all__ = ["Tried", "Tuned", "keep", "kept_models", "recall", "tune"]
