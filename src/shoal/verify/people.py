"""Promises that the source decides: about people with several records, values before techniques, withheld people.

The witness, which was shown to be true, says in which class each source row is published. Each person counts once in a
class, and once for each value that they have there. If chance or another record decided the published values of an
attribute, promises about it must hold for the source's values as well. Withheld people together satisfy every promised
model of values, because a register shows who is absent; rows that were dropped for a missing value do not count, and in
a sample no one is known to be absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from shoal.core.dictionaries import fold_text
from shoal.core.errors import InputError
from shoal.core.wording import count_noun
from shoal.verify.counting import ClassNumbers, as_class, as_one
from shoal.verify.engine import Engine
from shoal.verify.manifest import Manifest
from shoal.verify.promises import Counts, Judgement, Promise, Subject, judge
from shoal.verify.reach import count_excess
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.rows import SourceRows, demand_columns, wrap

_NOBODY = "not checked: some published rows name no person, so people cannot be counted"
_SEVERAL = "cannot check: it compares distributions, and some people have several values"
_DIVERSE = ("distinct-l-diversity", "simple-l-diversity", "entropy-l-diversity", "recursive-cl-diversity")
_WEAKER = {  # the model of records that a promise about people implies: as many of them, and as many different values
    **dict.fromkeys(_DIVERSE, "distinct-l-diversity"),
    "k-anonymity": "k-anonymity",
    "alpha-k-anonymity": "k-anonymity",
    "profitability": "profitability",
}
_TELLS_APART = ("beta-likeness", "delta-disclosure", "t-closeness")  # look at each value by itself


def weaken(promise: Promise) -> Promise | None:
    """Return the promise about records that one about people implies, if there is one."""
    model = None if promise.parameters.get("harmless") else _WEAKER.get(promise.model)
    return None if model is None else replace(promise, model=model)


def judge_records(promise: Promise, judgement: Judgement | None) -> CheckedGuarantee:
    """Return a promise about people as far as records show it: *judgement* is of the weaker one about these."""
    fault = promise.obstacle or (judgement.obstacle if judgement else "the release is empty")
    shown, weaker = "records cannot show it", weaken(promise)
    if weaker is None and not promise.obstacle:
        fault = None
    elif judgement is not None and weaker is not None and not fault:
        shown = f"all {count_noun(judgement.classes, 'class', 'classes')} have enough records for it"
        worst = promise.kind.worst(promise.claimed or 0, judgement.achieved)
        if judgement.failing:
            fault = f"{judgement.failing} of {judgement.classes} classes have too few records or values for it"
        elif weaker.model == promise.model and worst != promise.claimed:
            fault = "the manifest's 'achieved' is better than the records allow"
    vouching = f"the data holder vouches for people, counted by {promise.counts}, with the source and internal/"
    own = promise.model, promise.parameters, promise.claimed, None, not fault, fault or f"{shown}; {vouching}"
    return CheckedGuarantee(*own, promise.counts, partly=True)


def fold_values(values: pa.Array, missing: Sequence[str], *, numeric: bool, whole: bool = False) -> pa.Array:
    """Return the normal form of values, null for missing ones; numbers are equal however they are written.

    If numbers are *whole* ones, all of their digits count.

    >>> fold_values(pa.array(["Flu ", "flu", "?", "7", "07"]), ["?"], numeric=True).to_pylist()
    ['flu', 'flu', None, '7', '7']
    """
    absent = {None, *missing, *(["nan"] if numeric else [])}

    def fold(text: str | None) -> str | None:
        if text is None or text in absent:
            return None
        try:
            if numeric:
                exact = whole and text.lstrip("-").isdecimal()
                return str(int(text)) if exact else repr(float(text) + 0.0).removesuffix(".0")
        except ValueError:
            pass
        return fold_text(text)

    return pa.array(map(fold, values.cast(pa.string()).to_pylist()), pa.string())


def put_texts(
    engine: Engine, manifest: Manifest, name: str, distinct: str, table: str, kind: pa.DataType | None = None
) -> None:
    """Make a table of an attribute's distinct values s, and their normal form; *kind* is their type in the source."""
    one, declared = manifest.written.attributes[name], manifest.techniques.get(name)
    values = engine.read(distinct)["s"].combine_chunks()
    texts = values.cast(pa.string())
    if not one.boxed:
        types = [values.type, *([] if kind is None else [kind])]
        fraction = any(map(pa.types.is_floating, types))
        whole = not fraction and any(map(pa.types.is_integer, types))
        numeric = fraction or whole or one.kind == "number" or (declared is not None and declared.numeric)
        texts = fold_values(values, manifest.missing_tokens, numeric=numeric, whole=whole)
    engine.put(f"{table}_rows", {"s": values, "value": texts})
    engine.make(table, f"FROM {table}_rows")


