"""Trees of texts: flat values, listed groups and trees, and texts that are masked from the end."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator, model_validator

from shoal.core.errors import TaxonomyError
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.construct import MOST_LEAVES, ROOT_LABEL, Level, from_levels
from shoal.taxonomies.files import from_arx_text, from_json_text, from_nested, from_yaml_text, plain_text
from shoal.taxonomies.parse import decimal_numbers, texts
from shoal.taxonomies.scales import Categories, Prefixes, pad_to_length
from shoal.taxonomies.tree import Taxonomy

READERS = {
    ".csv": from_arx_text,
    ".tsv": from_arx_text,
    ".txt": from_arx_text,
    ".yaml": from_yaml_text,
    ".yml": from_yaml_text,
    ".json": from_json_text,
}


class FlatTaxonomy(TaxonomyBuilder):
    """Each value is published unchanged or as ``*``.

    >>> FlatTaxonomy().build(pa.array(["10", "9", "2"])).labels
    ('2', '9', '10', '*')
    """

    name: ClassVar[str] = "flat"
    title: ClassVar[str] = "a value or *"
    shorthand: ClassVar[str | None] = "values"

    values: tuple[str | bool | int | float | datetime.date, ...] | None = Field(
        default=None, description="all possible values, in order; by default the sorted values of the data"
    )

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: tuple[object, ...] | None) -> tuple[object, ...] | None:
        if values is None:
            return None
        if not values:
            raise TaxonomyError("flat taxonomy: the list of values is empty; remove it to use the values of the data")
        seen: set[str] = set()
        for text in map(plain_text, values):
            if text in seen:
                raise TaxonomyError(f"flat taxonomy: the value {text!r} is listed twice")
            seen.add(text)
        return values

    def build(self, values: pa.Array) -> Taxonomy:
        """Use the declared values or the data's, sorted as numbers if all are numbers, otherwise as text."""
        if self.values is not None:
            leaves = pa.array([plain_text(value) for value in self.values], pa.string())
        else:
            leaves = _sort_values(pc.drop_null(pc.unique(texts(values))))
        return from_levels(_quote_blanks(leaves.to_pylist()), [], Categories(leaves), declared=self.values is not None)


def _sort_values(values: pa.Array) -> pa.Array:
    if not len(values):
        raise TaxonomyError("the column has no values to make a taxonomy of: all are missing; drop the column")
    numbers, numeric = decimal_numbers(values)
    by_text = pc.sort_indices(values).to_numpy()
    order = by_text[np.argsort(numbers[by_text], kind="stable")] if numeric.all() else by_text
    return values.take(pa.array(order))


def _quote_blanks(values: list[str]) -> list[str]:
    """Quote blank texts, which would be invisible in a published table."""
    blank = [place for place, value in enumerate(values) if not value.strip()]
    taken = set(values) if blank else set()
    for place in blank:
        label = f'"{values[place]}"'
        while label in taken:
            label = f'"{label}"'
        taken.add(label)
        values[place] = label
    return values


class GroupsTaxonomy(TaxonomyBuilder):
    """Groups of values under ``*``, in the given order.

    >>> GroupsTaxonomy.model_validate({"low": ["a", "b"], "high": ["c", "d"]}).build(pa.array([])).labels
    ('a', 'b', 'c', 'd', 'low', 'high', '*')
    """

    name: ClassVar[str] = "groups"
    title: ClassVar[str] = "named groups of values, in order"
    shorthand: ClassVar[str | None] = "groups"
    shorthand_is_mapping: ClassVar[bool] = True

    groups: dict[Any, Any] = Field(
        description="from each group to its values: a list, or a mapping of smaller groups; order is kept"
    )

    def build(self, values: pa.Array) -> Taxonomy:  # noqa: ARG002
        return from_nested(self.groups, root=ROOT_LABEL, name="groups taxonomy")


class TreeTaxonomy(TaxonomyBuilder):
    """Nested mappings with one root, as in a YAML file.

    >>> policy = {"any": {"hemal disease": ["hepatitis", "anemia"], "flu": {}}}
    >>> TreeTaxonomy.model_validate(policy).build(pa.array([])).labels
    ('hepatitis', 'anemia', 'flu', 'hemal disease', 'any')
    """

    name: ClassVar[str] = "tree"
    title: ClassVar[str] = "a tree of values, written in place"
    shorthand: ClassVar[str | None] = "tree"
    shorthand_is_mapping: ClassVar[bool] = True

    tree: dict[Any, Any] = Field(
        description="the root, under it its groups, under each a list of values, a mapping of groups, or {}"
    )

    def build(self, values: pa.Array) -> Taxonomy:  # noqa: ARG002
        return from_nested(self.tree, name="tree taxonomy")


