"""Tables of counts or probabilities over a campaign's domain: checked, stored as codes, and added exactly.

Such a table has columns 0, 1, ... of codes into the domain's values, and ``weight``: integers are counts, everything
else is probabilities as written. Counts by class and value contain all that an anonymized table states about its people
(Rameshwar and Tandon, 2.3), so they reveal no more than the published rows. They cannot prove that a published file has
them. The module also reads campaign files and makes registrations of releases; neither contains rows of people.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from shoal.agency.distribution import WEIGHTS, JointDistribution, Order, count_records, read_distribution
from shoal.agency.domain import Domain
from shoal.core.arrays import IntArray, KeyArray
from shoal.core.documents import load_with_lines, read_json, read_text
from shoal.core.errors import InputError, PolicyError, UsageError, VerificationError, did_you_mean
from shoal.core.kernels import pack
from shoal.core.progress import Progress
from shoal.core.wording import count_noun
from shoal.linking.kernels import Histograms
from shoal.manifest import read_manifest
from shoal.models.base import ClassHistograms, Whole
from shoal.release.forms.agreed import AgreedPlan, make_model, read_plan
from shoal.release.release import find_public
from shoal.reports.verifying import verify
from shoal.sources.base import SourceOptions, file_digest
from shoal.sources.frames import open_arrow
from shoal.sources.opening import open_source
from shoal.taxonomies.construct import from_levels, scale_of
from shoal.taxonomies.parse import decimal_numbers, texts, whole_numbers

LARGEST = 2**62
LONGEST = 100  # digits of a probability
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)  # a class and a value share a key of 64 bits
_CELLS = 1 << 22  # counts of a batch of classes
_AGREES = 1e-9  # tolerated difference between claimed and computed values
_WEIGHT = "weight"


def code_rows(columns: Sequence[pa.Array], weights: pa.Array, domain: Domain, where: str) -> pa.Table:
    """Return text rows as codes; values outside the domain and repeated rows are errors that name columns only.

    >>> domain = Domain.of({"quasi": [{"name": "sex", "values": ["F", "M"]}],
    ...                     "sensitive": {"name": "illness", "values": ["flu", "gout"]}})
    >>> code_rows([pa.array(["M"]), pa.array(["gout"])], pa.array([3]), domain, "the table").to_pylist()
    [{'0': 1, '1': 1, 'weight': 3}]
    """
    codes = [
        pc.index_in(column, value_set=pa.array(values, pa.string()))
        for column, values in zip(columns, domain.values, strict=True)
    ]
    missing = {name: column.null_count for name, column in zip(domain.names, codes, strict=True)}
    if outside := [f"{name!r} ({count:,})" for name, count in missing.items() if count]:
        raise InputError(
            f"{where} has rows whose values are missing or outside the campaign's domain, in the columns "
            f"{', '.join(outside)}; correct them and send the table again"
        )
    key = pack([column.to_numpy(zero_copy_only=False) for column in codes], domain.sizes)
    if repeated := len(key) - len(np.unique(key)):
        rows = count_noun(repeated, "row")
        raise InputError(f"{where} repeats combinations of values in {rows}; add up their counts")
    return pa.table([*codes, weights], names=[*map(str, range(len(codes))), _WEIGHT])


def read_rows(columns: list[str], rows: list[Any], domain: Domain, *, probabilities: bool, most: int) -> pa.Table:
    """Check the rows of a request: every cell must be a text of the domain or a number."""
    weights = ("count", "probability") if probabilities else ("count",)
    weight = next((name for name in weights if sorted(columns) == sorted([*domain.names, name])), None)
    if weight is None:
        named, wanted = ", ".join(map(repr, domain.names)), " or ".join(map(repr, weights))
        raise InputError(f"the columns must be the campaign's ({named}) and {wanted}")
    if len(rows) > most:
        raise InputError(f"a table may have at most {most:,} rows; this one has {len(rows):,}")
    if set(map(type, rows)) != {list} or set(map(len, rows)) != {len(columns)}:
        raise InputError(f"every row must have {len(columns)} values, one for each of its columns")
    cells = dict(zip(columns, zip(*rows, strict=True), strict=True))
    for name in domain.names:
        if set(map(type, cells[name])) != {str}:
            raise InputError(f"column {name!r} must have texts only, as in the domain")
    kept = (_read_counts if weight == "count" else _read_probabilities)(cells[weight])
    return code_rows([pa.array(cells[name], pa.string()) for name in domain.names], kept, domain, "the table")


def _read_counts(cells: tuple[Any, ...]) -> pa.Array:
    if set(map(type, cells)) != {int} or min(cells) < 0:
        raise InputError("column 'count' must have only whole numbers of at least 0")
    if sum(cells) >= LARGEST:
        raise InputError("column 'count' sums to 2^62 or more; shoal cannot count that far")
    return pa.array(cells, pa.int64())


def _read_probabilities(cells: tuple[Any, ...]) -> pa.Array:
    kinds = set(map(type, cells))
    if kinds == {str}:
        if max(map(len, cells)) > LONGEST:
            raise InputError("column 'probability' has texts that are too long for a number")
        written = pa.array(cells, pa.string())
        if invalid := int((~decimal_numbers(written)[1]).sum()):
            raise InputError(f"column 'probability' has {invalid:,} texts that are not numbers")
        return written
    if not kinds <= {int, float} or not all(0 <= cell <= 1 for cell in cells):
        raise InputError("column 'probability' must have only numbers from 0 to 1, or only decimal texts")
    return pa.array(list(map(float, cells)), pa.float64())


def sum_records(table: pa.Table) -> int | None:
    """Return the number of records that a table counts; None for probabilities."""
    weights = table.column(_WEIGHT)
    return int(pc.sum(weights).as_py()) if pa.types.is_integer(weights.type) else None


def serialize(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def deserialize(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()


def pool(domain: Domain, tables: Sequence[pa.Table], order: Order, most_points: int) -> JointDistribution:
    """Return the joint distribution of one table, or of several tables of counts.

    If the domain has at most *most_points* combinations of quasi values, it includes all of them; otherwise only
    combinations that a table names, even with 0. It always includes all sensitive values.
    """
    if sum(sum_records(table) or 0 for table in tables) >= LARGEST:
        raise InputError("the owners' counts sum to 2^62 or more; shoal cannot count that far")
    kind = tables[0].schema.field(_WEIGHT).type
    counted = pa.types.is_integer(kind)
    whole = pa.concat_tables([*tables, _list_silent(domain.sizes, tables[0], most_points)])
    codes = whole.column_names[:-1]
    summed = whole.group_by(codes, use_threads=False).aggregate([(_WEIGHT, "sum" if counted else "first")])
    columns = {
        name: pa.array(values, pa.string()).take(summed.column(code))
        for name, values, code in zip(domain.names, domain.values, codes, strict=True)
    }
    table = pa.table({**columns, "count" if counted else "probability": summed.column(summed.num_columns - 1)})
    trees = None
    if order == "taxonomy":
        trees = {each.name: from_levels(each.values, [], scale_of(each.values), declared=True) for each in domain.quasi}
    source = open_arrow(table, SourceOptions(), "the table")
    return read_distribution(source, domain.sensitive.name, order=order, attributes=domain.names[:-1], taxonomies=trees)


def _list_silent(sizes: Sequence[int], table: pa.Table, most_points: int) -> pa.Table:
    """Return rows with 0 for the parts of the domain that tables may lack: all points, all sensitive values."""
    n_points = math.prod(sizes[:-1]) if math.prod(sizes[:-1]) <= most_points else 0
    points = np.unravel_index(np.arange(n_points), sizes[:-1])
    first = [table.column(place)[0].as_py() for place in range(len(sizes) - 1)]
    quasi = [np.append(column, np.full(sizes[-1], code)) for column, code in zip(points, first, strict=True)]
    sensitive = np.append(np.zeros(n_points), np.arange(sizes[-1]))
    codes = [pa.array(column.astype(np.int32)) for column in (*quasi, sensitive)]
    return pa.table(
        [*codes, pa.array(["0"] * len(sensitive)).cast(table.schema.field(_WEIGHT).type)], schema=table.schema
    )


@dataclass(frozen=True, slots=True, eq=False)
class ClassCounts:
    """The number of rows of each class with each value, without zeros."""

    keys: KeyArray  # (n_pairs,) ascending: class << 32 | value, both from 0
    counts: IntArray

    @classmethod
    def of_rows(cls, columns: list[str], rows: list[Any], plan: AgreedPlan, most: int) -> ClassCounts:
        """Read the counts of a request; classes or values outside the plan are errors that quote no value."""
        domain = Domain.of_classes(plan.classes, plan.sensitive, list(plan.sensitive_values))
        table = read_rows(columns, rows, domain, probabilities=False, most=most)
        owner, value, count = (column.to_numpy()[table.column(_WEIGHT).to_numpy() > 0] for column in table.columns)
        keys = owner.astype(np.uint64) << HALF | value.astype(np.uint64)
        order = np.argsort(keys)
        return cls(keys[order], count[order])

    @classmethod
    def of_bytes(cls, content: bytes) -> ClassCounts:
        return cls(*(column.to_numpy() for column in deserialize(content).columns))

    def content(self) -> bytes:
        return serialize(pa.table([pa.array(self.keys), pa.array(self.counts)], names=["key", "count"]))

    def link(self, other: ClassCounts) -> ClassCounts:
        """Return the linked counts of every class: the smaller count of each value that both have.

        >>> one, two = (ClassCounts(np.array(keys, np.uint64), np.array([5, 2])) for keys in ([1, 7], [1, 9]))
        >>> linked = one.link(ClassCounts(two.keys, np.array([3, 3])))
        >>> linked.keys.tolist(), linked.counts.tolist()
        ([1], [3])
        """
        keys, mine, theirs = np.intersect1d(self.keys, other.keys, assume_unique=True, return_indices=True)
        return ClassCounts(keys, np.minimum(self.counts[mine], other.counts[theirs]))

    def fewest_values(self, n_classes: int) -> int:
        return int(np.bincount((self.keys >> HALF).astype(np.int64), minlength=n_classes).min())

    def list_values(self, number: int, values: Sequence[str]) -> dict[str, int]:
        """Return the counts of one class, numbered from 0, by value."""
        first, end = np.searchsorted(self.keys, np.array([number, number + 1], dtype=np.uint64) << HALF)
        codes = (self.keys[first:end] & LOW).tolist()
        return {values[code]: count for code, count in zip(codes, self.counts[first:end].tolist(), strict=True)}


def check_counts(counts: ClassCounts, plan: AgreedPlan, rows: int, claimed: float) -> float:
    """Return the value that the weakest class achieves; counts that break the promise or the manifest are errors."""
    total = int(counts.counts.sum())
    if total != rows:
        raise InputError(f"the counts sum to {total:,}, but manifest.rows is {rows:,}; register the release unchanged")
    model, kept, achieved, n_values = make_model(plan), 0, [], len(plan.sensitive_values)
    value, numbers = (counts.keys & LOW).astype(np.int64), np.arange(plan.classes + 1, dtype=np.uint64)
    sparse = Histograms(np.searchsorted(counts.keys, numbers << HALF), value, counts.counts)
    whole, step = Whole.of(np.bincount(value, counts.counts, n_values)), max(1, _CELLS // n_values)
    for first in range(0, plan.classes, step):
        table = sparse.rows(np.arange(first, min(first + step, plan.classes)), n_values)
        classes, named = ClassHistograms.of(table), plan.values[first : first + step]
        kept += int((model.holds(classes, whole) & np.take_along_axis(table, named, axis=1).all(axis=1)).sum())
        achieved.append(model.reach(classes, whole).min())
    if kept < plan.classes:
        raise InputError(
            f"by these counts, {plan.classes - kept:,} of {plan.classes:,} classes break the plan's promise; nothing "
            "was registered"
        )
    reached = float(min(achieved))
    if not math.isclose(claimed, reached, rel_tol=_AGREES, abs_tol=_AGREES):
        raise InputError(f"manifest.guarantees claims {claimed:.6g}, but the counts achieve {reached:.6g}")
    return reached


def find_class(plan: AgreedPlan, target: Mapping[str, str]) -> int:
    """Return the class, from 0, of a person with known quasi values; the message quotes no value."""
    if set(target) != set(plan.quasi):
        raise InputError(f"a target must have exactly the columns {', '.join(map(repr, plan.quasi))}")
    known = zip(plan.quasi, plan.quasi_values, strict=True)
    codes = [np.array([values.index(target[name]) if target[name] in values else -1]) for name, values in known]
    found = int(plan.locate(codes)[0])
    if found < 0:
        raise InputError("the plan's domain does not have the values of this target")
    return found


REQUIRED = ("name", "quasi", "sensitive", "delta")
OPTIONAL = ("promise", "l", "k", "eta", "order", "arrangement", "records")
MOST_NUMBERS = 100_000
_WHOLE = re.compile("-?[0-9]{1,9}")


def count_by_domain(data: object, domain: Domain) -> dict[str, Any]:
    """Count the records of a table for a contribution; values outside the domain are errors by column.

    >>> domain = Domain.of({"quasi": [{"name": "sex", "values": ["F", "M"]}],
    ...                     "sensitive": {"name": "illness", "values": ["flu", "gout"]}})
    >>> count_by_domain(pa.table({"sex": ["M", "F", "F"], "illness": ["flu", "gout", "gout"]}), domain)
    {'columns': ['sex', 'illness', 'count'], 'rows': [['F', 'gout', 2], ['M', 'flu', 1]]}
    """
    return read_counts(count_records(data, domain.names[:-1], domain.names[-1]), domain)


def read_counts(data: object, domain: Domain, *, probabilities: bool = False) -> dict[str, Any]:
    """Read a table of counts, or with *probabilities* also of probabilities, as the body of a request.

    Rows with 0 are kept: in a large domain they state that a combination belongs to it. Rows are sorted by the domain's
    values, so their order reveals nothing.
    """
    source = open_source(data)
    known = WEIGHTS if probabilities else WEIGHTS[:1]
    given = [name for name in known if name in source.schema.names]
    if len(given) != 1:
        wanted = " or ".join(f"`{name}`" for name in known)
        raise InputError(f"{source.name} needs one column {wanted}; if it has one row per person, use --data")
    names = [*domain.names, given[0]]
    if further := [name for name in source.schema.names if name not in names]:
        raise InputError(f"{source.name} has columns outside the campaign: {', '.join(map(repr, further))}")
    table = pa.Table.from_batches(list(source.batches(names)))
    *columns, weights = (texts(table.column(name).combine_chunks()) for name in names)
    if given == ["count"]:
        numbers, valid = whole_numbers(weights)
        if wrong := int((~valid | (numbers < 0)).sum()):
            rows = f"{wrong:,} of {len(weights):,} rows have another value"
            raise InputError(f"column 'count' of {source.name} must have whole numbers of at least 0; {rows}")
        weights = pa.array(numbers)
    elif missing := weights.null_count:
        raise InputError(f"column 'probability' of {source.name} lacks {missing:,} of {len(weights):,} values")
    coded = code_rows(columns, weights, domain, source.name)
    order = pc.sort_indices(coded, sort_keys=[(name, "ascending") for name in coded.column_names[:-1]])
    cells = [column.take(order).to_pylist() for column in (*columns, weights)]
    return {"columns": names, "rows": list(map(list, zip(*cells, strict=True)))}


def count_rows(data: object) -> int:
    source = open_source(data)
    if source.n_rows is not None:
        return source.n_rows
    return sum(batch.num_rows for batch in source.batches(source.schema.names[:1]))


def read_campaign(path: Path) -> dict[str, Any]:
    """Return the body that opens the campaign of a YAML file; the service checks the rest.

    ``quasi`` maps every quasi column to its values, in the order of importance: a list, or ``{from: 0, through: 105}``
    for whole numbers. ``sensitive`` maps the one sensitive column to its values.
    """
    text = read_text(path)
    document, _ = load_with_lines(text, path.name)
    if not isinstance(document, dict):
        raise PolicyError(f"{path.name} is not a campaign: it must have the keys {', '.join(REQUIRED)}")
    if absent := [key for key in REQUIRED if key not in document]:
        raise PolicyError(f"{path.name} lacks {', '.join(map(repr, absent))}, which every campaign needs")
    if not {"l", "k"} & set(document):
        raise PolicyError(f"{path.name} lacks 'l', the number that is promised, or 'k' for k-delta-anonymity")
    for key in document:
        if key not in (*REQUIRED, *OPTIONAL):
            hint = did_you_mean(key, (*REQUIRED, *OPTIONAL))
            raise PolicyError(f"{path.name} has an unexpected key {key!r}{hint}")
    # Values stay as written: 010 is not 8, and yes is not true.
    written = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - it makes only texts, lists and mappings
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
    """Verify a release by a plan and return the body that registers it, with its counts by class and value."""
    public = find_public(folder)
    if public is None:
        raise InputError(f"neither {folder} nor its folder public has a manifest.json; give the folder of a release")
    verification = verify(public, progress=progress)
    if not verification.verified:
        raise VerificationError(f"{folder} breaks its promise: {'; '.join(verification.objections)}")
    try:
        manifest = read_json((public / "manifest.json").read_bytes())
        files = {path.name: file_digest(path) for path in sorted(public.iterdir())}
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror or 'input or output error'}") from None
    stated = read_manifest(manifest)
    if stated.agreed is None:
        raise UsageError(f"{folder} was not made by an agency's plan; use shoal agency apply")
    plan = read_plan(public / stated.agreed.file)
    domain = Domain.of_classes(plan.classes, plan.sensitive, list(plan.sensitive_values))
    counts = count_by_domain(public / stated.file, domain)
    return {"manifest": manifest, "files": files, "counts": counts}
