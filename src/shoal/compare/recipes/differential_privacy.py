"""differential-privacy: rows drawn from noisy counts."""

from __future__ import annotations

from shoal.columns.verdicts import DIFFERENTIAL_PRIVACY
from shoal.compare.recipes.base import Base, Recipe, Setting

EPSILONS = (1, 10)


class SyntheticRows(Recipe):
    """Nobody's record is published: rows are drawn from counts with noise. Insensitive attributes are left out."""

    name = "differential-privacy"
    title = "synthetic rows of noisy counts"
    place = 16
    verdict = DIFFERENTIAL_PRIVACY

    def settings(self, base: Base) -> list[Setting] | str:
        """Spend a little, and much."""
        free = [name for name in base.names("quasi", "sensitive") if base.policy.attributes[name].taxonomy is None]
        if free:
            return f"the values of {', '.join(free)} are not declared; give them a taxonomy, such as a list of values"
        settings = []
        for epsilon in EPSILONS:
            document = base.document({"synthetic": {"epsilon": epsilon}})
            for name in base.names("insensitive"):
                document["attributes"][name] = {"role": "identifier"}
            settings.append(Setting(f"epsilon = {epsilon}", document))
        return settings
