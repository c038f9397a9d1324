"""The labels of an attribute: the values that each one covers, as ranges of codes.

Values and labels of an attribute are on a line, which is cut wherever a label begins or ends. All values between two
neighbouring cuts are covered by the same labels and have the same code. Two codes follow: one for values that have no
place on the line, and one for missing values. DuckDB joins values and labels by the table ``spans`` of these ranges.
"""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import FloatArray, IntArray
from shoal.manifest import Attribute
from shoal.verify.engine import CannotCheckError, Engine, quote_text
from shoal.verify.manifest import Manifest

_FLAGS, _NUMERIC = ("any", "missing"), ("number", "date")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_EPOCH = datetime.date(1970, 1, 1)
_LABELS = {"attribute": pa.string(), "number": pa.int64(), "label": pa.string(), "covers_missing": pa.bool_()}
Cover: TypeAlias = Mapping[str, Any]
Span: TypeAlias = tuple[Any, Any]  # its two ends on the line; None: open


class CoverError(Exception):
    """A cover of the manifest has no meaning; the message names the attribute and no value."""


@dataclass(frozen=True, slots=True, eq=False)
class Covers:
    """The labels of one attribute as ranges of codes, in the order of the labels; ranges of a label do not touch."""

    n_labels: int  # with the one of missing values, if these are published as such
    owner: IntArray  # (n_ranges,) the number of the label
    low: IntArray  # (n_ranges,)
    high: IntArray  # (n_ranges,)
    edges: tuple[Any, ...]  # the cuts: numbers, days, texts as bytes, or places of listed values
    places: Mapping[str, int]  # of listed categories

    def widths(self) -> IntArray:
        """Return (n_labels + 1,) how many codes each label covers; the last one, of unknown texts, covers none."""
        return np.bincount(self.owner, self.high - self.low, minlength=self.n_labels + 1).astype(np.int64)

    def find_codes(self, kind: str, numbers: FloatArray, texts: Sequence[str]) -> IntArray:
        """Return (n,) the codes of values of this kind that are not missing, given their numbers and their texts."""
        if kind == "prefix":
            edges, points = (np.array([*own, None], dtype=object)[:-1] for own in (self.edges, map(_raw, texts)))
            return np.searchsorted(edges, points, side="right")
        points = numbers if kind in _NUMERIC else np.array([self.places.get(text, np.nan) for text in texts])
        codes = np.searchsorted(self.edges, points, side="right")
        return np.where(np.isfinite(points), codes, len(self.edges) + 1)


def read_covers(attribute: Attribute) -> Covers:
    """Return the labels of an attribute as ranges, or raise CoverError if one has no meaning."""
    covers: list[Cover] = list(attribute.covers.values())
    shapes: dict[tuple[str, ...], list[Cover]] = {}  # most covers have one of very few
    for cover in covers:
        shapes.setdefault(tuple(cover), []).append(cover)
    for shape, alike in shapes.items():
        _check_alike(attribute, set(shape), alike)
    if attribute.may_keep_missing:
        _check_spread(attribute.name, attribute.covers)
        covers.append({"missing": True})
    # Long lists first, because groups of a tree are parts of longer ones. This affects speed only.
    lists = sorted((cover.get("values", ()) for cover in covers), key=len, reverse=True)
    places = {value: at for at, value in enumerate(dict.fromkeys(chain.from_iterable(lists)))}
    if attribute.kind == "category":
        spans = [[(places[value], places[value] + 1) for value in cover.get("values", ())] for cover in covers]
    else:
        spans = (_find_texts if attribute.kind == "prefix" else _find_intervals)(attribute, covers)
    edges = sorted({end for own in spans for span in own for end in span if end is not None})
    code = {edge: number for number, edge in enumerate(edges, 1)}
    last = len(edges) + 2  # the code of missing values
    owner, low, high = [], [], []
    for number, (cover, own) in enumerate(zip(covers, spans, strict=True)):
        ranges = [(0 if begin is None else code[begin], last - 1 if end is None else code[end]) for begin, end in own]
        ranges += [(0, last + 1)] if "any" in cover else [(last, last + 1)] if "missing" in cover else []
        for begin, end in _join_ranges(ranges):
            owner.append(number)
            low.append(begin)
            high.append(end)
    owners, lows, highs = (np.array(column, dtype=np.int64) for column in (owner, low, high))
    return Covers(len(covers), owners, lows, highs, tuple(edges), places)


