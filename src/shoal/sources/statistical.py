"""Stata and SPSS files: labels become texts, user-missing values null, and dates Arrow dates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from shoal.core.arrays import FloatArray
from shoal.core.errors import InputError
from shoal.sources.base import OpenedFile, SourceOptions, import_optional
from shoal.sources.columns import check_names
from shoal.sources.snapshots import Snapshot, SnapshotSource

_CHUNK_VALUES = 1 << 21  # as Python's objects, 30 bytes each
_CHUNK_ROWS = (1 << 12, 1 << 18)  # at least and at most: packed files are unpacked up to each chunk
_EXACT = 2.0**53
_DAY = 86_400.0
_SPSS_EPOCH, _STATA_EPOCH = 141_428.0, 3_653.0  # days from 14 October 1582, and from 1960, to 1970
# Formats of dates and times with their type, unit and epoch. SPSS stores seconds since 1582, Stata days or milliseconds
# since 1960. Stata's weeks, quarters and %tC remain numbers.
_MOMENTS = {
    r"[AESJ]?DATE[\d.]*|(Q|MO|WK)YR[\d.]*": (pa.date32(), 1 / _DAY, _SPSS_EPOCH),
    r"(DATETIME|YMDHMS)[\d.]*": (pa.timestamp("ms"), 1000.0, _SPSS_EPOCH * _DAY * 1000),
    r"M?TIME[\d.]*": (pa.time32("ms"), 1000.0, 0.0),
    r"%-?t?d.*": (pa.date32(), 1.0, _STATA_EPOCH),
    r"%-?tc.*": (pa.timestamp("ms"), 1.0, _STATA_EPOCH * _DAY * 1000),
}
_NEAR = 0.01  # milliseconds; SPSS stores fractions of seconds since 1582 as floats
_SAME = 1e-9  # days


@dataclass(slots=True)
class _Variable:
    """A column, the conversion of its numbers, and a summary of the values read so far."""

    name: str
    where: str
    kind: pa.DataType
    unit: float = 1.0  # of the file, in days for dates and in milliseconds for times
    epoch: float = 0.0
    labels: Mapping[Any, str] | None = None
    whole: bool = True
    codes: dict[str, object] = field(default_factory=dict)  # by the text that replaced them

    @property
    def final_kind(self) -> pa.DataType:
        return pa.int64() if self.whole and pt.is_floating(self.kind) else self.kind

    def values(self, given: list[Any]) -> pa.Array:
        if self.labels is not None:
            return self._label(pa.array(given))
        if pt.is_string(self.kind):
            return pa.array(given, pa.string())
        array = pa.array(given, pa.float64())
        numbers: FloatArray = array.to_numpy(zero_copy_only=False)  # NaN where missing
        if pt.is_floating(self.kind):
            present = numbers[~np.isnan(numbers)]
            self.whole &= bool(np.all(present == np.floor(present)) and np.all(np.abs(present) <= _EXACT))
            return array.cast(self.kind)
        return self._moments(numbers)

    def _moments(self, numbers: FloatArray) -> pa.Array:
        ticks = numbers * self.unit - self.epoch
        missing = np.isnan(ticks)
        rounded = np.where(missing, 0.0, np.rint(ticks))
        near = _SAME if pt.is_date(self.kind) else _NEAR
        if np.any(np.abs(rounded - np.where(missing, 0.0, ticks)) > near):
            raise InputError(
                f"column {self.name!r} of {self.where} holds finer times than its format shows; change its format"
            )
        if pt.is_time(self.kind) and np.any((rounded < 0) | (rounded >= 1000 * _DAY)):
            raise InputError(
                f"column {self.name!r} of {self.where} holds durations, not times of a day; make them numbers"
            )
        whole = pa.array(rounded.astype(np.int64), mask=missing)
        stored = pa.int64() if pt.is_timestamp(self.kind) else pa.int32()
        return whole.cast(stored).cast(self.kind)

    def _label(self, given: pa.Array) -> pa.Array:
        assert self.labels is not None  # noqa: S101  for the type checker
        if pt.is_null(given.type):
            return given.cast(pa.string())
        found = pc.unique(given).drop_null()
        texts = [self._text(code) for code in found.to_pylist()]
        return pa.array(texts, pa.string()).take(pc.index_in(given, value_set=found))

    def _text(self, code: Any) -> str:
        """Return the label of a value, or the value as text; two values must not get the same text."""
        assert self.labels is not None  # noqa: S101  for the type checker
        text = self.labels.get(code)
        if text is None:
            text = str(int(code)) if isinstance(code, float) and code.is_integer() else str(code)
        if self.codes.setdefault(text, code) != code:
            raise InputError(
                f"two values of column {self.name!r} of {self.where} have the same label; read the codes by "
                "`source: {labels: codes}`"
            )
        return text


def open_statistical(path: Path, options: SourceOptions) -> SnapshotSource:
    """Read a .dta, .sav or .zsav file once and keep its rows in a temporary file."""
    library = import_optional("pyreadstat", f"a {path.suffix} file", "files")
    stata = path.suffix.lower() == ".dta"
    read = partial(library.read_dta if stata else library.read_sav, str(path), output_format="dict")
    failures = (library.ReadstatError, library.PyreadstatError)
    file = OpenedFile.of(path)
    _check_end(path)
    try:
        _, about = read(metadataonly=True, user_missing=True)  # includes the declared missing values
    except (*failures, UnicodeDecodeError):
        raise _damage_error(path) from None
    check_names(about.column_names, path.name)
    variables = [_variable(name, about, path.name, options) for name in about.column_names]
    schema = pa.schema([pa.field(variable.name, variable.kind) for variable in variables])
    fewest, most = _CHUNK_ROWS
    chunk_rows = min(max(_CHUNK_VALUES // len(variables), fewest), most)

    def batches() -> Iterator[pa.RecordBatch]:
        start = 0
        while about.number_rows is None or start < about.number_rows:
            try:
                rows, _ = read(row_offset=start, row_limit=chunk_rows, disable_datetime_conversion=True)
            except (*failures, UnicodeDecodeError):
                raise _damage_error(path) from None
            n_rows = len(rows[schema.names[0]])
            if n_rows == 0:
                break
            start += n_rows
            yield pa.RecordBatch.from_arrays([each.values(rows[each.name]) for each in variables], schema=schema)

    snapshot = Snapshot(batches(), schema)
    if about.number_rows is not None and snapshot.n_rows != about.number_rows:
        raise _damage_error(path)
    if snapshot.n_rows == 0:
        raise InputError(f"{path.name} has no rows")
    return SnapshotSource(
        name=path.name,
        schema=pa.schema([(one.name, one.final_kind) for one in variables]),
        n_rows=snapshot.n_rows,
        cleaning=options.cleaning,
        snapshot=snapshot,
        sha256=file.digest(),
        meanings={name: label for name, label in about.column_names_to_labels.items() if label},
    )


def _variable(name: str, about: Any, where: str, options: SourceOptions) -> _Variable:
    stated = about.readstat_variable_types[name]
    known = _find_labels(name, about)
    if known and options.labels == "texts":
        return _Variable(name, where, pa.string(), labels=known)
    if stated.startswith("string"):
        return _Variable(name, where, pa.string())
    form = about.original_variable_types[name] or ""
    for pattern, moment in _MOMENTS.items():
        if re.fullmatch(pattern, form if form.startswith("%") else form.upper(), re.DOTALL):
            return _Variable(name, where, *moment)
    return _Variable(name, where, pa.float32() if stated == "float" else pa.float64())


def _find_labels(name: str, about: Any) -> dict[Any, str]:
    """Return the labels of values that are not declared missing; without such labels a column has plain numbers."""
    labels = {
        float(code) if isinstance(code, int) else code: text
        for code, text in about.variable_value_labels.get(name, {}).items()
    }
    for reach in about.missing_ranges.get(name, ()):
        low, high = (reach["lo"], reach["hi"]) if isinstance(reach, dict) else (reach, reach)
        labels = {
            code: text
            for code, text in labels.items()
            if not (isinstance(code, type(low)) and isinstance(code, type(high)) and low <= code <= high)
        }
    return labels


def _check_end(path: Path) -> None:
    """Raise if a newer Stata file is truncated: the rows may be complete when the labels after them are not."""
    with path.open("rb") as file:
        begins = file.read(11)
        file.seek(0, 2)
        size = file.tell()
        file.seek(max(size - 12, 0))
        if size == 0:
            raise InputError(f"{path.name} is empty")
        if begins == b"<stata_dta>" and file.read() != b"</stata_dta>":
            raise _damage_error(path)


def _damage_error(path: Path) -> InputError:
    kind = "Stata" if path.suffix.lower() == ".dta" else "SPSS"
    return InputError(f"{path.name} is not a readable {kind} file: it is truncated, damaged or has another format")
