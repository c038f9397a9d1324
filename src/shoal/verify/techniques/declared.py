"""The techniques that a manifest can declare: values that changed rows, tokens, replaced values, changed numbers.

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
from pydantic import Field, model_validator

from shoal.core.fictional import FAMILY_NAMES, GIVEN_NAMES
from shoal.manifest import Attribute, Listed, ManifestError, StrictEntry, read_entry
from shoal.verify.engine import Engine, quote_text
from shoal.verify.techniques import numbers
from shoal.verify.techniques.base import (
    Column,
    Declared,
    Demands,
    Rows,
    Rule,
    write_key,
    write_list,
    write_number,
)
from shoal.verify.techniques.numbers import Share, exact, has_once

Length = Annotated[int, Field(ge=16, le=51)]  # characters of a token that its key does not take back
_STEP = 1e-9  # probabilities are rounded to this step


class Moved(Declared):
    """Rows have each other's values, within groups of rows that agreed in some columns of the source."""

    moved = True
    agreement = "no value is more frequent than in the source"
    uncheckable = "the random assignment of values to rows"
    demands: ClassVar[Demands] = {
        "names a column twice in within, or the column itself": lambda own: has_once(own.column, *own.within),
    }

    within: Listed[str]

    @property
    def together(self) -> tuple[str, ...]:
        """The columns whose values moved together."""
        return (self.column,)

    def check_rows(self, rows: Rows) -> str | None:
        """No value, together with the group it stayed in, occurs more often than in the source.

        Groups are given by the columns *within* that are in the same part and follow from the source. If columns moved
        together, the first that is published as it is represents the others.
        """
        columns, determined = rows.list_beside(self.column)
        moved = [name for name in self.together if name in columns]
        if rows.expected is None or self.column != moved[0]:
            return None
        names = [*moved, *(name for name in self.within if name in determined)]
        own, true, _ = rows.write_keys({name: columns[name] for name in names}, rows.expected, "expected")
        signed = (
            f"SELECT {write_list(own)} AS k, 1 AS n FROM release UNION ALL SELECT {write_list(true)}, -1 FROM expected"
        )
        surplus = f"SELECT sum(n) AS more FROM ({signed}) GROUP BY k"
        strange = rows.release.engine.value(f"SELECT sum(more) FROM ({surplus}) WHERE more > 0")
        groups = " in the groups that they stay in" if len(names) > 1 else ""
        return f"has {strange} values more often than the source{groups}" if strange else None


class Permutation(Moved):
    """All values of a group were put in a random order."""


class Swapping(Moved):
    """A share of the rows of a group exchanged their values in pairs."""

    share: Annotated[float, Field(gt=0, le=1)]


class Shuffling(Moved):
    """Numbers were assigned again, by other columns of the rows."""

    numeric = True

    given: Listed[str]


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

    @property
    def together(self) -> tuple[str, ...]:
        return self.hierarchy


