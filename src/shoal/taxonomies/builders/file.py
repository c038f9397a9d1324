"""A tree read from a file: ARX-style CSV, nested YAML or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa
from pydantic import Field

from shoal.core.errors import TaxonomyError
from shoal.taxonomies.arx import from_arx_text
from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.taxonomies.nested import from_json_text, from_yaml_text
from shoal.taxonomies.tree import Taxonomy

READERS = {
    ".csv": from_arx_text,
    ".tsv": from_arx_text,
    ".txt": from_arx_text,
    ".yaml": from_yaml_text,
    ".yml": from_yaml_text,
    ".json": from_json_text,
}


class FileTaxonomy(TaxonomyBuilder):
    """The tree of a file; its suffix says how it is written."""

    name: ClassVar[str] = "file"
    title: ClassVar[str] = "a tree in a file: CSV as ARX writes it, nested YAML or JSON"
    shorthand: ClassVar[str | None] = "path"

    path: Path = Field(description="the file, relative to the policy; .csv, .yaml or .json")

    def resolve(self, base: Path) -> Self:
        """Take a relative path from the folder *base*, where the policy lies."""
        return self if self.path.is_absolute() else self.model_copy(update={"path": base / self.path})

    def build(self, values: pa.Array) -> Taxonomy:  # noqa: ARG002
        """Read the file; the data have no say in it."""
        return read_taxonomy(self.path)


def read_taxonomy(path: Path) -> Taxonomy:
    """Read a taxonomy file by its suffix."""
    name = f"taxonomy file {str(path)!r}"
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(READERS)
        raise TaxonomyError(f"{name} ends in {path.suffix or 'nothing'!r}; it must end in one of {known}")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise TaxonomyError(f"{name} does not exist; paths are relative to the policy's folder") from None
    except UnicodeDecodeError as error:
        raise TaxonomyError(f"{name} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise TaxonomyError(f"{name} cannot be read: {error.strerror}") from None
    if "\0" in text:
        raise TaxonomyError(f"{name} has NUL bytes; it is no text file")
    return reader(text, name=name)
