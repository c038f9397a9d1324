"""Trees from files that somebody brings, and trees as files to take away."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.core.errors import TaxonomyError
from shoal.studio.taxonomies.entries import EntryError
from shoal.studio.taxonomies.groves import Grove
from shoal.studio.taxonomies.starts import MOST_IN_POLICY
from shoal.taxonomies.builders.listed import READERS
from shoal.taxonomies.files import to_arx_csv, to_nested_yaml
from shoal.taxonomies.tree import Taxonomy

LARGEST = 32 * 2**20  # bytes of a file
MOST_EXPORTED = 200_000  # leaves
EXPORTS: dict[str, Callable[[Taxonomy, Path], None]] = {"csv": to_arx_csv, "yaml": to_nested_yaml}


def imported(name: str, content: bytes) -> Taxonomy:
    """Read a tree from a file's bytes, by the ending of its name; a broken file is refused with the line."""
    ending = Path(name).suffix.lower()
    if ending not in READERS:
        known = ", ".join(READERS)
        raise EntryError(f"the file ends in {ending or 'nothing'!r}; it must end in one of {known}", "file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EntryError(f"the file is not UTF-8 (byte {error.start}); save it as UTF-8", "file") from None
    if "\0" in text:
        raise EntryError("the file has NUL bytes; it is no text file", "file")
    try:
        return READERS[ending](text, name=name)
    except TaxonomyError as error:
        raise EntryError(str(error), "file") from None


def as_tree(taxonomy: Taxonomy) -> dict[str, Any]:
    """Return a tree as a policy holds it in place."""
    if taxonomy.n_leaves > MOST_IN_POLICY:
        raise EntryError(
            f"the file has {taxonomy.n_leaves:,} values, and a tree in a policy holds at most {MOST_IN_POLICY:,}; "
            "keep it as a file",
            "keep",
        )
    return Grove.of(taxonomy).document()


def exported(taxonomy: Taxonomy, ending: str) -> bytes:
    """Return a tree as the bytes of a file: ``csv`` as ARX reads it, or nested ``yaml``."""
    if taxonomy.n_leaves > MOST_EXPORTED:
        raise EntryError(f"the tree has {taxonomy.n_leaves:,} values; files have at most {MOST_EXPORTED:,}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"tree.{ending}")
        EXPORTS[ending](taxonomy, path)
        return path.read_bytes()