class RankSwapping(Moved):
    """Numbers were exchanged in pairs of records whose ranks are near."""

    numeric = True
    agreement = (
        "no number is more frequent than in the source or, if other columns identify the row, farther from its own "
        "rank than the window"
    )
    uncheckable = "the random choice of pairs"

    window: Share
    distance: Annotated[float, Field(ge=0, allow_inf_nan=False)]

    def compare(self, published: Column, original: Column) -> str | None:
        """Numbers half a window apart are as far from each other as declared, unless some are not published."""
        said = "has values in the source that are not numbers"
        fault = super().compare(published, original) or original.find_fault(("x IS NULL", said))
        half = max(1, math.floor(self.window * original.present) // 2)
        every = f"SELECT x, unnest(range(n)) FROM {original.table}"
        apart = original.engine.value(
            f"SELECT favg(far) FROM (SELECT lead(x, {half}) OVER (ORDER BY x) - x AS far FROM ({every}))"
        )
        if fault or apart is None or published.present < original.present:
            return fault
        return None if abs(apart - self.distance) <= 1e-5 * apart else "has another distance than the source's numbers"

    def check_rows(self, rows: Rows) -> str | None:
        """No number's rank is farther from the rank of its row's own number than the window says.

        Rows that agree in all columns that follow from the source are compared in the order of their numbers. If any
        assignment of rows keeps to the window, this one does. Equal numbers have several ranks, of which the nearest
        count. Releases with withheld rows are not compared.
        """
        columns, determined = rows.list_beside(self.column)
        fault, engine = super().check_rows(rows), rows.release.engine
        whole = "(SELECT count(*) FROM release) = (SELECT count(*) FROM expected)"
        if fault or rows.expected is None or not determined or not engine.value(f"SELECT {whole}"):
            return fault
        own, true, _ = rows.write_keys({name: columns[name] for name in determined}, rows.expected, "expected")
        numbers = rows.release.names[columns[self.column]], rows.expected.places[self.column]
        sides = zip((own, true), numbers, ("release", "expected"), strict=True)
        shown, given = (
            "SELECT *, row_number() OVER (PARTITION BY k ORDER BY x) AS place, rank() OVER (ORDER BY x) AS low,"
            " low + count(*) OVER (PARTITION BY x) - 1 AS high, count(x) OVER () AS present"
            f" FROM (SELECT {write_list(keys)} AS k, {write_number(number)} AS x FROM {table})"
            for keys, number, table in sides
        )
        apart = f"greatest(a.low, b.low) - least(a.high, b.high) > floor({self.window!r} * b.present)"
        far = f"(a.x IS NULL) <> (b.x IS NULL) OR (a.x IS NOT NULL AND {apart})"
        joined = f"({shown}) AS a JOIN ({given}) AS b USING (k, place)"
        found = engine.value(f"SELECT count(*) FROM {joined} WHERE {far}")
        return "has numbers whose ranks are farther from the source's than the window" if found else None


class Tokens(Declared):
    """Texts in place of values, equal ones for equal values."""

    roles = ("quasi", "insensitive")
    agreement = "there are no more tokens than values in the source, and none is such a value"

    of: Literal["identifier"] | None = None

    def compare(self, published: Column, original: Column) -> str | None:
        """Numbers of equal tokens fit numbers of equal values, and no token shows its value.

        Each token is the token of one value and in no more rows: sorted from the largest, no number of the release is
        above the source's number at the same place.
        """
        ranked = "(SELECT n, row_number() OVER (ORDER BY n DESC) AS place FROM {})".format
        both = f"{ranked(published.table)} AS a LEFT JOIN {ranked(original.table)} AS b USING (place)"
        if fault := super().compare(published, original):
            return fault
        if published.engine.value(f"SELECT count(*) FROM {both} WHERE b.n IS NULL OR a.n > b.n"):
            return "has more tokens than the source has values, or more frequent ones"
        forms = "unnest([t, sha256(t)])" if isinstance(self, Hash) else "t"
        shown = f"t IN (SELECT {forms} FROM {original.table})"
        return published.find_fault((shown, "has values of the source, or their bare hashes, in place of tokens"))

    def check_rows(self, rows: Rows) -> str | None:
        """Tokens of an identifier differ in all rows if anything is promised."""
        column = rows.release.names[rows.list_beside(self.column)[0][self.column]]
        again = f"SELECT count({column}) > count(DISTINCT {column}) FROM release"
        if self.of is None or not rows.manifest.promises or not rows.release.engine.value(again):
            return None
        return "has the same token in several rows: the rows of a class may be one person's"


class Hash(Tokens):
    """SHA-256 of values; without a salt it can be recomputed."""

    uncheckable = "the random salt"

    salt: Literal["random", "none"]

    @property
    def pattern(self) -> str:
        return "[0-9a-f]{64}"

    @property
    def determined(self) -> bool:
        return self.salt == "none"

    def recompute(self, values: pa.Array) -> pa.Array:
        """Return the bare hashes."""
        texts = values.cast(pa.string()).to_pylist()
        return pa.array([hashlib.sha256(text.encode()).hexdigest() for text in texts], pa.string())


class Token(Tokens):
    """Tokens of one run, which no one can compute again."""

    uncheckable = "the secret of the run"

    length: Length

    @property
    def pattern(self) -> str:
        return f"[A-Z2-7]{{{self.length}}}"


class Pseudonym(Tokens):
    """Tokens of a key file; reversible ones can be taken back, and are as long as their values need."""

    uncheckable = "the key"
    demands: ClassVar[Demands] = {
        "must have a length if and only if it is not reversible": lambda own: own.reversible is (own.length is None),
    }

    reversible: bool
    domain: str
    length: Length | None = None

    @property
    def pattern(self) -> str:
        """The characters of base 32; reversible tokens encode 32, 48, 64 ... bytes."""
        lengths = [self.length] if self.length else [math.ceil(bytes_ * 8 / 5) for bytes_ in range(32, 97, 16)]
        ends = "|".join(f"[A-Z2-7]{{{length}}}" for length in lengths)
        return ends if self.length else f"([A-Z2-7]{{128}})*({ends})"  # 128 characters have 80 bytes


class Masking(Declared):
    """Made-up values of a public form, one for each row."""

    roles = ("insensitive",)
    demands: ClassVar[Demands] = {
        "must have a length if and only if it is a number": lambda own: (
            (own.kind == "number") == (own.length is not None)
        ),
    }

    kind: Literal["name", "email", "phone", "number"]
    length: Annotated[int, Field(ge=1, le=12)] | None = None

    @property
    def pattern(self) -> str:
        given, family = "|".join(GIVEN_NAMES), "|".join(FAMILY_NAMES)
        patterns = {
            "name": f"({given}) ({family})",
            "email": f"({given})[.]({family})[0-9]{{2}}@example[.]org".lower(),
            "phone": r"[+]1 [2-9][0-8][0-9]-555-01[0-9]{2}",
            "number": f"[1-9][0-9]{{{(self.length or 1) - 1}}}",
        }
        return patterns[self.kind]


class Transitions(StrictEntry):
    """The matrix of one stratum: a row of probabilities for each of its values."""

    stratum: Listed[str | None]
    values: Listed[str]
    matrix: Listed[Listed[float]]

    @model_validator(mode="after")
    def _fits(self) -> Transitions:
        n = len(self.values)
        if not n or not has_once(*self.values) or {len(self.matrix), *map(len, self.matrix)} != {n}:
            raise ValueError("has no square matrix of different values")
        if any(not 0 <= share <= 1 for row in self.matrix for share in row):
            raise ValueError("has a probability that is not between 0 and 1")
        if any(sum(map(exact, row)) != 1 for row in self.matrix):
            raise ValueError("has a row of probabilities that do not add up to 1")
        return self

    def keeps(self, share: float, *, invariant: bool) -> bool:
        """Whether each value is kept with this probability, and otherwise drawn by shares that do not depend on it."""
        n = len(self.values)
        drawn = np.array(self.matrix) - share * np.eye(n)  # (n, n)
        shares = drawn[[0]] if invariant else np.full(n, (1 - share) / n)
        return bool((np.abs(drawn - shares) <= 2 * (n + 2) * _STEP).all())


class Pram(Declared):
    """Each value was replaced at random, by the row of the matrix for this value."""

    agreement = "the matrix can lead from the source's frequencies to these"
    uncheckable = "the random draw by the matrix"
    demands: ClassVar[Demands] = {
        "names a column twice in strata, or the column itself": lambda own: has_once(own.column, *own.strata),
        "has not one matrix of every stratum": lambda own: (
            {len(one.stratum) for one in own.applied} == {len(own.strata)}
            and has_once(*(one.stratum for one in own.applied))
        ),
        "has strata and is not invariant": lambda own: own.invariant or not own.strata,
        "has a matrix that does not keep values with the stated probability": lambda own: (
            own.keep is None or all(one.keeps(own.keep, invariant=own.invariant) for one in own.applied)
        ),
    }

    invariant: bool
    strata: Listed[str]
    applied: Listed[Transitions]
    keep: Share | None = None

    def list_rules(self) -> list[Rule]:
        """Every value is in a matrix; the file may have another spelling of its numbers."""
        known = ", ".join(
            quote_text(value) for value in sorted({value for one in self.applied for value in one.values})
        )
        listed = f"SELECT coalesce({write_number('v')}::VARCHAR, v) FROM (SELECT unnest([{known}]) AS v)"
        strange = f"coalesce(x::VARCHAR, t) NOT IN ({listed})"
        return [(strange, "has values that the transition matrix does not have")]

    def check_rows(self, rows: Rows) -> str | None:
        """The matrix can lead to the published frequencies, by strata if these are published."""
        if rows.original is None:
            return None
        manifest, engine, (columns, determined) = rows.manifest, rows.release.engine, rows.list_beside(self.column)
        kept = [name for name in self.strata if name in determined and name not in manifest.techniques]
        shown = {name: columns[name] if name in kept else None for name in self.strata}
        own, true, kinds = rows.write_keys({**shown, self.column: columns[self.column]}, rows.original, "original")
        for table, keys, given in (("published_cells", own, "release"), ("source_cells", true, "original")):
            cells = f"{write_list(keys[:-1])} AS stratum, {keys[-1]} AS value"
            engine.make(table, f"SELECT {cells}, count(*) AS n FROM {given} WHERE {keys[-1]} IS NOT NULL GROUP BY ALL")
        places = [place for place, name in enumerate(self.strata, 1) if name in kept]
        whole = manifest.sample is None and manifest.one_per is None
        return self.compare_cells(engine, kinds, places, whole=whole)

    def compare_cells(self, engine: Engine, kinds: Sequence[str], kept: Sequence[int], *, whole: bool) -> str | None:
        """Return why the counts of ``published_cells`` cannot come from ``source_cells``, or None.

        Both tables have the n rows of each value in a stratum. *kinds* are the types of the strata and of the values.
        The places *kept* of a stratum are published. *whole* says that all rows of the source were treated.
        """
        engine.put("matrices", pa.Table.from_pylist([one.model_dump() for one in self.applied]))
        lines = 'SELECT stratum, "values", unnest("values") AS value, unnest(matrix) AS line FROM matrices'
        cells = f'SELECT stratum, value, unnest("values") AS target, unnest(line) AS p FROM ({lines})'
        strata = write_list([write_key(f"stratum[{place}]", kind) for place, kind in enumerate(kinds[:-1], 1)])
        value, target = (write_key(name, kinds[-1]) for name in ("value", "target"))
        engine.make("moves", f"SELECT {strata} AS stratum, {value} AS value, {target} AS target, p FROM ({cells})")
        places = write_list([f"stratum[{place}]" for place in kept])
        moved = f"(SELECT *, {places} AS kept FROM moves LEFT JOIN source_cells USING (stratum, value))"
        own = "sum(n) FILTER (value = target) AS own"
        sums = f"{own}, sum(n * p) AS after, sum(n) AS total, count(*) AS size, count(n) AS met"
        changed = f"met < size OR abs(after - own) > (size + 2) * {_STEP} * total"
        bounds = f"{own}, sum(n) FILTER (p = 1) AS least, sum(n) FILTER (p > 0) AS most"
        reached = f"(SELECT kept, target AS value, {bounds} FROM {moved} GROUP BY ALL)"
        shown = "(SELECT stratum AS kept, value, n FROM published_cells)"
        hidden = "coalesce(sum(own) OVER same, 0) - coalesce(sum(n) OVER same, 0) AS hidden"
        joined = f"{reached} FULL JOIN {shown} USING (kept, value) WINDOW same AS (PARTITION BY kept)"
        engine.make("bounds", f"SELECT *, {hidden} FROM {joined}")
        faults = [
            (
                whole and self.invariant,
                "has a matrix that does not keep the frequencies of the source, and is said to be invariant",
                f"(SELECT {sums} FROM {moved} GROUP BY stratum, target) WHERE {changed}",
            ),
            (
                whole,
                "has no transition for some values of the source",
                "source_cells ANTI JOIN moves USING (stratum, value)",
            ),
            (True, "has values that no value of the source leads to", "bounds WHERE n > coalesce(most, 0)"),
            (True, "lacks values that the matrix always keeps", "bounds WHERE coalesce(n, 0) < least - hidden"),
            (True, "has more values in a stratum than the source", "bounds WHERE hidden < 0"),
        ]
        return next(
            (said for asked, said, which in faults if asked and engine.value(f"SELECT count(*) FROM {which}")), None
        )


GROUP = "shoal.declared"  # of entry points
TECHNIQUES: dict[str, type[Declared]] = {
    "coding": numbers.Coding,
    "correlated-noise": numbers.CorrelatedNoise,
    "hash": Hash,
    "masking": Masking,
    "microaggregation": numbers.Microaggregation,
    "noise": numbers.Noise,
    "permutation": Permutation,
    "pram": Pram,
    "pseudonym": Pseudonym,
    "rank-swapping": RankSwapping,
    "record-swapping": RecordSwapping,
    "rounding": numbers.Rounding,
    "shuffling": Shuffling,
    "swapping": Swapping,
    "token": Token,
}


def find_technique(name: object) -> type[Declared] | None:
    """Return a technique of this verifier or of another package; None if it is unknown."""
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
            raise ManifestError(f"{where} is not an attribute of the release")
        technique, attribute = find_technique(entry.get("technique")), by_name[column]
        if technique is None:
            raise ManifestError(f"{where}.technique is unknown to this verifier")
        if "column" in entry:
            raise ManifestError(f"{where} has 1 unexpected key")
        declared = read_entry(technique, {**entry, "column": column}, where)
        if attribute.role not in declared.roles:
            raise ManifestError(f"{where} is a technique that no {attribute.role} attribute can have")
        if attribute.boxed and attribute.role == "sensitive" and not declared.determined:
            raise ManifestError(f"{where} replaces sensitive values at random, and yet they are published as labels")
        person = isinstance(declared, Tokens) and declared.of is not None
        if person and (attribute.role, attribute.kind) != ("insensitive", "category"):
            raise ManifestError(f"{where} replaces an identifier, and yet is not an insensitive category")
        found[column] = declared
    return found
