"""The form of the rows: as many as declared, under declared labels, and no value in a file that no row has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.verify.manifest import Manifest
from shoal.verify.reading import PublishedRows
from shoal.verify.result import Check


def check_rows(n_rows: int, manifest: Manifest) -> Check:
    """There are rows, as many as the manifest says."""
    if not n_rows:
        return Check("rows", False, "the release is empty")
    same = n_rows == manifest.rows
    return Check("rows", same, f"{n_rows} rows" + ("" if same else f", the manifest says {manifest.rows}"))


def check_dictionaries(rows: PublishedRows) -> list[Check]:
    """Return the failed check of a file that holds values beside its rows, once all of it was read; else nothing."""
    unused = rows.unused_entries()
    if not unused:
        return []
    return [Check("dictionaries", False, f"the dictionaries of {', '.join(unused)} hold values that no row has")]


def check_labels(unknown: Sequence[str], idle: Mapping[str, int]) -> Check:
    """No attribute is *unknown* for texts that are no labels, and none is *idle*, with labels that no row has."""
    if unknown:
        return Check("labels", False, f"texts in {', '.join(unknown)} are no labels of the manifest")
    if idle:
        listed = ", ".join(f"{name} ({number})" for name, number in idle.items())
        return Check("labels", False, f"the manifest lists labels that no row has: {listed}")
    return Check("labels", True, "every label is declared, and every declared label occurs")
