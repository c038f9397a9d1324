"""The cost model: seconds of each step as a sum of terms that the algorithms have, fitted to runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, TypeAlias

import numpy as np

STEPS = ("rest", "count", "plan", "apply", "verify")
IN_MEMORY, BY_REGIONS = "in memory", "by regions"
SEARCHED = 300  # cells below which Mondrian tries all cuts of a box
BATCH = 1 << 20  # rows that a thread reads, codes and writes at a time: up to here a second core has nothing to do
_NOISE = 0.1  # seconds: differences below count for nothing


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the cost of a run depends on."""

    rows: float
    cells: float
    classes: float
    quasi: int
    columns: int

    @classmethod
    def of(cls, point: Mapping[str, Any]) -> Sizes:
        """Return those of a measured point."""
        return cls(point["rows"], point["cells"], point["classes"], point["quasi"], point["columns"])


TERMS: dict[str, Callable[[Sizes], float]] = {
    "once": lambda _: 1.0,
    "per row": lambda n: n.rows,
    "per value (row x column)": lambda n: n.rows * n.columns,
    "per value of the first batch": lambda n: min(n.rows, BATCH) * n.columns,
    "per cell": lambda n: n.cells,
    "per cell x log2(cells)": lambda n: n.cells * log2(max(n.cells, 2)),
    "per row x log2(cells)": lambda n: n.rows * log2(max(n.cells, 2)),
    "per cell x quasi^2": lambda n: n.cells * n.quasi**2,
    "per cell x quasi x log2(cells / 300)": lambda n: n.cells * n.quasi * log2(max(n.cells / SEARCHED, 1)),
    "per class": lambda n: n.classes,
}
MODEL: dict[str, dict[str, tuple[str, ...]]] = {
    IN_MEMORY: {
        "rest": ("once", "per row", "per cell", "per class"),
        "count": ("once", "per value (row x column)", "per value of the first batch", "per cell x log2(cells)"),
        "plan": ("once", "per cell", "per cell x quasi^2", "per cell x quasi x log2(cells / 300)"),
        "apply": ("once", "per value (row x column)", "per value of the first batch", "per cell x log2(cells)"),
        "verify": (
            "once",
            "per value (row x column)",
            "per value of the first batch",
            "per cell x log2(cells)",
            "per class",
        ),
    },
    BY_REGIONS: dict.fromkeys(STEPS, ("once", "per row")),
}

# kind: step: term: seconds for each
Coefficients: TypeAlias = dict[str, dict[str, dict[str, float]]]


def kind_of(point: Mapping[str, Any]) -> str:
    """Whether a run held all cells in memory."""
    return BY_REGIONS if point["regions"] else IN_MEMORY


def fitted(points: Sequence[Mapping[str, Any]]) -> Coefficients:
    """Fit the model to the points that are there for it, by least squares of relative errors; nothing is negative."""
    used = [point for point in points if point["use"] == "fit"]
    return {
        kind: {step: _fit([p for p in used if kind_of(p) == kind], step, terms) for step, terms in steps.items()}
        for kind, steps in MODEL.items()
    }


def _fit(points: Sequence[Mapping[str, Any]], step: str, terms: Sequence[str]) -> dict[str, float]:
    from scipy.optimize import nnls

    seconds = np.array([point["seconds"][step] for point in points])
    design = np.array([[TERMS[term](Sizes.of(point)) for term in terms] for point in points])
    weights = 1 / (seconds + _NOISE)
    units = np.abs(design).max(axis=0)  # so that all columns have the same size
    found, _ = nnls(design / units * weights[:, np.newaxis], seconds * weights)
    return {term: float(value) for term, value in zip(terms, found / units, strict=True)}


def predicted(coefficients: Coefficients, kind: str, sizes: Sizes) -> dict[str, float]:
    """Return the seconds of each step that the model expects.

    >>> one = {"in memory": {"count": {"once": 0.5, "per row": 2e-6}}}
    >>> predicted(one, "in memory", Sizes(1e6, 1e6, 1e5, 6, 8))
    {'count': 2.5}
    """
    return {
        step: sum(value * TERMS[term](sizes) for term, value in terms.items())
        for step, terms in coefficients[kind].items()
    }


def predicted_whole(coefficients: Coefficients, point: Mapping[str, Any]) -> float:
    """Return the seconds of the whole command that the model expects for a point."""
    return sum(predicted(coefficients, kind_of(point), Sizes.of(point)).values())


def error(coefficients: Coefficients, point: Mapping[str, Any]) -> float:
    """Return by which share of the measured seconds the model is off, above 0 if it expects more."""
    return predicted_whole(coefficients, point) / float(point["whole"]) - 1
