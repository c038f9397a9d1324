"""What is sent to an agency's service: campaigns, counts of records by the agreed domain, registrations of releases.

Rows of people are never part of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from shoal.agency.distribution import WEIGHTS
from shoal.core.arrays import CodeArray
from shoal.core.documents import load_with_lines, read_json, read_text
from shoal.core.errors import InputError, PolicyError, UsageError, VerificationError, did_you_mean
from shoal.core.kernels import pack
from shoal.core.progress import Progress
from shoal.sources.base import file_digest
from shoal.sources.opening import open_source
from shoal.taxonomies.parse import texts, whole_numbers
from shoal.verify.reading import public_folder
from shoal.verify.verifier import verify

_MOST_COMBINATIONS = 2**62
REQUIRED = ("name", "quasi", "sensitive", "l", "delta")
OPTIONAL = ("eta", "order", "arrangement", "records")
MOST_NUMBERS = 100_000
_WHOLE = re.compile("-?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Domain:
    """The columns of a campaign and their values, sensitive ones last."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, document: Any) -> Domain:
        """Read the domain of a campaign as its service tells it."""
        try:
            columns = [*document["quasi"], document["sensitive"]]
            names = tuple(column["name"] for column in columns)
            values = tuple(tuple(column["values"]) for column in columns)
        except (KeyError, TypeError):
            raise InputError("the agency's answer has no domain as campaigns have it") from None
        if len(names) < 2 or not all(type(text) is str for text in (*names, *(v for column in values for v in column))):
            raise InputError("the agency's answer has no domain as campaigns have it")
        return cls(names, values)


def count_by_domain(data: object, domain: Domain) -> dict[str, Any]:
    """Count the records of a table by the domain, for a contribution; one outside of it is an error by column.

    >>> domain = Domain(("sex", "illness"), (("F", "M"), ("flu", "gout")))
    >>> count_by_domain(pa.table({"sex": ["F", "M", "F"], "illness": ["gout", "flu", "gout"]}), domain)
    {'columns': ['sex', 'illness', 'count'], 'rows': [['F', 'gout', 2], ['M', 'flu', 1]]}
    """
    source = open_source(data)
    sizes = [len(values) for values in domain.values]
    if np.prod([float(size) for size in sizes]) >= _MOST_COMBINATIONS:
        raise UsageError("the campaign's domain has more than 2^62 combinations; shoal cannot count that many")
    outside = _Outside(domain.names)
    keys, counts = [], []
    for batch in source.batches(domain.names, dictionary=domain.names):
        codes = _find_codes(batch, domain, outside)
        known = np.logical_and.reduce([column >= 0 for column in codes])
        key, count = np.unique(pack([column[known] for column in codes], sizes), return_counts=True)
        keys.append(key)
        counts.append(count)
    outside.refuse(source.name)
    total, places = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.zeros(len(total), dtype=np.int64)
    np.add.at(sums, places, np.concatenate(counts))
    columns = [
        pa.array(values).take(code) for values, code in zip(domain.values, np.unravel_index(total, sizes), strict=True)
    ]
    return _make_body(domain.names, columns, "count", sums.tolist())


def read_counts(data: object, domain: Domain, *, probabilities: bool = False) -> dict[str, Any]:
    """Read a table of counts by the domain as it is sent; with *probabilities* its last column may be that instead.

    Rows with 0 are kept: in a large domain they say that a combination belongs to it.
    """
    source = open_source(data)
    given = [name for name in (WEIGHTS if probabilities else WEIGHTS[:1]) if name in source.schema.names]
    wanted = " or ".join(f"`{name}`" for name in (WEIGHTS if probabilities else WEIGHTS[:1]))
    if len(given) != 1:
        raise InputError(f"{source.name} needs one column {wanted}; if it has a row per person, give it as --data")
    weight = given[0]
    further = [name for name in source.schema.names if name not in (*domain.names, weight)]
    if further:
        raise InputError(f"{source.name} has columns that the campaign has not: {', '.join(map(repr, further))}")
    outside = _Outside(domain.names)
    batches, codes, weights = [], [], []
    for batch in source.batches((*domain.names, weight), dictionary=domain.names):
        codes.append(_find_codes(batch, domain, outside))
        batches.append([texts(_decode(batch.column(name))) for name in domain.names])
        weights.append(batch.column(weight))
    outside.refuse(source.name)
    key = pack([np.concatenate(column) for column in zip(*codes, strict=True)], [len(v) for v in domain.values])
    if repeated := len(key) - len(np.unique(key)):
        raise InputError(f"{source.name} has {repeated:,} combinations more than once; add these rows up")
    columns = [pa.concat_arrays(column) for column in zip(*batches, strict=True)]
    given_weights = pa.concat_arrays(weights)
    numbers = (
        _read_counts_column(given_weights, source.name)
        if weight == "count"
        else _read_probabilities(given_weights, source.name)
    )
    return _make_body(domain.names, columns, weight, numbers)


def count_rows(data: object) -> int:
    """Return how many rows a table has."""
    source = open_source(data)
    if source.n_rows is not None:
        return source.n_rows
    return sum(batch.num_rows for batch in source.batches(source.schema.names[:1]))


