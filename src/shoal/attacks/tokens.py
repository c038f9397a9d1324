"""Tokens of persons: which records of a release, or of two, they show to be about the same one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.attacks.people import People
from shoal.attacks.secrets import Secret
from shoal.attacks.view import Left, ReleaseView


def token_columns(view: ReleaseView) -> list[str]:
    """Return the published columns whose tokens stand for persons."""
    return [name for name, told in view.treatments.techniques.items() if told.get("of") == "identifier"]


def of_one_person(view: ReleaseView) -> int:
    """Return how many published records share a person's token with another record, so that they belong together."""
    return max([0, *(_repeated(view.rows.column(name)) for name in token_columns(view))])


def _repeated(column: pa.ChunkedArray) -> int:
    counts = column.drop_null().value_counts().field("counts").to_numpy()
    return int(counts[counts > 1].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """Records of two releases that have the same token, side by side: one view of all that both say of a person."""

    view: ReleaseView
    names: tuple[tuple[str, str], ...]  # of each attribute of the other release, what it is called here

    @classmethod
    def of(cls, view: ReleaseView, other: ReleaseView) -> Linked | None:
        """Link two releases that are rows, or return None if they have no tokens in common.

        A token that several records of the other release have is left out.
        """
        if any(one.sliced is not None or one.form.by_plan for one in (view, other)):
            return None
        rows, beside = _matched(view, other)
        if not len(rows):
            return None
        names = tuple((name, _unused(f"{name}, too", view)) for name in other.known)
        table, found = view.rows.take(pa.array(rows)), other.rows.take(pa.array(beside))
        attributes, techniques = dict(view.manifest["attributes"]), dict(view.treatments.techniques)
        for name, own in names:
            table = table.append_column(own, found.column(name))
            attributes[own] = other.manifest["attributes"][name]
            if name in other.treatments.techniques:
                techniques[own] = other.treatments.techniques[name]
        manifest = {**view.manifest, "attributes": attributes, "techniques": techniques}
        return cls(ReleaseView.of(table, manifest, view.policy, like=view), names)

    def left(self, secret: Secret, people: People) -> Left:
        """Return what the linked records leave for people; nothing for those whom none of them covers."""
        table = people.table
        for name, here in self.names:
            if name in table.column_names:
                table = table.append_column(here, table.column(name))
        known = self.view.people(table, "the people attacked", partly=True)
        linked = self.view.secrets[secret.name]
        left = self.view.left(linked, known)
        number = {value: place for place, value in enumerate(linked.values)}
        place = np.array([number.get(value, -1) for value in secret.values])
        weights = np.append(left.weights, np.zeros((len(left.weights), 1)), axis=1)[:, place]
        found = (left.far == 0) | self.view.may_miss
        return replace(left, weights=np.where(found[:, None], weights, 0.0))


def in_both(view: ReleaseView, other: ReleaseView) -> int:
    """Return how many records of a release have a token that stands once in another."""
    return len(_matched(view, other)[0])


def _matched(view: ReleaseView, other: ReleaseView) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of two releases that have the same token, by the pair of columns that has most of them."""
    best = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for one in token_columns(view):
        for two in token_columns(other):
            found = _same(view.rows.column(one), other.rows.column(two))
            best = found if len(found[0]) > len(best[0]) else best
    return best


def _same(one: pa.ChunkedArray, two: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    theirs = two.cast(pa.string()).combine_chunks().dictionary_encode()
    code = np.asarray(theirs.indices.fill_null(len(theirs.dictionary)), dtype=np.int64)
    once = np.bincount(code, minlength=len(theirs.dictionary) + 1)[:-1] == 1
    row = np.empty(len(theirs.dictionary) + 1, dtype=np.int64)
    row[code] = np.arange(len(code))
    place = np.asarray(pc.index_in(one.cast(pa.string()), theirs.dictionary).combine_chunks().fill_null(-1), np.int64)
    rows = np.flatnonzero((place >= 0) & np.append(once, False)[place])
    return rows, row[place[rows]]


def _unused(name: str, view: ReleaseView) -> str:
    while name in view.manifest["attributes"]:
        name += "'"
    return name
