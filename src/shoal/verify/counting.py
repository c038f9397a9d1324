"""The classes of a release, and the sensitive values in each, as tables of SQL.

Rows with equal quasi-identifiers are a class. Its number is 1 + the mixed radix number of its labels, the number that
the witness has for its source rows. Without labels a class is the row of its texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from shoal.manifest import Attribute
from shoal.verify.engine import CannotCheckError, name_columns, quote_text
from shoal.verify.manifest import Manifest
from shoal.verify.promises import Counts, Promise, Subject
from shoal.verify.rows import wrap

_BOUND = 1 << 62  # of the numbers in one column
# Letters for which lower case and NFC give the same normal form as shoal.core.dictionaries.fold_text.
PLAIN = (
    r"\t-\r -~¿-Þà-įŊ-žΣ-ρЀ-ҁҊ-ԯ\x{5D0}-\x{5EA}\x{620}-\x{64A}"
    r"ก-าぁ-ゖァ-ヺ一-鿿가-힣Ḁ-ẙẠ-ỹ"
)
DIGIT = """\
-- The place of a label among the declared ones; after these come missing values, then any other text.
CREATE TEMP MACRO digit(place, label, n) AS coalesce(place, CASE WHEN label IS NULL THEN n ELSE n + 1 END)::BIGINT;
"""
SPELLING = r"""-- SQL cannot compare the spellings of values with letters outside this list, and decides nothing then.
CREATE TEMP MACRO decided(h) AS CASE WHEN (SELECT count(*) FROM ({}) WHERE NOT regexp_full_match(value,
  '[{}]*')) = 0 THEN h END;
