"""pseudonymisation: tokens of a key in place of identifiers."""

from __future__ import annotations

from shoal.columns.verdicts import PSEUDONYMISATION
from shoal.compare.recipes.base import Base, Recipe, Setting


class Pseudonymisation(Recipe):
    """Identifiers become tokens of a key that is made for the comparison and removed with it."""

    name = "pseudonymisation"
    title = "keyed tokens in place of identifiers"
    place = 1
    verdict = PSEUDONYMISATION

    def settings(self, base: Base) -> list[Setting] | str:
        """Give every identifier pseudonyms."""
        names = base.names("identifier")
        if not names:
            return "no attribute is an identifier, so there is nothing to put pseudonyms for"
        techniques = {name: {"pseudonym": {"key": str(base.key.absolute())}} for name in names}
        return base.treated(f"{', '.join(names)} under a key", techniques)
