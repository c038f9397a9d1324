"""hashing: salted hashes in place of identifiers."""

from __future__ import annotations

from shoal.columns.verdicts import HASHING
from shoal.compare.recipes.base import Base, Recipe, Setting


class Hashing(Recipe):
    """Identifiers become SHA-256 with a random salt that is forgotten."""

    name = "hashing"
    title = "salted hashes in place of identifiers"
    place = 2
    verdict = HASHING

    def settings(self, base: Base) -> list[Setting] | str:
        """Hash every identifier."""
        names = base.names("identifier")
        if not names:
            return "no attribute is an identifier, so there is nothing to hash"
        techniques = {name: {"hash": {"salt": "random"}} for name in names}
        return base.treated(f"{', '.join(names)} with a random salt", techniques)
