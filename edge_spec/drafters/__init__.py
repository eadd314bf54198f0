"""Drafters: one file each, and what they learn from and share."""

from edge_spec.drafters.cascade import Cascade
from edge_spec.drafters.draft_model import ModelDrafter, Window
from edge_spec.drafters.draw import DrawChoice
from edge_spec.drafters.ngram import NgramDrafter
from edge_spec.drafters.none import NoDrafter
from edge_spec.drafters.token_map import TokenMap

__all__ = [
    "Cascade",
    "DrawChoice",
    "ModelDrafter",
    "NgramDrafter",
    "NoDrafter",
    "TokenMap",
    "Window",
]
