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

import pyarrow as pa
from pydantic import Field

from shoal.core.fictional import FAMILY_NAMES, GIVEN_NAMES
from shoal.manifest import Attribute, Listed, ManifestError, read_entry
from shoal.verify.engine import quote_text
from shoal.verify.techniques.base import SAME_GAPS, Column, Declared, Demands
from shoal.verify.techniques.numbers import Coding, CorrelatedNoise, Microaggregation, Noise, Rounding, has_once
from shoal.verify.techniques.pram import Pram

Length = Annotated[int, Field(ge=16, le=51)]  # characters of a token that its key does not take back
_BASE32 = "[A-Z2-7]"
_LETTERS_OF_BLOCK = 8 * 16 / 5  # base-32 characters of a block of 16 bytes


class Moved(Declared):
    """Rows have each other's values, within groups of rows that agreed in some columns of the source."""

    moved = True
    agreement = "no value is more frequent than in the source"
    uncheckable = "the random assignment of values to rows"
    demands: ClassVar[Demands] = {
        "names a column twice in within, or the column itself": lambda own: has_once(own.column, *own.within),
    }

    within: Listed[str]

    def find_fault(self, published: Column) -> str | None:
        """Moved values are numbers if they have to be."""
        return published.find_fault(("x IS NULL", "has values that are no numbers")) if self.numeric else None


class Permutation(Moved):
    """All values of a group were put in a random order."""


class Swapping(Moved):
    """A share of the rows of a group exchanged their values in pairs."""

    share: Annotated[float, Field(gt=0, le=1)]


class RecordSwapping(Moved):
    """Records, or households, have each other's areas, together with all areas above."""

    agreement = (
        "areas, together with the columns in which households had to agree, are no more frequent than in the source"
    )
    uncheckable = "whether households moved as a whole"
    demands: ClassVar[Demands] = {
        "has a hierarchy without the column, or names a column twice": lambda own: (
            own.column in own.hierarchy and has_once(*own.hierarchy, *own.within)
        ),
    }

    hierarchy: Listed[str]
    risk: Listed[str]
    household: bool
    share: Annotated[float, Field(ge=0, lt=1)]
    swapped: Annotated[float, Field(ge=0, le=1)]
    k: Annotated[int, Field(ge=2)]


