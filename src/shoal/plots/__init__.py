"""Plots as SVG, each with its description in words and the table that it was drawn from."""

from __future__ import annotations

from shoal.plots.associations import associations
from shoal.plots.attribute_loss import attribute_loss
from shoal.plots.class_sizes import class_sizes
from shoal.plots.evidence import release_plots
from shoal.plots.frontier import Point, frontier
from shoal.plots.histogram import histogram
from shoal.plots.intervals import Interval, intervals
from shoal.plots.plot import Plot
from shoal.plots.risks import risks
from shoal.plots.sensitive_shares import sensitive_shares

__all__ = [
    "Interval",
    "Plot",
    "Point",
    "associations",
    "attribute_loss",
    "class_sizes",
    "frontier",
    "histogram",
    "intervals",
    "release_plots",
    "risks",
    "sensitive_shares",
]