class _Outside:
    """How many records have a value outside the domain, by column."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.records = np.zeros(len(names), dtype=np.int64)

    def refuse(self, where: str) -> None:
        """Raise an error that names the columns with records outside, if there are any."""
        if not self.records.any():
            return
        columns = ", ".join(
            f"{name!r} ({number:,})" for name, number in zip(self.names, self.records.tolist(), strict=True) if number
        )
        raise InputError(
            f"{where} has rows whose values are missing or outside the campaign's domain, in the columns {columns}; "
            "nothing was sent"
        )


def _find_codes(batch: pa.RecordBatch, domain: Domain, outside: _Outside) -> list[CodeArray]:
    """Return the place of every value in the domain, -1 where it has none, and note how many those are."""
    found = []
    for place, (name, values) in enumerate(zip(domain.names, domain.values, strict=True)):
        column = texts(_decode(batch.column(name)))
        code = pc.index_in(column, value_set=pa.array(values, type=pa.string())).fill_null(-1)
        codes = code.to_numpy(zero_copy_only=False).astype(np.int32)
        outside.records[place] += int((codes < 0).sum())
        found.append(codes)
    return found


def _decode(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _read_counts_column(column: pa.Array, where: str) -> list[int]:
    numbers, valid = whole_numbers(_decode(column))
    if wrong := int((~valid | (numbers < 0)).sum()):
        raise InputError(f"column 'count' of {where}: {wrong:,} values are no whole numbers from 0 on")
    return [int(number) for number in numbers.tolist()]


def _read_probabilities(column: pa.Array, where: str) -> list[str]:
    if missing := column.null_count:
        raise InputError(f"column 'probability' of {where} has {missing:,} missing values; every row needs one")
    return list(map(str, texts(_decode(column)).to_pylist()))


def _make_body(
    names: Sequence[str], columns: Sequence[pa.Array], weight: str, weights: Sequence[object]
) -> dict[str, Any]:
    rows = list(map(list, zip(*(column.to_pylist() for column in columns), weights, strict=True)))
    return {"columns": [*names, weight], "rows": rows}


def read_campaign(path: Path) -> dict[str, Any]:
    """Return the body that opens the campaign of a YAML file; only what must be known here is checked here.

    ``quasi`` maps every quasi column to its values, in the order of importance: a list, or ``{from: 0, through: 105}``
    for whole numbers. ``sensitive`` maps the one sensitive column to its values.
    """
    text = read_text(path)
    document, _ = load_with_lines(text, path.name)
    if not isinstance(document, dict):
        raise PolicyError(f"{path.name} is no campaign: it must have the keys {', '.join(REQUIRED)}")
    if absent := [key for key in REQUIRED if key not in document]:
        raise PolicyError(f"{path.name} lacks {', '.join(map(repr, absent))}, which every campaign has")
    for key in document:
        if key not in (*REQUIRED, *OPTIONAL):
            hint = did_you_mean(key, (*REQUIRED, *OPTIONAL))
            raise PolicyError(f"{path.name} has the key {key!r}, which campaigns have not{hint}")
    # Values are texts as they stand there: 010 is no 8, and yes no truth.
    written = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - it knows nothing but texts, lists and mappings
    quasi, sensitive = (_read_columns(written[key], key, path.name) for key in ("quasi", "sensitive"))
    if len(sensitive) != 1:
        raise PolicyError(f"{path.name}: 'sensitive' must have one column, got {len(sensitive)}")
    rest = {key: value for key, value in document.items() if key not in ("quasi", "sensitive")}
    return {**rest, "domain": {"quasi": quasi, "sensitive": sensitive[0]}}


def _read_columns(entries: Any, key: str, where: str) -> list[dict[str, Any]]:
    if not isinstance(entries, dict) or not entries:
        raise PolicyError(f"{where}: {key!r} must map columns to their values")
    return [
        {"name": name, "values": _expand_values(given, f"{where}: {key}.{name}")} for name, given in entries.items()
    ]


def _expand_values(given: Any, where: str) -> list[str]:
    if isinstance(given, dict) and set(given) == {"from", "through"}:
        ends = [given["from"], given["through"]]
        if all(isinstance(end, str) and _WHOLE.fullmatch(end) for end in ends):
            first, last = map(int, ends)
            if first <= last < first + MOST_NUMBERS:
                return [str(number) for number in range(first, last + 1)]
        raise PolicyError(f"{where} must go from a whole number through a larger one, {MOST_NUMBERS:,} of them at most")
    if isinstance(given, list) and given and all(isinstance(value, str) for value in given):
        return given
    raise PolicyError(f"{where} must be a list of values, or {{from: 0, through: 105}} for whole numbers")


def make_registration(folder: Path, *, progress: Progress | None = None) -> dict[str, Any]:
    """Verify a release by a plan and return what registers it; one that does not hold is refused."""
    public = public_folder(folder)
    verification = verify(public, progress=progress)
    if not verification.verified:
        raise VerificationError(f"{folder} does not hold what it promises: {'; '.join(verification.failures)}")
    try:
        manifest = read_json((public / "manifest.json").read_bytes())
        files = {path.name: file_digest(path) for path in sorted(public.iterdir())}
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror or 'input or output error'}") from None
    if not isinstance(manifest.get("agreed"), dict):
        raise UsageError(f"{folder} was not made by an agency's plan; make it with shoal agency apply")
    return {"manifest": manifest, "files": files}
