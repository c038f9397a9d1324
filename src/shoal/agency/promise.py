"""What a plan promises about every class of every release that is made by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.core.errors import UsageError

L_DIVERSITY = "l-delta-diversity"
K_ANONYMITY = "k-delta-anonymity"
ENTROPY = "entropy-l-delta-diversity"
PARAMETERS = {L_DIVERSITY: "l", K_ANONYMITY: "k", ENTROPY: "l"}
_WHOLE = (L_DIVERSITY, K_ANONYMITY)


@dataclass(frozen=True, slots=True)
class Promise:
    """Every class has at least this many values, records, or this exponential of its entropy.

    >>> Promise("k-delta-anonymity", 5).parameter
    'k'
    """

    model: str
    least: int | float

    def __post_init__(self) -> None:
        """Refuse models that are not known and numbers that promise nothing."""
        if self.model not in PARAMETERS:
            raise UsageError(f"unknown promise {self.model!r}; known are {', '.join(PARAMETERS)}")
        name = self.parameter
        whole = type(self.least) is int
        if self.model in _WHOLE and not whole:
            raise UsageError(f"{name} of {self.model} must be a whole number, got {self.least!r}")
        if not (whole or (type(self.least) is float and math.isfinite(self.least))):
            raise UsageError(f"{name} of {self.model} must be a number, got {self.least!r}")
        if self.least < 1:
            raise UsageError(f"{name} must be at least 1, got {self.least:g}")

    @property
    def parameter(self) -> str:
        """The name of the number: l or k."""
        return PARAMETERS[self.model]

    def document(self) -> dict[str, Any]:
        """Return it as it stands in a plan file."""
        return {"model": self.model, self.parameter: self.least}


def parse_promise(document: Mapping[str, Any]) -> Promise:
    """Read a promise of a plan file; anything but a model and its number is a ``ValueError``."""
    model = document["model"]
    if not isinstance(model, str) or set(document) != {"model", PARAMETERS.get(model)}:
        raise ValueError("no promise")
    try:
        return Promise(model, document[PARAMETERS[model]])
    except UsageError as error:
        raise ValueError(str(error)) from None
