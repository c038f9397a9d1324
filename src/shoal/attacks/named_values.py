"""named-values: a label that lists the occurring values reveals that the only holder of a value is in the data."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.attacks.base import FEWEST, Attack, People, Tally, Trials
from shoal.attacks.parts import encode_together
from shoal.attacks.view import ReleaseView
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
        return None if any(_list_values(view, name)[1] for name in view.manifest.attributes) else NO_HOLDERS

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:  # noqa: ARG002
        """Look up the only holders of values in both groups."""
        if control is None:
            raise UsageError("presence can only be tested against people who are not in the data: give a control table")
        n, tables = len(targets), (targets.table, control.table)
        asked, named = (np.zeros(n + len(control), dtype=np.bool_) for _ in range(2))
        for name in view.manifest.attributes:
            shown, listed = _list_values(view, name)
            if listed and all(name in table.column_names for table in tables):
                columns = [table.column(name) for table in tables]
                chunks = [chunk for column in columns for chunk in column.cast(pa.string()).chunks]
                texts, codes = pa.chunked_array(chunks, pa.string()), encode_together(columns)
                is_shown, is_listed = (
                    pc.is_in(texts, pa.array(each, pa.string())).to_numpy() for each in (shown, listed)
                )
                only_holder = (np.bincount(codes)[codes] == 1) & ~is_shown & texts.is_valid().to_numpy()
                asked |= only_holder
                named |= only_holder & is_listed
        if min(np.count_nonzero(asked[:n]), np.count_nonzero(asked[n:])) < FEWEST:
            raise UsageError(NO_HOLDERS)
        inside, outside = Tally.of(named[:n][asked[:n]]), Tally.of(named[n:][asked[n:]])
        return Trials(self.name, inside, outside, decides=True)


def _list_values(view: ReleaseView, name: str) -> tuple[list[str], list[str]]:
    """Return the values of a column that a published row shows, and the others that labels list with several values."""
    covers = view.manifest.attributes[name].covers
    if name not in view.rows.column_names:
        return [], []
    texts = view.rows.column(name).unique().to_pylist()
    listed = {label: cover.get("values", ()) for label, cover in covers.items()}
    shown = {value for text in texts if len(listed.get(text, ())) == 1 for value in listed[text]}
    named = {value for values in listed.values() if len(values) > 1 for value in values}
    return sorted(shown), sorted(named - shown)
