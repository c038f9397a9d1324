"""What the Article 29 Working Party's opinion says of a technique."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Remains = Literal["yes", "may not", "no"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether each of the three risks remains, in the words of Opinion 05/2014, table 6."""

    technique: str  # as the opinion calls it
    singling_out: Remains
    linkability: Remains
    inference: Remains


PSEUDONYMISATION = Verdict("pseudonymisation", "yes", "yes", "yes")
NOISE_ADDITION = Verdict("noise addition", "yes", "may not", "may not")
SUBSTITUTION = Verdict("substitution", "yes", "yes", "may not")
AGGREGATION = Verdict("aggregation or k-anonymity", "no", "yes", "yes")
L_DIVERSITY = Verdict("l-diversity", "no", "yes", "may not")
DIFFERENTIAL_PRIVACY = Verdict("differential privacy", "may not", "may not", "may not")
HASHING = Verdict("hashing or tokenization", "yes", "yes", "may not")
