"""The techniques that a manifest can declare: tokens in place of values, values that changed rows, changed numbers.

Another package that adds a technique registers how the verifier reads it, a subclass of ``Declared``, under the
technique's name in the entry point group ``shoal.declared``. Without it no release with the technique is published.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from shoal.core.arrays import FloatArray
from shoal.core.fictional import FAMILY_NAMES, GIVEN_NAMES
from shoal.manifest import Attribute, Listed, ManifestError, read_entry
from shoal.verify.techniques.base import SAME_GAPS, ColumnValues, Declared, as_texts, compare_missing
from shoal.verify.techniques.numbers import Coding, CorrelatedNoise, Microaggregation, Noise, Rounding
from shoal.verify.techniques.pram import Pram

Length = Annotated[int, Field(ge=16, le=51)]  # characters of a token that its key does not take back
_BASE32 = "[A-Z2-7]"
_LETTERS_OF_BLOCK = 8 * 16 / 5  # base-32 characters of a block of 16 bytes


class Moved(Declared):
    """Rows have each other's values, within groups of rows that agreed in some columns of the source."""

    moved: ClassVar[bool] = True
    agreement: ClassVar[str] = "no value is more frequent than in the source"
    uncheckable: ClassVar[str] = "the random assignment of values to rows"

    within: Listed[str]

    @model_validator(mode="after")
    def _fits(self) -> Moved:
        if self.column in self.within or len(set(self.within)) != len(self.within):
            raise ValueError("names a column twice in within, or the column itself")
        return self

    @property
    def together(self) -> tuple[str, ...]:
        """Columns whose values moved as one, that of the entry too."""
        return (self.column,)

    def find_fault(self, published: ColumnValues) -> str | None:
        """What moved are numbers where they have to be."""
        return "has values that are no numbers" if self.numeric and published.numbers() is None else None

    @property
    def finding(self) -> str:
        """Numbers where they have to be; other values may be any."""
        return "values are numbers" if self.numeric else ""


class Permutation(Moved):
    """All values of a group were put in a random order."""


class Swapping(Moved):
    """A share of the rows of a group exchanged their values in pairs."""

    share: Annotated[float, Field(gt=0, le=1)]


class RecordSwapping(Moved):
    """Records, or households, have each other's areas, together with all areas above."""

    agreement: ClassVar[str] = (
        "areas, together with the columns in which households had to agree, are no more frequent than in the source"
    )
    uncheckable: ClassVar[str] = "whether households moved as a whole"

    hierarchy: Listed[str]
    risk: Listed[str]
    household: bool
    share: Annotated[float, Field(ge=0, lt=1)]
    swapped: Annotated[float, Field(ge=0, le=1)]
    k: Annotated[int, Field(ge=2)]

    @model_validator(mode="after")
    def _names_levels(self) -> RecordSwapping:
        named = [*self.hierarchy, *self.within]
        if self.column not in self.hierarchy or len(set(named)) != len(named):
            raise ValueError("has a hierarchy without the column, or names a column twice")
        return self

    @property
    def together(self) -> tuple[str, ...]:
        """All levels of the hierarchy."""
        return self.hierarchy


