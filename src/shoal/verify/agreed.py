"""Releases by an agency's plan: a row has its class in the plan and its sensitive value, nothing more.

Rameshwar and Tandon, "(l,delta)-diversity", and ``docs/adr/0016-agency.md``. The plan must be consistent; then
follow the form of the rows, the values that each class of the plan shows, and the comparison with the source.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from shoal.core.arrays import CodeArray
from shoal.manifest import AgreedFile, Digest, Listed, ManifestError, StrictEntry, parse_json, read_entry
from shoal.verify.classes import Answer, FormRows, check_labels, check_rows
from shoal.verify.counting import ReleaseTables, as_one
from shoal.verify.covers import put_values, relate
from shoal.verify.engine import Engine
from shoal.verify.manifest import Manifest, demand
from shoal.verify.promises import Counts, Promise, agrees, answer, judge
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.rows import Release, SourceRows
from shoal.verify.source_checks import SourceCounts, check_order, check_source_counts, find_share
from shoal.verify.truth import find_type, write_print

CLASS = "class"
_MODELS = {  # model of a plan -> its parameter, and the model whose figure its classes reach
    "l-delta-diversity": ("l", "distinct-l-diversity"),
    "k-delta-anonymity": ("k", "k-anonymity"),
    "entropy-l-delta-diversity": ("l", "entropy-l-diversity"),
}
_DIVERSITY, _ANONYMITY, _ENTROPY = _MODELS
_ROUNDING = Fraction(1, 10**9)  # m is written in floating point
Number = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(ge=1, lt=2**53)]


class _Attribute(StrictEntry):
    name: Annotated[str, Field(min_length=1)]
    values: Annotated[Listed[str], Field(min_length=1)]


class PlanFile(StrictEntry):
    """The plan as it is written."""

    format: Literal[2]
    kind: Literal["shoal-agency-plan"]
    quasi: Annotated[Listed[_Attribute], Field(min_length=1)]
    sensitive: _Attribute
    order: str
    arrangement: str
    promise: dict[str, Any]
    delta: Annotated[float, Field(gt=0, lt=1)]
    p: Annotated[float, Field(gt=0, le=1)]
    eta: Annotated[float, Field(ge=0)]
    n: Positive
    n_tight: Positive
    records: Positive
    m: float
    classes: Annotated[int, Field(ge=1, lt=2**31)]
    points: Listed[Annotated[Listed[Number], Field(min_length=1)]]
    runs: Annotated[Listed[Listed[Number]], Field(min_length=1)]
    values: Listed[Listed[Number]]
    digest: Digest


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A consistent plan."""

    written: PlanFile
    model: str
    least: Fraction
    columns: dict[str, tuple[str, ...]]  # the values of each attribute, the sensitive one last
    points: CodeArray  # (n_quasi, n_points) into the values of each quasi attribute
    class_of: CodeArray  # (n_points,) from 1
    shown: CodeArray  # (n_classes, l) values that every class must show; (n_classes, 0) if the plan names none

    @property
    def sensitive(self) -> str:
        """The sensitive attribute."""
        return self.written.sensitive.name

    @property
    def places(self) -> range:
        """The numbers of the quasi attributes, from 1."""
        return range(1, len(self.columns))


