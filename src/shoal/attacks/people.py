"""People as an adversary knows them, in the codes of a release, and the answers that its guesses are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.attacks.base import FEWEST
from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray
from shoal.core.errors import InputError, UsageError
from shoal.taxonomies.parse import days, decimal_numbers

if TYPE_CHECKING:
    from shoal.attacks.view import ReleaseView

UNKNOWN = -1  # code of an attribute that an adversary does not know of a person


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Rows of a table about people: what is known of them, and what is to be found out."""

    codes: CodeArray  # (n, n_known) of the quasi attributes, in the view's codes, or UNKNOWN
    numbers: FloatArray  # (n, n_known) as numbers, days since 1970 for dates; NaN for categories and missing ones
    secrets: Mapping[str, CodeArray]  # sensitive attribute -> (n,) place among the view's values; -1: not published
    table: pa.Table  # the rows as they are
    person: CodeArray  # (n,) whose row it is; those of a person are side by side, unless rows were drawn

    @property
    def n_people(self) -> int:
        """Number of different people."""
        return len(np.unique(self.person))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: AnyIntArray) -> People:
        return People(
            self.codes[rows],
            self.numbers[rows],
            {name: values[rows] for name, values in self.secrets.items()},
            self.table.take(pa.array(rows)),
            self.person[rows],
        )

    def drawn(self, n: int, rng: np.random.Generator) -> People:
        """Return a record of n of them, or of all if there are fewer; nobody twice."""
        order = rng.permutation(len(self))
        _, first = np.unique(self.person[order], return_index=True)
        if len(first) < FEWEST:
            raise UsageError(f"fewer than {FEWEST} people tell nothing; give larger tables")
        return self[order[np.sort(first)][:n]]


def coded_people(
    view: ReleaseView, table: pa.Table, told: str, *, partly: bool, person: CodeArray | None = None
) -> People:
    """Return people in the codes of a release; see ``ReleaseView.people``. Without *person* each has one row.

    Where a technique changes a value in a way that everybody can follow, the codes are those of the changed value.
    """
    if not table.num_rows:
        raise InputError(f"{told} is empty")
    codes = np.empty((table.num_rows, len(view.known)), dtype=np.int32)
    numbers = np.full(codes.shape, np.nan)
    for place, name in enumerate(view.known):
        if name not in table.column_names:
            if partly or name in view.treatments.named:
                codes[:, place] = UNKNOWN
                continue
            raise InputError(f"{told} has no column {name!r}, which the release knows as quasi-identifying")
        whole = table.column(name).combine_chunks()
        if not pa.types.is_dictionary(whole.type):
            whole = whole.dictionary_encode()
        index = np.asarray(whole.indices.cast(pa.int32()).fill_null(len(whole.dictionary)))
        missing = np.int32(view.space.covers[place].missing)
        values = view.treatments.applied(name, whole.dictionary, _published(view, place))
        codes[:, place] = np.append(view.space.codes(place, values), missing)[index]
        numbers[:, place] = np.append(_numbers(view, place, values), np.nan)[index]
    secrets = {
        name: secret.codes(table.column(name)) for name, secret in view.secrets.items() if name in table.column_names
    }
    own = np.arange(table.num_rows, dtype=np.int32) if person is None else person
    return People(codes, numbers, secrets, table, own)


def _published(view: ReleaseView, place: int) -> tuple[float, float] | None:
    """Return the least and the greatest number of an attribute whose values are published, or None."""
    own = view.labels[place].spans[:, 0]
    if "labels" in view.manifest["attributes"][view.known[place]] or not np.isfinite(own).any():
        return None
    return float(np.nanmin(own)), float(np.nanmax(own))


def _numbers(view: ReleaseView, place: int, values: pa.Array) -> FloatArray:
    attribute = view.space.covers[place].attribute
    if attribute.kind not in ("number", "date"):
        return np.full(len(values), np.nan)
    read = decimal_numbers(values) if attribute.kind == "number" else days(values, attribute.format)
    return np.where(read[1], read[0], np.nan)
