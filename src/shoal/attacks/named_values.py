"""named-values: a label that lists the occurring values reveals that the only holder of a value is in the data."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.attacks.base import FEWEST, Attack, People, Tally, Trials
from shoal.attacks.view import ReleaseView, encode_together
from shoal.core.arrays import BoolArray
from shoal.core.errors import UsageError

NO_HOLDERS = "no label lists a value that only one person has"


class NamedValuesAttack(Attack):
    """Calls people members if a public label lists a value that only they have and that no published row shows.

    The attack asks about people of the source and of the control group who are the only ones with some value, in either
    table, that no row shows. Labels that list the policy's values name people of both groups alike; labels that list
    the occurring values name people of the source only.
    """

    name = "named-values"
    title = "who is in the data because a label lists their value"
    question = "singling out"
    bears_on = "membership"

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: at least one label must list several values."""
        return None if any(_list_named(view, name) for name in view.manifest.attributes) else NO_HOLDERS

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:  # noqa: ARG002
        """Look up the only holders of values in both groups."""
        if control is None:
            raise UsageError("presence can only be tested against people who are not in the data: give a control table")
        n, tables = len(targets), (targets.table, control.table)
        asked, named = (np.zeros(n + len(control), dtype=np.bool_) for _ in range(2))
        for name in view.manifest.attributes:
            listed = _list_named(view, name)
            if listed and all(name in table.column_names for table in tables):
                own, known = _find_holders(view, name, listed, tables)
                asked |= own
                named |= own & known
        if min(np.count_nonzero(asked[:n]), np.count_nonzero(asked[n:])) < FEWEST:
            raise UsageError(NO_HOLDERS)
        inside, outside = Tally.of(named[:n][asked[:n]]), Tally.of(named[n:][asked[n:]])
        return Trials(self.name, inside, outside, decides=True)


def _list_shown(view: ReleaseView, name: str) -> set[str]:
    """Return the values of a column that a published row shows by themselves."""
    texts, labels = view.rows.column(name).unique().to_pylist(), view.manifest.attributes[name].covers
    return {value for text in texts if len(values := labels.get(text, {}).get("values", ())) == 1 for value in values}


def _list_named(view: ReleaseView, name: str) -> list[str]:
    """Return the values that labels of a column list together with others and that no row shows."""
    covers = view.manifest.attributes[name].covers.values()
    listed = {value for cover in covers if len(cover.get("values", ())) > 1 for value in cover["values"]}
    return sorted(listed - _list_shown(view, name)) if name in view.rows.column_names else []


def _find_holders(
    view: ReleaseView, name: str, listed: list[str], tables: tuple[pa.Table, pa.Table]
) -> tuple[BoolArray, BoolArray]:
    """Return (n,) who is the only holder, in both tables, of a value that no row shows, and whose value is listed."""
    columns = [table.column(name) for table in tables]
    codes = encode_together(columns)
    texts = pa.chunked_array([chunk for column in columns for chunk in column.cast(pa.string()).chunks], pa.string())
    shown = pc.is_in(texts, pa.array(sorted(_list_shown(view, name)), pa.string())).to_numpy()
    known = pc.is_in(texts, pa.array(listed, pa.string())).to_numpy()
    return (np.bincount(codes)[codes] == 1) & ~shown & texts.is_valid().to_numpy(), known