def read_plan(path: Path, declared: AgreedFile) -> Plan:
    """Return the plan in the folder; raise a ManifestError if it was altered, or contradicts itself."""
    demand(path.is_file(), "it cannot be read (no plain file)")  # a pipe or a device may never end
    try:
        content = path.read_bytes()
        raw = parse_json(content.decode("utf-8"))
    except (OSError, UnicodeDecodeError) as fault:
        raise ManifestError(f"it cannot be read ({type(fault).__name__})") from None
    demand(hashlib.sha256(content).hexdigest() == declared.sha256, "its SHA-256 is not the declared one")
    written = read_entry(PlanFile, raw, "it")
    # The digest covers everything but itself, with sorted keys and without blanks.
    rest = {key: value for key, value in raw.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    found = hashlib.sha256(text.encode("ascii")).hexdigest()
    demand(found == written.digest, "it was altered: its digest does not match its content")
    demand(found == declared.digest, "its digest differs from the manifest's")
    demand(written.classes == declared.classes, "it has another number of classes than the manifest")
    return _read_consistent(written)


def _read_consistent(written: PlanFile) -> Plan:
    """Return the plan, or raise a ManifestError if its entries contradict each other."""
    columns = {entry.name: entry.values for entry in (*written.quasi, written.sensitive)}
    demand(len(columns) == len(written.quasi) + 1, "it names an attribute twice")
    demand(all(len(set(values)) == len(values) for values in columns.values()), "an attribute has a value twice")
    demand(CLASS not in columns, f"it has an attribute called {CLASS!r}")
    demand(written.eta < written.p, "its p and eta are not consistent")
    # points: every combination of quasi values that the plan has
    sizes, lengths = [len(entry.values) for entry in written.quasi], {len(column) for column in written.points}
    demand(len(written.points) == len(sizes) and len(lengths) == 1, "its points are not lists of one length")
    points = np.array(written.points, dtype=np.int32)
    demand(bool((points.max(axis=1) < sizes).all()), "its points have values that it does not list")
    demand(np.unique(points, axis=1).shape == points.shape, "it has a point twice")
    # runs: pairs of a class and the number of consecutive points in it
    demand(all(len(run) == 2 for run in written.runs), "its runs are not pairs")
    number, length = np.array(written.runs, dtype=np.int64).T
    whole = bool((length >= 1).all()) and int(length.sum()) == points.shape[1] >= written.classes
    demand(whole and np.array_equal(np.unique(number), np.arange(1, written.classes + 1)), "its runs do not fit")
    # promise: it agrees with the numbers that were computed for it
    model = str(written.promise.get("model"))
    demand(model in _MODELS, "this verifier does not have its model")
    name, _ = _MODELS[model]
    demand(set(written.promise) == {"model", name}, "its promise has other parameters than its model")
    least = written.promise[name]
    demand(type(least) in ((int, float) if model == _ENTROPY else (int,)), f"its {name} is not a number of its model")
    most = 2**53 if model == _ANONYMITY else len(written.sensitive.values)
    demand(1 <= least <= most, f"its {name} is below 1, or above the number of values")
    n, n_tight, m = written.n, written.n_tight, Fraction(str(written.m))
    fits = n_tight <= n and written.records in (n, n_tight) and written.classes <= m * (1 + _ROUNDING)
    alike = model == _DIVERSITY or (n == n_tight and m == written.classes)
    demand(fits and alike, "its n, n_tight, m, records and classes do not fit its promise")
    # values that every class must have
    n_lists, l = (written.classes, least) if model == _DIVERSITY else (0, 0)
    fits = len(written.values) == n_lists and all(len(each) == l for each in written.values)
    demand(fits, "it does not name the values of every class that it promises")
    shown = np.array(written.values, dtype=np.int32).reshape(written.classes, l)
    demand(not (shown >= len(written.sensitive.values)).any(), "it names values that it does not list")
    demand(bool((np.diff(shown, axis=1) > 0).all()), "it names a value of a class twice, or not in order")
    class_of = np.repeat(number, length).astype(np.int32)
    return Plan(written, model, Fraction(str(least)), columns, points, class_of, shown)


def verify_agreed(given: FormRows) -> Answer:
    """Check a release by a plan."""
    release, plan, source = given.release, given.plan, given.source
    assert plan is not None  # noqa: S101 - it was read with the manifest
    manifest, engine = release.manifest, release.engine
    roles = {name: "sensitive" if name == plan.sensitive else "quasi" for name in plan.columns}
    strange = [(one.name, one.role) for one in manifest.attributes] != [*roles.items()] or manifest.attributes[-1].boxed
    different = strange and "the attributes or their roles differ from the plan, or the sensitive one has labels"
    in_text = manifest.data is not None and manifest.data.format == "csv"
    numbered = in_text or find_type(release.types[CLASS]) == "HUGEINT"
    checks = [
        Check("plan", True, "the plan is the declared one, and it is consistent"),
        Check.of("attributes", different, "the plan has the same attributes and roles"),
        Check.of("class column", not numbered and "the classes are not whole numbers", "the classes are numbers"),
    ]
    if not all(check.ok for check in checks):
        return Answer(checks)
    tables = _count_rows(release, plan)
    found = engine.fetch_one("SELECT sum(c), sum(c) FILTER (class IS NULL), sum(c) FILTER (value IS NULL) FROM counted")
    n_rows, outside, unknown = (int(n or 0) for n in found)
    differ = " OR ".join(f"min(d{at}) <> max(d{at})" for at in plan.places)
    mixed = len(engine.fetch(f"SELECT class FROM counted WHERE class IS NOT NULL GROUP BY class HAVING {differ}"))
    misplaced = outside and f"{outside} rows do not have the number of a class of the plan"
    misplaced = misplaced or (mixed and f"rows of {mixed} classes have different labels")
    fault = unknown and f"{unknown} rows have a value of {plan.sensitive} that the plan does not have, or none"
    verb = "are enough for" if n_rows >= plan.written.records else "are fewer than"
    checks += [
        check_rows(n_rows, manifest),
        check_labels(release, tables),
        Check.of("classes", misplaced, "every row is in a class of the plan, and rows of a class have the same labels"),
        Check.of("values", fault, f"every value of {plan.sensitive} is one of the plan's"),
        Check("records", n_rows >= plan.written.records, f"{n_rows} records {verb} the plan's {plan.written.records}"),
        _check_hulls(engine, manifest, plan),
    ]
    guarantees = [_judge(engine, promise, plan) for promise in manifest.promises]
    checks += [] if source is None else _compare(release, plan, source, n_rows)
    return Answer(checks, guarantees)


def _put_places(engine: Engine, table: str, distinct: str, known: Sequence[str]) -> None:
    """Make a table of distinct values v and the place of each, as text, among the known ones; others are left out."""
    values = engine.read(f"SELECT DISTINCT v FROM ({distinct}) AS given(v)")["v"].combine_chunks()
    spelled = pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values  # not -0.0
    texts = pa.array(known, pa.string())
    engine.put("place_rows", {"v": values, "place": pc.index_in(spelled.cast(pa.string()), texts, skip_nulls=True)})
    engine.make(table, "SELECT * FROM place_rows WHERE place IS NOT NULL")


def _read_class(release: Release, plan: Plan) -> str:
    """Return the class of a row and its sensitive value v in SQL; the class is NULL if the plan does not have it."""
    column, number = release.names[CLASS], f"try_cast({release.names[CLASS]} AS BIGINT)"
    plain = f"{number}::VARCHAR = {column}::VARCHAR"
    own = f"CASE WHEN {plain} AND {number} BETWEEN 1 AND {plan.written.classes} THEN {number} END"
    return f"{own} AS class, {release.names[plan.sensitive]} AS v"


def _count_rows(release: Release, plan: Plan) -> ReleaseTables:
    """Make the table ``counted`` of rows by class, value, a place in the plan, and labels d1, ...

    ``shown`` has the records n of each class, and c with each value.
    """
    engine, tables = release.engine, ReleaseTables(release.manifest)
    engine.run(*tables.labels.statements())
    names = zip(plan.places, plan.columns, strict=False)
    digits = [f"{tables.labels.digit(name, release.names[name])} AS d{at}" for at, name in names]
    own = f"{_read_class(release, plan)}, {', '.join(digits)}"
    engine.make("met", f"SELECT {own}, count(*) AS c FROM release GROUP BY ALL")
    _put_places(engine, "shown_places", "SELECT v FROM met", plan.columns[plan.sensitive])
    joined = "met LEFT JOIN shown_places AS p ON met.v IS NOT DISTINCT FROM p.v"
    engine.make("counted", f"SELECT met.*, place AS value FROM {joined}")
    total = "SELECT class, value, sum(c) AS c FROM counted WHERE class IS NOT NULL AND value IS NOT NULL GROUP BY ALL"
    engine.make("shown", f"SELECT class, value, c, sum(c) OVER (PARTITION BY class) AS n FROM ({total})")
    if tables.numbered is not None:  # the published labels are read from these
        packed = as_one(tables.numbered.pack([f"d{at}" for at in plan.places]))
        engine.make("classes", f"SELECT DISTINCT {packed} AS class FROM counted")
    return tables


def _check_hulls(engine: Engine, manifest: Manifest, plan: Plan) -> Check:
    """Check that each class has the label that covers its hull, from its first value to its last, or all values."""
    engine.put("plan_points", {CLASS: plan.class_of, **{f"p{at}": plan.points[at - 1] for at in plan.places}})
    wrong = []
    for at, attribute in zip(plan.places, manifest.of_role("quasi"), strict=True):
        values = plan.columns[attribute.name]
        engine.put("plan_values", {"v": pa.array(values, pa.string()), "place": pa.array(range(len(values)))})
        own = put_values(engine, replace(manifest, missing_tokens=()), attribute, "SELECT v FROM plan_values")
        covered = f"{relate(engine, attribute, own)} JOIN {own} USING (id) JOIN plan_values USING (v)"
        labels = f"SELECT number, min(place) AS first, max(place) AS last, count(*) AS n FROM {covered} GROUP BY number"
        hulls = f"SELECT class, min(p{at}) AS low, max(p{at}) AS high FROM plan_points GROUP BY class"
        alike = f"WHERE class IS NOT NULL GROUP BY class HAVING min(d{at}) = max(d{at})"
        fits = f"n = {len(values)} OR first = low AND last = high AND n = high - low + 1"
        found = engine.value(
            f"SELECT count(*) FROM (SELECT class, min(d{at}) AS number FROM counted {alike})"
            f" JOIN ({hulls}) USING (class) LEFT JOIN ({labels}) USING (number) WHERE NOT coalesce({fits}, false)"
        )
        wrong += [f"{attribute.name} ({found} classes)"] if found else []
    fault = wrong and f"labels are not those around the points of their class: {', '.join(wrong)}"
    return Check.of("hulls", fault, "every label is the one around the points of its class")


def _judge(engine: Engine, promise: Promise, plan: Plan) -> CheckedGuarantee:
    """Return the promise with the figure that the plan's classes reach; in doubt it fails."""
    if promise.obstacle:
        return answer(promise, None, False, promise.obstacle)
    name, model = _MODELS[promise.model]
    own = plan.model, plan.least, Fraction(str(plan.written.delta))
    if (promise.model, promise.fraction(name), promise.fraction("delta")) != own:
        return answer(promise, None, False, "it is not the promise of the plan")
    n_classes = plan.written.classes
    if empty := n_classes - int(engine.value("SELECT count(DISTINCT class) FROM shown")):
        return answer(promise, None, False, f"{empty} of {n_classes} classes of the plan have no record")
    found = judge(engine, Promise(model, {name: plan.least, "harmless": ()}, None), [Counts("shown", total="0")])
    failing = found.failing
    if plan.model == _DIVERSITY:
        number = np.repeat(np.arange(1, n_classes + 1), plan.shown.shape[1])
        engine.put("named_values", {CLASS: number, "value": plan.shown.reshape(-1)})
        failing = engine.value("SELECT count(DISTINCT class) FROM named_values ANTI JOIN shown USING (class, value)")
    fault = found.obstacle or (failing and f"{failing} of {n_classes} classes fail it")
    if not fault and not agrees(promise.claimed, found.achieved):
        fault = "the manifest's 'achieved' is not the figure of the rows"
    return answer(promise, found.achieved, not fault, fault or f"all {n_classes} classes of the plan satisfy it")


def _compare(release: Release, plan: Plan, source: SourceRows, n_rows: int) -> Iterator[Check]:
    """Compare with the source: as many records of every class have every value there."""
    engine, manifest, columns = release.engine, release.manifest, [source.places[name] for name in plan.columns]
    with source.reading([*plan.columns]):
        engine.make("tuples", f"SELECT {', '.join(columns)}, count(*) AS c FROM source GROUP BY ALL")
    joins = ""
    for at, (column, known) in enumerate(zip(columns, plan.columns.values(), strict=True), 1):
        _put_places(engine, f"places_{at}", f"SELECT {column} FROM tuples", known)
        joins += f" JOIN places_{at} AS m{at} ON {column} IS NOT DISTINCT FROM m{at}.v"
    points = " AND ".join(f"p{at} = m{at}.place" for at in plan.places)
    placed = f"SELECT tuples.*, class, m{len(columns)}.place FROM tuples{joins} JOIN plan_points ON {points}"
    engine.make("located", placed)
    rows, inside = (engine.value(f"SELECT coalesce(sum(c), 0) FROM {table}") for table in ("tuples", "located"))
    yield check_source_counts(manifest, n_rows, SourceCounts(int(rows), 0, ()))
    if rows > inside:
        yield Check("domain", False, f"{rows - inside} source rows are outside the domain of the plan")
    both = "SELECT class, value, c FROM shown UNION ALL SELECT class, place, -c FROM located"
    more = f"(SELECT sum(c) AS c FROM ({both}) GROUP BY class, value)"  # rows that the source does not have
    wrong = engine.value(f"SELECT greatest(sum(c) FILTER (c > 0), -sum(c) FILTER (c < 0)) FROM {more}")
    fault = wrong and f"{wrong} rows differ from the source in their class or their value"
    yield Check.of("truth", fault, "every class has exactly the values that the source has for it")
    # The order of rows is compared by hashes of class and value.
    engine.run(f"SET VARIABLE salt = '{secrets.token_hex(32)}'")
    hashed, share = write_print([CLASS, "place"], []), find_share(manifest.rows)
    sampled = f"SELECT h FROM (SELECT {hashed} AS h, row FROM {{}}) WHERE mod(h, {share}) = 0 ORDER BY row"
    shown = f"(SELECT {_read_class(release, plan)}, row_number() OVER () AS row FROM release) AS r"
    published = f"{shown} JOIN shown_places AS p ON r.v IS NOT DISTINCT FROM p.v WHERE class IS NOT NULL"
    tokens = engine.read(sampled.format(published))["h"].to_numpy()
    alike = " AND ".join(f"source.{column} IS NOT DISTINCT FROM located.{column}" for column in columns)
    with source.reading([*plan.columns]):
        true = engine.read(sampled.format(f"source JOIN located ON {alike}"))["h"].to_numpy()
    yield check_order(tokens, true)