class RankSwapping(Moved):
    """Numbers were exchanged in pairs of records whose ranks are near."""

    numeric: ClassVar[bool] = True
    compared: ClassVar[bool] = True
    agreement: ClassVar[str] = (
        "no number is more frequent than in the source or, if other columns identify the row, farther from its own "
        "rank than the window"
    )
    uncheckable: ClassVar[str] = "the random choice of pairs"

    window: Annotated[float, Field(gt=0, lt=1)]
    distance: Annotated[float, Field(ge=0, allow_inf_nan=False)]

    def compare(self, published: ColumnValues, original: ColumnValues) -> str | None:
        """No row lost or got a number; those half a window apart are as far from each other as declared.

        Of a sample, or if rows were withheld, which numbers were ranked is not known.
        """
        if fault := compare_missing(published, original):
            return fault
        found = original.numbers()
        if found is None:
            return "has values that are no numbers in the source"
        numbers = np.repeat(*found)
        half = max(1, math.floor(self.window * len(numbers)) // 2)
        if published.present < len(numbers) or half >= len(numbers):
            return None
        apart = float(np.mean(numbers[half:] - numbers[:-half]))
        return None if abs(apart - self.distance) <= 1e-5 * apart else "has another distance than the source's numbers"

    def find_far(self, published: FloatArray, original: FloatArray) -> bool:
        """Whether the ranks of two numbers of (n_rows,) pairs differ by more than the window; NaN are missing ones.

        Ranks are among all numbers of the source. Equal numbers have several ranks, of which the nearest count.
        """
        known = np.isfinite(original)
        if not bool((known == np.isfinite(published)).all()):
            return True
        ranked, mine, own = np.sort(original[known]), published[known], original[known]
        low, high = np.minimum(mine, own), np.maximum(mine, own)
        apart = np.searchsorted(ranked, high, side="left") - np.searchsorted(ranked, low, side="right") + 1
        return bool((apart > math.floor(self.window * len(ranked))).any())


class Shuffling(Moved):
    """Numbers were dealt anew, by what other columns say of rows."""

    numeric: ClassVar[bool] = True

    given: Listed[str]


class Tokens(Declared):
    """Texts that stand for values, equal ones for equal values."""

    roles: ClassVar[tuple[str, ...]] = ("quasi", "insensitive")
    finding: ClassVar[str] = "tokens have the declared form"
    agreement: ClassVar[str] = "there are no more tokens than values in the source, and none is such a value"

    of: Literal["identifier"] | None = None

    @property
    def pattern(self) -> str:
        """The regular expression of a token."""
        raise NotImplementedError

    def find_fault(self, published: ColumnValues) -> str | None:
        """Tokens have the declared form."""
        formed = pc.match_substring_regex(published.texts(), pattern=f"^({self.pattern})$")
        fine = bool(pc.all(formed, min_count=0).as_py())
        return None if fine else "has texts that are no tokens of the declared form"

    def compare(self, published: ColumnValues, original: ColumnValues) -> str | None:
        """Numbers of equal tokens fit numbers of equal values, and no token is a value.

        Each token stands for a value of its own and in no more rows: sorted from the largest, no number of the release
        is above that of the source.
        """
        if fault := compare_missing(published, original):
            return fault
        mine, theirs = np.sort(published.counts)[::-1], np.sort(original.counts)[::-1]
        if len(mine) > len(theirs) or bool((mine > theirs[: len(mine)]).any()):
            return "has other numbers of equal tokens than the source has of equal values"
        return self.compare_texts(published, original)

    def compare_texts(self, published: ColumnValues, original: ColumnValues) -> str | None:
        """Return a fault if there are more tokens than values of the source, or if they tell whose they are."""
        if len(published.values) > len(original.values):
            return "has more tokens than the source has values"
        if self.are_among(published.texts(), original.values):
            return "has values of the source, or their bare hashes, in place of tokens"
        return None

    def are_among(self, tokens: pa.Array, values: pa.Array) -> bool:
        """Whether tokens are values of the source."""
        return _are_among(tokens, as_texts(values))


def _are_among(texts: pa.Array, others: pa.Array) -> bool:
    return bool(pc.any(pc.is_in(texts, value_set=others), min_count=0).as_py())


class Hash(Tokens):
    """SHA-256 of values; without a salt it can be recomputed."""

    pattern: ClassVar[str] = "[0-9a-f]{64}"
    uncheckable: ClassVar[str] = "the random salt"

    salt: Literal["random", "none"]

    @property
    def determined(self) -> bool:
        """A bare hash follows from the value."""
        return self.salt == "none"

    def recompute(self, values: pa.Array) -> pa.Array:
        """Return the bare hashes."""
        texts = as_texts(values).to_pylist()
        return pa.array([hashlib.sha256(text.encode()).hexdigest() for text in texts], pa.string())

    def are_among(self, tokens: pa.Array, values: pa.Array) -> bool:
        """Whether tokens are values, or bare hashes that are said to be salted."""
        bare = not self.determined and _are_among(tokens, self.recompute(values))
        return bare or _are_among(tokens, as_texts(values))


class Token(Tokens):
    """Tokens of one run: nobody can compute them again."""

    uncheckable: ClassVar[str] = "the secret of the run"

    length: Length

    @property
    def pattern(self) -> str:
        """Characters of base 32."""
        return f"{_BASE32}{{{self.length}}}"


class Pseudonym(Tokens):
    """Tokens of a key file; reversible ones can be taken back, and are as long as their values need."""

    uncheckable: ClassVar[str] = "the key"

    reversible: bool
    domain: str
    length: Length | None = None

    @model_validator(mode="after")
    def _fits(self) -> Pseudonym:
        if self.reversible is (self.length is not None):
            raise ValueError("is reversible and has a length, or is not and has none")
        return self

    @property
    def pattern(self) -> str:
        """Characters of base 32; of reversible ones those of 32, 48, 64 ... bytes."""
        if self.length is not None:
            return f"{_BASE32}{{{self.length}}}"
        # Five blocks are 128 characters.
        ends = "|".join(f"{_BASE32}{{{-int(-_LETTERS_OF_BLOCK * blocks // 1)}}}" for blocks in range(2, 7))
        return f"({_BASE32}{{128}})*({ends})"


class Masking(Declared):
    """Made-up values of a public form, one for each row."""

    roles: ClassVar[tuple[str, ...]] = ("insensitive",)
    finding: ClassVar[str] = "values have the declared public form"
    agreement: ClassVar[str] = SAME_GAPS

    kind: Literal["name", "email", "phone", "number"]
    length: Annotated[int, Field(ge=1, le=12)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Masking:
        if (self.kind == "number") != (self.length is not None):
            raise ValueError("has a length and is no number, or the other way round")
        return self

    @property
    def pattern(self) -> str:
        """The regular expression of a value."""
        given, family = "|".join(GIVEN_NAMES), "|".join(FAMILY_NAMES)
        patterns = {
            "name": f"({given}) ({family})",
            "email": f"({given})[.]({family})[0-9]{{2}}@example[.]org".lower(),
            "phone": r"[+]1 [2-9][0-8][0-9]-555-01[0-9]{2}",
            "number": f"[1-9][0-9]{{{(self.length or 1) - 1}}}",
        }
        return patterns[self.kind]

    def find_fault(self, published: ColumnValues) -> str | None:
        """Values have the public form."""
        fine = pc.match_substring_regex(published.texts(), pattern=f"^({self.pattern})$")
        return None if bool(pc.all(fine, min_count=0).as_py()) else "has values that are not of the declared form"

    def compare(self, published: ColumnValues, original: ColumnValues) -> str | None:
        """No row got or lost a value."""
        return compare_missing(published, original)


GROUP = "shoal.declared"  # of entry points
TECHNIQUES: dict[str, type[Declared]] = {
    "coding": Coding,
    "correlated-noise": CorrelatedNoise,
    "hash": Hash,
    "masking": Masking,
    "microaggregation": Microaggregation,
    "noise": Noise,
    "permutation": Permutation,
    "pram": Pram,
    "pseudonym": Pseudonym,
    "rank-swapping": RankSwapping,
    "record-swapping": RecordSwapping,
    "rounding": Rounding,
    "shuffling": Shuffling,
    "swapping": Swapping,
    "token": Token,
}


def find_technique(name: object) -> type[Declared] | None:
    """Return a technique of this verifier or, if another package registered one, of that; None if nobody knows it."""
    if not isinstance(name, str) or name in TECHNIQUES:
        return TECHNIQUES.get(str(name))
    for entry in entry_points(group=GROUP, name=name):
        found = entry.load()
        if isinstance(found, type) and issubclass(found, Declared):
            return found
    return None


def read_techniques(entries: Mapping[str, Mapping[str, Any]], attributes: Sequence[Attribute]) -> dict[str, Declared]:
    """Return what is declared of every changed column, or raise a ManifestError."""
    by_name = {attribute.name: attribute for attribute in attributes}
    found: dict[str, Declared] = {}
    for column, entry in entries.items():
        where = f"techniques.{column}"
        if column not in by_name:
            raise ManifestError(f"{where} is no attribute of the release")
        technique, attribute = find_technique(entry.get("technique")), by_name[column]
        if technique is None:
            raise ManifestError(f"{where}.technique is none that this verifier knows")
        if "column" in entry:
            raise ManifestError(f"{where} has 1 unexpected key")
        declared = read_entry(technique, {**entry, "column": column}, where)
        if attribute.role not in declared.roles:
            raise ManifestError(f"{where} is a technique that no {attribute.role} attribute can have")
        person = isinstance(declared, Tokens) and declared.of is not None
        if person and (attribute.role, attribute.kind) != ("insensitive", "category"):
            raise ManifestError(f"{where} stands for an identifier, and yet is not an insensitive category")
        found[column] = declared
    return found