class FileTaxonomy(TaxonomyBuilder):
    """The tree in a file, whose suffix determines the format."""

    name: ClassVar[str] = "file"
    title: ClassVar[str] = "a tree in a file: CSV as ARX writes it, nested YAML or JSON"
    shorthand: ClassVar[str | None] = "path"

    path: Path = Field(description="the file, relative to the policy; .csv, .yaml or .json")

    def resolve(self, base: Path) -> Self:
        return self if self.path.is_absolute() else self.model_copy(update={"path": base / self.path})

    def build(self, values: pa.Array) -> Taxonomy:  # noqa: ARG002
        return read_taxonomy(self.path)


def read_taxonomy(path: Path) -> Taxonomy:
    """Read a taxonomy file in the format of its suffix."""
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
        raise TaxonomyError(f"{name} has NUL bytes, so it is not a text file")
    return reader(text, name=name)


class MaskTaxonomy(TaxonomyBuilder):
    """A text is published unchanged, with its last characters masked, or as ``*``.

    >>> places = MaskTaxonomy(length=5).build(pa.array(["47110", "47119", "48000"]))
    >>> places.label(0, 2), places.cover(0, 2)
    ('4711*', {'prefixes': ['4711']})
    >>> illnesses = MaskTaxonomy().build(pa.array(["E11", "E11.9", "E119", "E10.1", "I10"]))
    >>> illnesses.label(1, 4), illnesses.label(0, 4), illnesses.cover(1, 2)
    ('E11*', 'E1*', {'values': ['E11']})
    """

    name: ClassVar[str] = "mask"
    title: ClassVar[str] = "texts of one length, or codes of any length, masked from the end"

    length: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="number of characters of every value; by default values are codes of any length, and E11* means "
        "all codes that begin with E11",
    )
    keep: tuple[int, ...] | None = Field(
        default=None, description="numbers of leading characters that the levels keep; every number by default"
    )
    character: str = Field(default="*", min_length=1, max_length=1, description="replacement of a masked character")
    alphabet: Literal["digits"] | None = Field(
        default=None, description="digits: values have only digits, and up to length 6 all of them may occur"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for kept in self.keep or ():
            if kept < 0:
                raise TaxonomyError(f"mask: keep has {kept}, but numbers of characters are not negative")
            if self.length is not None and kept > self.length:
                raise TaxonomyError(f"mask: keep has {kept}, but values have {self.length} characters")
        if self.alphabet == "digits" and self.character.isdigit():
            raise TaxonomyError("mask: a digit cannot mask digits; choose another character")
        return self

    def build(self, values: pa.Array) -> Taxonomy:
        """Use the sorted texts of the right length, or all numbers with that many digits."""
        n_digits = self.length if self.alphabet == "digits" else None
        declared = n_digits is not None and n_digits < len(str(MOST_LEAVES))
        if n_digits is not None and declared:
            every = pa.array(np.arange(int(10**n_digits))).cast(pa.string())
            leaves = pc.utf8_lpad(every, width=self.length, padding="0")
        else:
            leaves = self._find_texts(values)
        longest = self.length or pc.max(pc.utf8_length(leaves)).as_py()
        texts = np.array(leaves.to_pylist(), dtype=f"U{longest}")  # (n_leaves,) sorted
        kept = range(longest) if self.keep is None else set(self.keep)
        lengths = sorted((number for number in kept if 0 < number < longest), reverse=True)
        levels = [self._level(texts, number) for number in lengths]
        scale = Prefixes(leaves, self.length, self.character, derived=not declared)
        return from_levels(leaves.to_pylist(), levels, scale, declared=declared)

    def _level(self, texts: np.ndarray[tuple[int], np.dtype[np.str_]], kept: int) -> Level:
        heads = texts.astype(f"U{kept}")
        lo = np.flatnonzero(np.append(True, heads[1:] != heads[:-1]))
        hi = np.append(lo[1:], len(texts))
        if self.length is not None:
            tail = self.character * (self.length - kept)
            return Level(lo, hi, [head + tail for head in heads[lo].tolist()])
        # Shorter codes have no group on this level, and the group of a prefix that ends in a point is on the next one.
        whole = np.array([len(head) == kept and head[-1].isalnum() for head in heads[lo].tolist()], dtype=bool)
        return Level(lo[whole], hi[whole], [head + self.character for head in heads[lo[whole]].tolist()])

    def _find_texts(self, values: pa.Array) -> pa.Array:
        found = pc.drop_null(pc.unique(pad_to_length(values, self.length)))
        # A value with the mask character could be mistaken for a group.
        found = found.filter(pc.invert(pc.match_substring(found, self.character)))
        if self.alphabet == "digits":
            found = found.filter(pc.match_substring_regex(found, "^[0-9]+$"))
        if not len(found):
            raise TaxonomyError(
                "mask: the column has no codes; correct the alphabet or the character"
                if self.length is None
                else f"mask: no value of the column has exactly {self.length} characters; correct the length"
            )
        return found.take(pc.sort_indices(found))
