"""Tokens of one run: nobody can compute them again."""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from shoal.columns.base import Technique, Treatment
from shoal.columns.domains import NumberDomain
from shoal.columns.tokens import LONGEST, SHORTEST, USUAL, TokenTreatment, keyed_tokens
from shoal.columns.verdicts import HASHING
from shoal.core.randomness import Chance
from shoal.sources.base import Source


class Token(Technique):
    """The same value gets the same random-looking token within one release, and nothing is kept to find it again.

    Tokens follow from a key of the run that is forgotten with it. Equal values stay equal: how often a value occurs
    can give it away.
    """

    name = "token"
    title = "tokens in place of values, new ones in every run"
    roles = ("identifier", "quasi", "insensitive")
    verdict = HASHING
    makes_tokens = True

    length: int = Field(default=USUAL, ge=SHORTEST, le=LONGEST, description="characters of a token")

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        """Draw the run's key."""
        rewrite = keyed_tokens(chance.keys(4).tobytes(), column, self.length)
        return TokenTreatment(column, pa.string(), self.public(), rewrite)
