"""sampling: a random share of the records."""

from __future__ import annotations

from shoal.compare.recipes.base import Base, Recipe, Setting

SHARE = 0.1


class SampledRecords(Recipe):
    """Each record is published, as it is, with a probability of a tenth."""

    name = "sampling"
    title = "a random tenth of the records, as they are"
    place = 8

    def settings(self, base: Base) -> list[Setting] | str:
        """Take the sample."""
        return [Setting(f"{SHARE:.0%} of the records", base.document({"plain": {}}, sample={"share": SHARE}))]