class TrueRows:
    """Source rows counted by class, person and the normal form v1, v2, ... of some attributes: the table *name*."""

    def __init__(
        self,
        source: SourceRows,
        attributes: Sequence[str],
        by: tuple[str, Sequence[str]],
        *,
        name: str = "true_rows",
        where: str = "w1 > 0",
        people: Mapping[str, str] | None = None,
    ) -> None:
        """Count rows by a class in SQL and the attributes that it needs; *people* have columns that name them."""
        engine, people = source.engine, people or {}
        self.engine, self.manifest, self._name = engine, source.manifest, name
        absent = [column for column in people.values() if column not in source.source.schema.names]
        if absent:
            raise InputError(f"{source.source.name} lacks the columns that name people: {', '.join(absent)}")
        self._values = {attribute: f"v{place}" for place, attribute in enumerate(attributes)}
        raw = [f"{source.places[attribute]} AS s{place}" for place, attribute in enumerate(attributes)]
        columns = [f"{by[0]} AS class", *(f"p_{key}" for key in people)]
        with source.reading(list(dict.fromkeys([*attributes, *by[1]])), people):
            counted = f"SELECT {wrap([*columns, *raw])}, count(*) AS c\nFROM source WHERE {where} GROUP BY ALL"
            engine.make("counted_rows", counted)
        kept, joins = ["r.*"], "counted_rows AS r"
        for place, attribute in enumerate(attributes):
            distinct = f"SELECT DISTINCT s{place} AS s FROM counted_rows"
            put_texts(engine, source.manifest, attribute, distinct, f"texts_of_{place}")
            joins += f" JOIN texts_of_{place} AS t{place} ON r.s{place} IS NOT DISTINCT FROM t{place}.s"
            kept.append(f"t{place}.value AS v{place}")
        engine.make(name, f"SELECT {', '.join(kept)} FROM {joins}")

    @classmethod
    def of_classes(cls, source: SourceRows, *, people: bool) -> TrueRows:
        """Count the published rows of the source by their class: the number of its quasi labels, or its values."""
        manifest = source.manifest
        quasi, sensitive = (manifest.of_role(role) for role in ("quasi", "sensitive"))
        by = as_class([source.places[one.name] for one in quasi])
        if all(one.boxed for one in quasi):
            every, labelled = ClassNumbers.of(manifest.labelled), list(manifest.labelled)
            numbers = [f"w{place + 1}" for place in range(len(every.bounds))]
            by = as_one(ClassNumbers.of(quasi).pack([every.unpack(labelled.index(one), numbers) for one in quasi]))
        counted = manifest.people if people else {}
        return cls(source, [one.name for one in sensitive], (by, [one.name for one in quasi]), people=counted)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.engine.value(f"SELECT count(DISTINCT class) FROM {self._name}"))

    def count_values(self, subject: Subject, people: str | None = None) -> Counts:
        """Count the records, or the *people* of a column, of each class that have each value."""
        what, own = (
            "sum(c)" if people is None else f"count(DISTINCT {people})",
            [self._values[name] for name in subject],
        )
        table, value = f"{self._name}_{'_'.join(own)}", as_one(own)
        sizes = f"(SELECT class, {what} AS n FROM {self._name} GROUP BY class)"
        counted = f"SELECT class, n, {value} AS value, {what} AS c FROM {self._name} JOIN {sizes} USING (class)"
        self.engine.make(table, f"{counted} GROUP BY ALL")
        whole = f"SELECT {value} AS value, {what} AS whole, (SELECT {what} FROM {self._name}) AS total"
        self.engine.make(f"{table}_whole", f"{whole} FROM {self._name} GROUP BY 1")
        attribute = self.manifest.written.attributes[subject[0]] if len(subject) == 1 else None
        return Counts(table, attribute, f"(SELECT any_value(total) FROM {table}_whole)", f"{table}_whole")

    def judge_people(self, promise: Promise) -> Judgement:
        """Judge a promise by the people of each class."""
        engine, person = self.engine, f"p_{promise.counts}"
        if engine.value(f"SELECT count(*) FROM {self._name} WHERE {person} IS NULL"):
            return Judgement(0, obstacle=_NOBODY)
        if not promise.subjects:
            people = f"count(DISTINCT {person})"
            engine.make("people_classes", f"SELECT class, {people} AS n FROM {self._name} GROUP BY class")
            return judge(engine, promise, [Counts("people_classes", total=f"(SELECT {people} FROM {self._name})")])
        tables = []
        for subject in promise.subjects:
            counts = self.count_values(subject, person)
            several = engine.value(f"SELECT sum(whole) > any_value(total) FROM {counts.whole}")
            if promise.model == "t-closeness" and several:
                return Judgement(0, obstacle=_SEVERAL)
            named = promise.parameters.get("harmless") or promise.parameters.get("separator")
            if promise.model not in _TELLS_APART and not named:
                # Each person counts with one value: the most frequent values get as many people as possible.
                # Any other choice of a value for each person spreads the values at least as evenly.
                before = (
                    "sum(c) OVER (PARTITION BY class ORDER BY c DESC, value ROWS UNBOUNDED PRECEDING) - c AS before"
                )
                engine.make(
                    f"{counts.table}_once",
                    f"SELECT class, n, value, least(c, n - before) AS c FROM (SELECT *, {before} FROM {counts.table})"
                    " WHERE before < n",
                )
                counts = counts._replace(table=f"{counts.table}_once")
            tables.append(counts._replace(several=True))
        return judge(engine, promise, tables)


