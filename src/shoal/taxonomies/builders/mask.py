"""Texts of one length, such as postcodes, whose last characters are masked step by step."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from shoal.core.errors import TaxonomyError
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.construct import MOST_LEAVES, Level, from_levels
from shoal.taxonomies.scales import Prefixes, pad_to_length
from shoal.taxonomies.tree import Taxonomy


class MaskTaxonomy(TaxonomyBuilder):
    """A text is published whole, with its tail masked, or as ``*``.

    >>> places = MaskTaxonomy(length=5).build(pa.array(["47110", "47119", "48000"]))
    >>> places.label(0, 2), places.cover(0, 2)
    ('4711*', {'prefixes': ['4711']})
    """

    name: ClassVar[str] = "mask"
    title: ClassVar[str] = "texts of one length, masked from the end"

    length: int = Field(ge=1, le=256, description="number of characters of every value")
    keep: tuple[int, ...] | None = Field(
        default=None, description="numbers of leading characters that levels keep; every number by default"
    )
    character: str = Field(default="*", min_length=1, max_length=1, description="what a masked character becomes")
    alphabet: Literal["digits"] | None = Field(
        default=None, description="digits: values have digits only, and up to length 6 all of them may occur"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for kept in self.keep or ():
            if not 0 <= kept <= self.length:
                raise TaxonomyError(f"mask: keep has {kept}, but values have {self.length} characters")
        if self.alphabet == "digits" and self.character.isdigit():
            raise TaxonomyError("mask: a digit cannot mask digits; choose another character")
        return self

    def build(self, values: pa.Array) -> Taxonomy:
        """Sort the texts of the right length, or list all numbers of that many digits."""
        declared = self.alphabet == "digits" and 10**self.length <= MOST_LEAVES
        if declared:
            every = pa.array(np.arange(10**self.length)).cast(pa.string())
            leaves = pc.utf8_lpad(every, width=self.length, padding="0")
        else:
            leaves = self._find_texts(values)
        texts = np.array(leaves.to_pylist(), dtype=f"U{self.length}")  # (n_leaves,) sorted
        kept = range(self.length) if self.keep is None else set(self.keep)
        lengths = sorted((number for number in kept if 0 < number < self.length), reverse=True)
        levels = [self._level(texts, number) for number in lengths]
        scale = Prefixes(leaves, self.length, self.character, derived=not declared)
        return from_levels(leaves.to_pylist(), levels, scale, declared=declared)

    def _level(self, texts: np.ndarray[tuple[int], np.dtype[np.str_]], kept: int) -> Level:
        heads = texts.astype(f"U{kept}")
        lo = np.flatnonzero(np.append(True, heads[1:] != heads[:-1]))
        tail = self.character * (self.length - kept)
        return Level(lo, np.append(lo[1:], len(texts)), [head + tail for head in heads[lo].tolist()])

    def _find_texts(self, values: pa.Array) -> pa.Array:
        found = pc.drop_null(pc.unique(pad_to_length(values, self.length)))
        # A value that holds the mask character itself could be mistaken for a group.
        found = found.filter(pc.invert(pc.match_substring(found, self.character)))
        if self.alphabet == "digits":
            found = found.filter(pc.match_substring_regex(found, "^[0-9]+$"))
        if not len(found):
            raise TaxonomyError(
                f"mask: no value of the column has exactly {self.length} characters; correct the length"
            )
        return found.take(pc.sort_indices(found))