class RankSwapping(Moved):
    """Numbers were exchanged in pairs of records whose ranks are near."""

    numeric = True
    finding = "values are numbers"
    compared: ClassVar[bool] = True
    agreement = (
        "no number is more frequent than in the source or, if other columns identify the row, farther from its own "
        "rank than the window"
    )
    uncheckable = "the random choice of pairs"

    window: Annotated[float, Field(gt=0, lt=1)]
    distance: Annotated[float, Field(ge=0, allow_inf_nan=False)]

    def compare(self, published: Column, original: Column) -> str | None:
        """No row lost or got a number; numbers half a window apart are as far from each other as declared.

        Of a sample, or if rows were withheld, the release does not show which numbers were ranked.
        """
        no_numbers = "x IS NULL", "has values that are no numbers in the source"
        if fault := super().compare(published, original) or original.find_fault(no_numbers):
            return fault
        n = original.present
        half = max(1, math.floor(self.window * n) // 2)
        if published.present < n or half >= n:
            return None
        least, most = original.sum_extremes("x", half, "fsum")  # all others are subtracted from themselves
        apart = (most - least) / (n - half)
        return None if abs(apart - self.distance) <= 1e-5 * apart else "has another distance than the source's numbers"


class Shuffling(Moved):
    """Numbers were assigned again, by other columns of the rows."""

    numeric = True
    finding = "values are numbers"

    given: Listed[str]


class Formed(Declared):
    """Texts of a declared form."""

    malformed: ClassVar[str] = "has texts that are no tokens of the declared form"

    def write_pattern(self) -> str:
        """Return the regular expression of a text."""
        raise NotImplementedError

    def find_fault(self, published: Column) -> str | None:
        """Texts have the declared form."""
        return published.find_fault((f"NOT regexp_full_match(t, {quote_text(self.write_pattern())})", self.malformed))


class Tokens(Formed):
    """Texts in place of values, equal ones for equal values."""

    roles = ("quasi", "insensitive")
    finding = "tokens have the declared form"
    agreement = "there are no more tokens than values in the source, and none is such a value"

    of: Literal["identifier"] | None = None

    def compare(self, published: Column, original: Column) -> str | None:
        """Numbers of equal tokens fit numbers of equal values, and no token is a value.

        Each token is the token of one value and in no more rows: sorted from the largest, no number of the release is
        above the source's number at the same place.
        """
        ranked = "(SELECT n, row_number() OVER (ORDER BY n DESC) AS place FROM {})".format
        both = f"{ranked(published.table)} AS a LEFT JOIN {ranked(original.table)} AS b USING (place)"
        fault = super().compare(published, original)
        if not fault and published.engine.value(f"SELECT count(*) FROM {both} WHERE b.n IS NULL OR a.n > b.n"):
            fault = "has other numbers of equal tokens than the source has of equal values"
        return fault or self.compare_texts(published, original)

    def compare_texts(self, published: Column, original: Column) -> str | None:
        """Return a fault if there are more tokens than values of the source, or if they show whose they are."""
        if published.find("count(*)") > original.find("count(*)"):
            return "has more tokens than the source has values"
        forms = "unnest([t, sha256(t)])" if isinstance(self, Hash) else "t"
        among = f"t IN (SELECT {forms} FROM {original.table})"
        return published.find_fault((among, "has values of the source, or their bare hashes, in place of tokens"))


class Hash(Tokens):
    """SHA-256 of values; without a salt it can be recomputed."""

    uncheckable = "the random salt"

    salt: Literal["random", "none"]

    def write_pattern(self) -> str:
        """Return the pattern of 32 bytes in hexadecimal digits."""
        return "[0-9a-f]{64}"

    @property
    def determined(self) -> bool:
        """Whether the hashes are bare, so that they follow from the values."""
        return self.salt == "none"

    def recompute(self, values: pa.Array) -> pa.Array:
        """Return the bare hashes."""
        texts = values.cast(pa.string()).to_pylist()
        return pa.array([hashlib.sha256(text.encode()).hexdigest() for text in texts], pa.string())


class Token(Tokens):
    """Tokens of one run, which no one can compute again."""

    uncheckable = "the secret of the run"

    length: Length

    def write_pattern(self) -> str:
        """Return the pattern of characters of base 32."""
        return f"{_BASE32}{{{self.length}}}"


class Pseudonym(Tokens):
    """Tokens of a key file; reversible ones can be taken back, and are as long as their values need."""

    uncheckable = "the key"
    demands: ClassVar[Demands] = {
        "is reversible and has a length, or is not and has none": lambda own: own.reversible is (own.length is None),
    }

    reversible: bool
    domain: str
    length: Length | None = None

    def write_pattern(self) -> str:
        """Return the pattern of characters of base 32; reversible tokens have those of 32, 48, 64 ... bytes."""
        if self.length is not None:
            return f"{_BASE32}{{{self.length}}}"
        # Five blocks are 128 characters.
        ends = "|".join(f"{_BASE32}{{{-int(-_LETTERS_OF_BLOCK * blocks // 1)}}}" for blocks in range(2, 7))
        return f"({_BASE32}{{128}})*({ends})"


class Masking(Formed):
    """Made-up values of a public form, one for each row."""

    roles = ("insensitive",)
    malformed = "has values that are not of the declared form"
    finding = "values have the declared public form"
    agreement = SAME_GAPS
    demands: ClassVar[Demands] = {
        "has a length and is no number, or the other way round": lambda own: (
            (own.kind == "number") == (own.length is not None)
        ),
    }

    kind: Literal["name", "email", "phone", "number"]
    length: Annotated[int, Field(ge=1, le=12)] | None = None

    def write_pattern(self) -> str:
        """Return the regular expression of a value."""
        given, family = "|".join(GIVEN_NAMES), "|".join(FAMILY_NAMES)
        patterns = {
            "name": f"({given}) ({family})",
            "email": f"({given})[.]({family})[0-9]{{2}}@example[.]org".lower(),
            "phone": r"[+]1 [2-9][0-8][0-9]-555-01[0-9]{2}",
            "number": f"[1-9][0-9]{{{(self.length or 1) - 1}}}",
        }
        return patterns[self.kind]


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
    """Return a technique of this verifier, or one that another package registered; None if it is unknown."""
    if not isinstance(name, str) or name in TECHNIQUES:
        return TECHNIQUES.get(str(name))
    loaded = (entry.load() for entry in entry_points(group=GROUP, name=name))
    return next((found for found in loaded if isinstance(found, type) and issubclass(found, Declared)), None)


def read_techniques(entries: Mapping[str, Mapping[str, Any]], attributes: Sequence[Attribute]) -> dict[str, Declared]:
    """Return the entry of every changed column, or raise a ManifestError."""
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
            raise ManifestError(f"{where} replaces an identifier, and yet is not an insensitive category")
        found[column] = declared
    return found