def find_changed(manifest: Manifest) -> list[Promise]:
    """Return promises about values, with the subjects of which some published values do not follow from the source."""
    changed = {attribute.name for attribute in manifest.of_role("sensitive") if not manifest.is_traced(attribute)}
    found = []
    for promise in manifest.promises:
        subjects = tuple(subject for subject in promise.subjects if not changed.isdisjoint(subject))
        found += [replace(promise, subjects=subjects)] if subjects else []
    return found


def check_true_values(rows: TrueRows, n_classes: int) -> Check:
    """Judge promises on the values before techniques of attributes that chance, or another record, changed."""
    manifest, promises = rows.manifest, find_changed(rows.manifest)
    blurred = any(not one.boxed and not manifest.is_traced(one) for one in manifest.of_role("quasi"))
    if blurred or rows.n_classes != n_classes or any(promise.counts for promise in promises):
        return Check("true values", False, "the class of each source row, or its person, cannot be determined")
    faults = []
    for promise in promises:
        found = judge(rows.engine, promise, [rows.count_values(subject) for subject in promise.subjects])
        fault = found.obstacle or (found.failing and f"{found.failing} classes fail by the values before it")
        faults += [f"{promise.model}: {fault}"] if fault else []
    return Check.of("true values", "; ".join(faults), "the values before techniques satisfy the guarantees, too")


def check_one_each(manifest: Manifest, source: SourceRows) -> Check:
    """Check that as many rows were drawn as the source has people and, by the witness, that none has two of them."""
    column, drawn = manifest.people[str(manifest.one_per)], manifest.rows + manifest.withheld + manifest.dropped
    demand_columns(source.source, [column])
    shown = (
        "NULL" if source.witness is None else "count(p_unit) FILTER (w1 > 0) - count(DISTINCT p_unit) FILTER (w1 > 0)"
    )
    with source.reading([], {"unit": column}):
        everybody, twice = source.engine.fetch_one(
            f"SELECT count(DISTINCT p_unit) + bool_or(p_unit IS NULL)::INT, {shown} FROM source"
        )
    if everybody != drawn:
        return Check("sample", False, f"{drawn} rows were drawn, and the source has {everybody} values of {column}")
    if twice is None:
        return Check("sample", True, f"as many rows as the source has values of {column}")
    fault = twice and f"{count_noun(twice, 'published row')} too many for one row of each {column}"
    return Check.of("sample", fault, f"one row for each value of {column} in the source")


def check_withheld(manifest: Manifest, source: SourceRows) -> list[Check]:
    """Judge the true values of the withheld rows, by a witness that was shown to be true.

    Changed columns have no true values here, and promises that count people are not judged.
    """
    traced = {one.name for one in manifest.of_role("sensitive") if manifest.is_traced(one)}
    promises = [one for one in manifest.promises if not one.obstacle and one.counts is None and one.subjects]
    subjects = {subject: None for one in promises for subject in one.subjects if traced.issuperset(subject)}
    moved = manifest.missing_policy == "drop" and manifest.moved_complete
    if not manifest.withheld or not subjects or moved or manifest.sample or manifest.one_per:
        return []
    names = list(dict.fromkeys(name for subject in subjects for name in subject))
    dropping = list(manifest.complete) if manifest.missing_policy == "drop" else []
    complete = " AND ".join(f"{source.present(name)} IS NOT NULL" for name in dropping) or "true"
    # class 1 is published and class 0 withheld
    rows = TrueRows(source, names, ("(w1 > 0)::INT", dropping), name="absent", where=f"w1 > 0 OR {complete}")
    failing: list[str] = []
    for subject in subjects:
        counts = rows.count_values(subject)
        failing += [one.model for one in promises if subject in one.subjects and not _keeps(rows.engine, one, counts)]
    fault = failing and f"the {manifest.withheld} withheld people fail {', '.join(dict.fromkeys(failing))} together"
    return [Check.of("withheld", fault, "the withheld people satisfy the models of values together")]


def _keeps(engine: Engine, promise: Promise, counts: Counts) -> bool:
    """Whether class 0 satisfies a promise; under labels, values may be as frequent as in the table."""
    if promise.kind.labels:
        own = f"(FROM {counts.table} WHERE class = 0)"
        return not count_excess(engine, own, counts.table, "class", promise.fraction("tau"))
    found = judge(engine, promise, [counts], only=0)
    return not found.obstacle and not found.failing
