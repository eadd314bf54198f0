"""Planners: how many rows a round may use, by a fixed length or by what was measured here."""

from edge_spec.planner.base import Planner
from edge_spec.planner.fixed import FixedPlanner

__all__ = ["FixedPlanner", "Planner"]