"""


class ClassNumbers:
    """What a class number says of labels: it is 1 + their mixed radix number, in several columns if they are many."""

    def __init__(self, n_labels: Sequence[int]) -> None:
        """Take how many labels each attribute has; then come missing values, then any other text."""
        radices = [labels + 2 for labels in n_labels]
        column, stride, bounds = [0] * len(radices), [1] * len(radices), [1]
        for place, radix in enumerate(radices):
            if bounds[-1] * radix >= _BOUND:
                bounds.append(1)
            column[place] = len(bounds) - 1
            bounds[-1] *= radix
        for place in reversed(range(len(radices) - 1)):
            if column[place] == column[place + 1]:
                stride[place] = stride[place + 1] * radices[place + 1]
        self.bounds = bounds  # the largest number of each column
        self.digits = list(zip(column, stride, radices, strict=True))  # column, stride and radix of each attribute

    @classmethod
    def of(cls, attributes: Sequence[Attribute]) -> ClassNumbers:
        """Return how labels of some attributes are numbered."""
        return cls([len(attribute.labels or {}) for attribute in attributes])

    def pack(self, digits: Sequence[str]) -> list[str]:
        """Return the numbers in SQL, given the digit of each attribute."""
        terms: list[list[str]] = [["1"] for _ in self.bounds]
        for digit, (column, stride, _) in zip(digits, self.digits, strict=True):
            terms[column].append(digit if stride == 1 else f"{stride} * {digit}")
        return [wrap(own, " +") for own in terms]

    def unpack(self, place: int, numbers: Sequence[str]) -> str:
        """Return the digit of an attribute in SQL, given the numbers."""
        column, stride, radix = self.digits[place]
        return f"mod(({numbers[column]} - 1) // {stride}, {radix})"


def as_one(columns: Sequence[str]) -> str:
    """Return one value of SQL in place of several."""
    return columns[0] if len(columns) == 1 else f"row({', '.join(columns)})"


def as_class(columns: Sequence[str]) -> str:
    """Return the class of a row by its values in SQL: never NULL, although a value may be missing."""
    return f"row({', '.join(f'{column}::VARCHAR' for column in columns)})"


class Labels:
    """Types of SQL with the labels: label1 for the first attribute with labels, and so on."""

    def __init__(self, manifest: Manifest) -> None:
        self._types = {one.name: f"label{place}" for place, one in enumerate(manifest.labelled, 1)}
        self._sizes = {one.name: len(one.labels or {}) for one in manifest.labelled}
        if 0 in self._sizes.values():
            raise CannotCheckError("an attribute has no labels")

    def statements(self) -> Iterator[str]:
        """Yield the statements that make the types from the table ``declared``."""
        types = [
            f"CREATE TEMP TYPE {kind} AS ENUM"
            f" (SELECT label FROM declared WHERE attribute = {quote_text(name)} ORDER BY number);\n"
            for name, kind in self._types.items()
        ]
        if types:
            yield DIGIT + "".join(types)

    def digit(self, name: str, column: str) -> str:
        """Return the digit of a column with labels of an attribute."""
        place = f"enum_code(try_cast({column} AS {self._types[name]}))"
        return f"digit({place}, {column}, {self._sizes[name]})"


class ReleaseTables:
    """The statements that count the published rows, and where the counts of each subject are."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.names = name_columns(manifest.columns)
        self.labels = Labels(manifest)
        self.sensitive = {one.name: (place, one) for place, one in enumerate(manifest.of_role("sensitive"), 1)}
        self._made: dict[tuple[Subject, str], Counts] = {}

    @property
    def keys(self) -> list[str]:
        """The columns whose values make a class: in parts, the bucket and the quasi-identifiers of one part.

        None without promises, or if sensitive attributes are in several parts.
        """
        manifest = self.manifest
        quasi, sensitive = ([one.name for one in manifest.of_role(role)] for role in ("quasi", "sensitive"))
        if not manifest.promises or not manifest.sliced:
            return quasi if manifest.promises else []
        parts = [part for part in manifest.parts if not set(sensitive).isdisjoint(part)]
        if len(parts) != 1 or len(manifest.columns) != len(manifest.attributes) + 1:
            return []
        return ["bucket", *(name for name in parts[0] if name in quasi)]

    @property
    def numbered(self) -> ClassNumbers | None:
        """How classes are numbered, if their attributes have labels."""
        quasi = self.manifest.of_role("quasi")
        if self.manifest.sliced or not all(one.boxed for one in quasi):
            return None
        return ClassNumbers.of(quasi)

    def count(self) -> Iterator[str]:
        """Yield the statements that make the types of labels and, if there are classes, ``counted`` and ``classes``."""
        yield from self.labels.statements()
        if not self.keys:
            return
        names, numbers = self.names, self.numbered
        if numbers is not None:
            own = numbers.pack([self.labels.digit(name, names[name]) for name in self.keys])
        else:  # readers -0.0 and 0.0 are equal numbers
            own = [as_class([names[name] for name in self.keys])]
        values = [f"{names[name]} AS s{place}" for name, (place, _) in self.sensitive.items()]
        title = "-- Rows with equal quasi-identifiers are an equivalence class; c of its n records have the values (s)."
        if self.manifest.sliced:
            title = "-- In each bucket, rows with equal quasi-identifiers in the part of the values (s) are a class."
        yield (
            f"{title}\nCREATE TEMP TABLE counted AS\nSELECT {wrap([f'{as_one(own)} AS class', *values])},"
            " count(*) AS c\nFROM release GROUP BY ALL;\n"
            "CREATE TEMP TABLE classes AS SELECT class, sum(c) AS n FROM counted GROUP BY class;\n"
        )

    def list_published(self) -> str:
        """Return the statement that lists the published labels of all attributes by their numbers."""
        manifest, numbers, selects = self.manifest, self.numbered, []
        by_class = bool(manifest.promises) and numbers is not None and len(numbers.bounds) == 1
        for own, columns in zip(manifest.parts, manifest.part_columns, strict=True):
            for name, column in zip(own, columns, strict=True):
                one = manifest.written.attributes[name]
                if not one.boxed:
                    continue
                what, table = self.labels.digit(name, self.names[column]), "release"
                if by_class and numbers is not None and one.role == "quasi":
                    what, table = numbers.unpack(manifest.of_role("quasi").index(one), ["class"]), "classes"
                elif by_class and one.role == "sensitive":
                    what, table = self.labels.digit(name, f"s{self.sensitive[name][0]}"), "counted"
                kept = f" WHERE number <> {len(one.labels or {})}" if one.may_keep_missing else ""
                inner = f"SELECT DISTINCT {what} AS number FROM {table}"
                selects.append(f"SELECT {quote_text(name)} AS attribute, number FROM ({inner}){kept}")
        return "CREATE TEMP TABLE published AS\n" + "\nUNION ".join(selects) + ";\n"

    def list_texts(self, name: str) -> str:
        """Return the statement that lists an attribute's values as published and in their normal form."""
        place, one = self.sensitive[name]
        value = "s::VARCHAR"
        if not one.boxed:
            unknown = [*self.manifest.missing_tokens, *(["nan"] if one.kind == "number" else [])]
            listed = ", ".join(map(quote_text, unknown))
            value = (
                f"CASE WHEN s::VARCHAR NOT IN ({listed}) THEN folded(s::VARCHAR) END" if unknown else f"folded({value})"
            )
        return (
            f"CREATE TEMP TABLE texts{place} AS SELECT s, {value} AS value\n"
            f"FROM (SELECT DISTINCT s{place} AS s FROM counted);\n"
        )

    def count_values(self, promise: Promise, subject: Subject) -> tuple[Counts, str | None]:
        """Return where the counts of a subject are, and the statement that makes them unless it was returned before.

        Under labels these are the values that an adversary with the promise's weights expects.
        """
        weights = promise.parameters.get("weights")
        boxed = [name for name in subject if self.sensitive[name][1].boxed]
        if boxed and not promise.kind.labels:
            raise CannotCheckError(f"values of {boxed[0]!r} are generalized, which only tau-l-diversity allows")
        key = subject, json.dumps(weights, sort_keys=True)
        if key in self._made:
            return self._made[key], None
        places = [self.sensitive[name][0] for name in subject]
        attribute = self.sensitive[subject[0]][1] if len(subject) == 1 else None
        value, c, n = ", ".join(f"texts{place}.value" for place in places), "c", "n"
        source = "counted JOIN classes USING (class)"
        for place in places:
            source += f" JOIN texts{place} ON counted.s{place} IS NOT DISTINCT FROM texts{place}.s"
        if boxed:
            if attribute is None:
                raise CannotCheckError("its joint values are generalized, which only single attributes may be")
            from shoal.verify.statements import share_labels  # k-anonymous releases do without it

            shares, parts = share_labels(self.manifest.rows, attribute, weights)
            source += f"\n  JOIN {shares} ON {value} IS NOT DISTINCT FROM label"
            value, c, n = "t.value", "c * parts", f"n * {parts}::HUGEINT AS n"
        elif attribute is None:
            value = f"row({value})"
        counts = self._made[key] = Counts(f"v{len(self._made) + 1}", attribute)
        return counts, (
            f"CREATE TEMP TABLE {counts.table} AS SELECT class, {n}, {value} AS value, sum({c}) AS c\n"
            f"FROM {source} GROUP BY ALL;\n"
        )