def _join_ranges(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges that touch."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def _check_alike(attribute: Attribute, shape: set[str], covers: Sequence[Cover]) -> None:
    """Raise CoverError if covers of one shape are not written as their kind is."""
    allowed = {
        "number": ({"from", "below"}, {"values"}),
        "date": ({"from", "below"}, {"values"}),
        "prefix": ({"prefixes"}, {"values"}, {"prefixes", "values"}, {"from", "through"}),
        "category": ({"values"},),
    }[attribute.kind]
    what = f"a cover of {attribute.name!r}"
    if any(cover[flag] is not True for flag in _FLAGS if flag in shape for cover in covers):
        raise CoverError(f"{what} has a flag that is not true")
    rest = shape - set(_FLAGS)
    if "any" in shape:
        if shape != {"any"}:
            raise CoverError(f"{what} says more than 'any'")
        return
    if rest not in allowed and not (not rest and "missing" in shape):
        raise CoverError(f"{what} is not written as covers of kind {attribute.kind!r} are")
    if "through" in shape and not all(
        end is None or isinstance(end, str) for cover in covers for end in (cover["from"], cover["through"])
    ):
        raise CoverError(f"{what} has ends that are not text")
    for key in ("values", "prefixes"):
        if key in shape and not all(_is_list_of_texts(cover[key]) for cover in covers):
            raise CoverError(f"{what} has no list of texts under {key!r}")


def _check_spread(name: str, labels: Mapping[str, Cover]) -> None:
    """Raise CoverError if it is not clear over which values a record under a sensitive label spreads."""
    listed = {value for cover in labels.values() for value in cover.get("values", ())}
    for label, cover in labels.items():
        values = cover.get("values", ())
        if "any" in cover:
            raise CoverError(f"a cover of {name!r}, which is sensitive, says 'any' and does not list its values")
        if len(set(values)) != len(values):
            raise CoverError(f"a cover of {name!r} lists a value twice")
        if label in listed and (list(values) != [label] or "missing" in cover):
            raise CoverError(f"a label of {name!r} reads like a value and does not cover just this one")


def _is_list_of_texts(raw: object) -> bool:
    return isinstance(raw, list | tuple) and bool(raw) and all(isinstance(item, str) for item in raw)


def _find_intervals(attribute: Attribute, covers: Sequence[Cover]) -> list[list[Span]]:
    """Return half-open intervals of numbers or, as days since 1970, of dates."""
    name, read = attribute.name, _read_day if attribute.kind == "date" else _read_end
    found: list[list[Span]] = []
    for cover in covers:
        points = read_numbers(attribute, pa.array(cover.get("values", ()), pa.string())).tolist()
        if not all(map(math.isfinite, points)):
            raise CoverError(f"a cover of {name!r} lists values that cannot be read")
        found.append([(point, math.nextafter(point, math.inf)) for point in points])
        if "from" in cover:
            low, high = (None if cover[key] is None else read(name, cover[key]) for key in ("from", "below"))
            if low is not None and high is not None and low >= high:
                raise CoverError(f"a cover of {name!r} is an empty interval")
            found[-1].append((low, high))
    return found


def _read_day(name: str, raw: object) -> float:
    try:
        return float((datetime.date.fromisoformat(str(raw)) - _EPOCH).days)
    except ValueError:
        raise CoverError(f"a cover of {name!r} has an end that is not a date") from None


def _read_end(name: str, raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or abs(raw) > sys.float_info.max:
        raise CoverError(f"a cover of {name!r} has an end that is not a number")
    return float(raw)


def read_numbers(attribute: Attribute, values: pa.Array) -> FloatArray:
    """Return (n,) numbers, or days since 1970; NaN for texts that are neither. No value is missing."""
    dates = attribute.kind == "date"
    if is_text(values.type):
        texts = values.to_pylist()
        read = (_read_date(text, attribute.format) for text in texts) if dates else map(_read_number, texts)
        return np.fromiter(read, dtype=np.float64, count=len(texts))
    if dates:
        values = values.cast(pa.date32(), safe=False).cast(pa.int32())
    return np.asarray(pc.cast(values, pa.float64(), safe=False), dtype=np.float64)


def _read_date(text: str, form: str | None) -> float:
    try:
        found = datetime.datetime.strptime(text, form) if form else datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return math.nan
    return float((found.date() - _EPOCH).days)


def _read_number(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _find_texts(attribute: Attribute, covers: Sequence[Cover]) -> list[list[Span]]:
    """Return ranges of texts in the order of their bytes: a prefix is one of them."""
    found: list[list[Span]] = []
    for cover in covers:
        spans: list[Span] = [(_raw(text), _raw(text) + b"\0") for text in cover.get("values", ())]
        for prefix in map(_raw, cover.get("prefixes", ())):
            if not prefix:
                raise CoverError(f"a cover of {attribute.name!r} has an empty prefix")
            spans.append((prefix, prefix[:-1] + bytes([prefix[-1] + 1])))  # UTF-8 has no byte 0xff
        if "through" in cover:
            first, last = (None if cover[key] is None else _raw(cover[key]) for key in ("from", "through"))
            if first is not None and last is not None and first > last:
                raise CoverError(f"a cover of {attribute.name!r} is an empty range")
            spans.append((first, None if last is None else last + b"\0"))
        found.append(spans)
    return found


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def put_covers(engine: Engine, manifest: Manifest) -> dict[str, Covers]:
    """Make the tables ``covers`` of all labels and ``spans`` of their ranges, and return the ranges."""
    found = {one.name: read_covers(one) for one in manifest.labelled}
    rows = [
        (one.name, number, label, cover.get("missing", False), cover.get("values", ()))
        for one in manifest.labelled
        for number, (label, cover) in enumerate(one.covers.items())
    ]
    schema = pa.schema({**_LABELS, "listed": pa.list_(pa.string())})
    try:
        columns = zip(*rows, strict=True) if rows else [()] * len(schema)
        engine.put("cover_rows", pa.table(list(map(list, columns)), schema=schema))
    except UnicodeEncodeError:
        raise CannotCheckError("a label, or a value that it covers, cannot be written in UTF-8") from None
    spans = [pa.table({"number": own.owner, "low": own.low, "high": own.high}) for own in found.values()]
    names = np.repeat([*found], [len(own) for own in spans])
    engine.put("span_rows", pa.concat_tables(spans).append_column("attribute", pa.array(names)))
    engine.run(
        "CREATE TEMP TABLE covers AS FROM cover_rows ORDER BY attribute, number",
        "CREATE TEMP TABLE spans AS FROM span_rows",
    )
    return found


def put_values(
    engine: Engine, manifest: Manifest, attribute: Attribute, sql: str, kind: pa.DataType | None = None
) -> str:
    """Make a table of the distinct values v that a query returns, and return its name.

    Each value has its ``id`` and ``code``, its text ``t`` as labels list it, its number ``x``, and whether it is
    ``absent``. Texts are spelled in the *kind* that the source has. Join the table by ``v IS NOT DISTINCT FROM ...``,
    because missing values are in it.
    """
    found = engine.read(f"SELECT DISTINCT v FROM ({sql}) AS given(v)")["v"].combine_chunks()
    values = found if kind is None or pa.types.is_dictionary(kind) else found.cast(kind)
    absent = find_absent(values, manifest.missing_tokens)
    present = pc.if_else(absent, pa.scalar(None, values.type), values)
    texts, covers, given = _spell(attribute, present), read_covers(attribute), np.asarray(pc.invert(absent))
    numbers, codes = np.full(len(values), np.nan), np.full(len(values), len(covers.edges) + 2)
    if attribute.kind in _NUMERIC:
        numbers[given] = read_numbers(attribute, present.drop_null())
    codes[given] = covers.find_codes(attribute.kind, numbers[given], texts.drop_null().to_pylist())
    columns = {"v": found, "absent": absent, "t": texts, "x": pa.array(numbers, mask=~np.isfinite(numbers))}
    engine.put("value_rows", {"id": pa.array(range(len(values))), **columns, "code": codes})
    name = f"values_{1 + [one.name for one in manifest.attributes].index(attribute.name)}"
    engine.make(name, "FROM value_rows")
    return name


def find_absent(values: pa.Array, tokens: Sequence[str]) -> pa.Array:
    """Return which values are missing."""
    absent = pc.is_null(values, nan_is_null=pa.types.is_floating(values.type))
    if is_text(values.type):
        absent = pc.or_(absent, pc.is_in(values, value_set=pa.array(tokens, values.type)))
    return absent


def _spell(attribute: Attribute, values: pa.Array) -> pa.Array:
    """Return values as the texts that labels list, or whose prefixes they are."""
    texts = values if is_text(values.type) else values.cast(pa.string())
    number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if attribute.kind == "prefix" and number and attribute.length:
        filled = pc.utf8_lpad(texts, attribute.length, "0")
        texts = pc.if_else(pc.utf8_is_digit(texts), filled, texts)
    zero = not attribute.boxed or any("0" in cover.get("values", ()) for cover in attribute.covers.values())
    if attribute.kind == "category" and pa.types.is_floating(values.type) and zero:
        texts = pc.if_else(pc.equal(texts, "-0"), "0", texts)  # two spellings of one number
    return texts


def relate(engine: Engine, attribute: Attribute, values: str) -> str:
    """Make a table of the values (``id``) and the numbers of all labels that cover each; return its name."""
    name = values.replace("values", "related")
    own = f"(FROM spans WHERE attribute = {quote_text(attribute.name)})"
    engine.make(name, f"SELECT id, number FROM {values} JOIN {own} ON code >= low AND code < high ORDER BY ALL")
    return name


def count_uncovered(
    engine: Engine, manifest: Manifest, pairs: Mapping[str, str], types: Mapping[str, pa.DataType]
) -> dict[str, int]:
    """Return the attributes whose labels do not cover values of their rows, and how many pairs of both there are.

    *pairs* has for each attribute a table, or a query in parentheses, of label numbers ``number`` and source values
    ``v``, which have these *types* in the source. The number after the last label means a missing sensitive value.
    """
    found: dict[str, int] = {}
    for one in manifest.labelled:
        if one.name in pairs:
            values = put_values(engine, manifest, one, f"SELECT v FROM {pairs[one.name]}", types.get(one.name))
            engine.make(
                "own_pairs",
                f"SELECT DISTINCT p.number, s.id, code FROM {pairs[one.name]} AS p"
                f" JOIN {values} AS s ON p.v IS NOT DISTINCT FROM s.v",
            )
            own = f"(FROM spans WHERE attribute = {quote_text(one.name)}) AS c"
            within = "own_pairs.number = c.number AND code >= low AND code < high"
            wrong = engine.value(f"SELECT count(*) FROM own_pairs ANTI JOIN {own} ON {within}")
            found |= {one.name: int(wrong)} if wrong else {}
    return found
