"""The verification of a release in one part: every row is a record, and rows with equal quasi values are a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from shoal.core.errors import InputError
from shoal.verify import form
from shoal.verify.counting import ReleaseTables
from shoal.verify.covering import put_covers
from shoal.verify.covers import Covers, check_readings, read_covers
from shoal.verify.engine import CannotCheckError
from shoal.verify.guarantees import NO_POPULATION, Judgement, conclude, judge
from shoal.verify.manifest import Manifest
from shoal.verify.models import find_model
from shoal.verify.promises import Counts, Promise
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.rows import Release, SourceRows

if TYPE_CHECKING:
    from shoal.sources.base import Source


def read_all_covers(manifest: Manifest) -> dict[str, Covers]:
    """Return what the labels of all attributes cover, or raise CoverError if one means nothing or reads otherwise."""
    covers = {attribute.name: read_covers(attribute) for attribute in manifest.labelled}
    # the plan says what its labels cover
    for attribute in manifest.labelled if manifest.written.agreed is None else ():
        check_readings(attribute)
    return covers


def put_declared(release: Release) -> ReleaseTables:
    """Make the tables of declared labels and the types of labels; return the statements that count the rows."""
    engine, manifest = release.engine, release.manifest
    engine.run("CREATE TEMP MACRO folded(t) AS trim(t)")
    if manifest.labelled:
        put_covers(engine, manifest)
        engine.run("CREATE TEMP VIEW declared AS SELECT attribute, label, number FROM covers")
    return ReleaseTables(manifest)


def check_labels(release: Release, tables: ReleaseTables) -> Check:
    """Check that no attribute has texts that are not labels, and none has labels that no row has."""
    manifest, engine = release.manifest, release.engine
    engine.run(tables.list_published())
    found = engine.fetch("SELECT attribute, list(number) FROM published GROUP BY attribute")
    met = {name: set(numbers) for name, numbers in found}
    labelled = {one.name: len(one.labels or {}) for one in manifest.labelled}
    unknown = [name for name, n in labelled.items() if any(number >= n for number in met.get(name, ()))]
    if unknown:
        return Check("labels", False, f"values in {', '.join(unknown)} are not labels of the manifest")
    idle = {name: n - len(met.get(name, ())) for name, n in labelled.items()}
    listed = [f"{name} ({times})" for name, times in idle.items() if times]
    if listed:
        return Check("labels", False, f"the manifest lists labels that no row has: {', '.join(listed)}")
    return Check("labels", True, "every label is declared, and every declared label occurs")


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of a release, counted, and what is given to judge them by."""

    release: Release
    tables: ReleaseTables
    covers: Mapping[str, Covers]
    source: SourceRows | None
    populations: Mapping[str, Source]

    def verify(self) -> form.Answer:
        """Return checks and guarantees."""
        manifest, engine, source = self.release.manifest, self.release.engine, self.source
        if manifest.promises:
            engine.run(*self.tables.count())
        else:
            engine.run(*self.tables.labels.statements())
        every = "SELECT coalesce(sum(n), 0) FROM classes" if manifest.promises else "SELECT count(*) FROM release"
        n_rows = int(engine.value(every))
        checks = [form.check_rows(n_rows, manifest)]
        if self.covers:
            checks.append(check_labels(self.release, self.tables))
        if _find_levels(manifest):
            checks.append(_check_levels(manifest, self.covers))
        if n_rows:
            checks += [_check_population(name, manifest, given) for name, given in self._asked.items()]
        guarantees = [self._judge(promise) if n_rows else conclude(promise, None) for promise in manifest.promises]
        if manifest.written.synthetic is not None:
            checks.append(Check("truth", True, "the rows were drawn at random, so they are not compared with people"))
        elif source is not None:
            from shoal.verify.truth import Comparison

            true = Comparison(self.release, self.tables, source).check()
            checks += true
            if source.witness is None:
                why = "people are counted with the witness"
                guarantees = _leave_out(manifest.promises, guarantees, why, ok=True)
            elif all(check.ok for check in true):
                more, guarantees = self._ask_source(source, guarantees)
                checks += more
            else:
                guarantees = _leave_out(manifest.promises, guarantees, "the witness is not true")
        return form.Answer(checks, guarantees)

    @property
    def _asked(self) -> dict[str, Source]:
        """The population tables that promises need and that are given."""
        names = {promise.parameters.get("population") for promise in self.release.manifest.promises}
        return {name: given for name, given in self.populations.items() if name in names}

    def _judge(self, promise: Promise) -> CheckedGuarantee:
        """Judge a promise by the published rows."""
        manifest, engine = self.release.manifest, self.release.engine
        if promise.counts is not None:
            from shoal.verify import people

            weaker = people.weaken(promise)
            return people.judge_records(promise, None if weaker is None else self._judge_records(weaker))
        model, uncovered = find_model(promise.model), 0
        if model is not None and model.about == "population" and not promise.obstacle:
            name = str(promise.parameters["population"])
            changed = any(not one.boxed or one.name in manifest.techniques for one in manifest.of_role("quasi"))
            if name not in self.populations:
                return conclude(promise, Judgement(0, obstacle=NO_POPULATION, open=True))
            if changed:
                return conclude(
                    replace(promise, obstacle="cannot check: a population has no values of changed attributes"),
                    Judgement(0, obstacle="cannot check: a population has no values of changed attributes"),
                )
            table, uncovered = self._count_population(name)
            found = judge(engine, promise, [Counts(table)])
        else:
            found = self._judge_records(promise)
        boxed = {one.name for one in manifest.labelled}
        induced = any(name in boxed for subject in promise.subjects for name in subject)
        grounds = ", by the frequencies that labels induce" if induced else ""
        return conclude(promise, found, uncovered=uncovered, grounds=grounds)

    def _judge_records(self, promise: Promise) -> Judgement:
        model = find_model(promise.model)
        if promise.obstacle or model is None:
            return Judgement(0, obstacle=promise.obstacle)
        if model.about != "values":
            if model.about in ("parts", "plan"):
                return Judgement(0, obstacle="cannot check: only a sliced release has parts to promise this model of")
            return judge(self.release.engine, promise, [Counts("classes")])
        try:
            tables = [self._count_values(promise, subject) for subject in promise.subjects]
        except CannotCheckError as fault:
            return Judgement(0, obstacle=f"cannot check: {fault}")
        return judge(self.release.engine, promise, tables)

    def _count_values(self, promise: Promise, subject: Sequence[str]) -> Counts:
        from shoal.verify.people import put_texts

        model, tables, engine = find_model(promise.model), self.tables, self.release.engine
        boxed = [name for name in subject if tables.sensitive[name][1].boxed]
        if boxed and len(subject) == 1 and not (model is not None and model.labels):
            raise CannotCheckError(f"values of {boxed[0]!r} are generalized, which only tau-l-diversity allows")
        known = {row[0] for row in engine.fetch("SELECT table_name FROM duckdb_tables()")}
        for name in subject:
            place = tables.sensitive[name][0]
            if f"texts{place}" not in known:
                source = None if self.source is None else self.source.types[name]
                distinct = f"SELECT DISTINCT s{place} AS s FROM counted"
                put_texts(engine, self.release.manifest, name, distinct, f"texts{place}", source)
        places = [tables.sensitive[name][0] for name in subject]
        several = any(
            engine.value(f"SELECT count(*) > count(DISTINCT coalesce('_' || value, '')) FROM texts{place}")
            for place in places
        )
        counts, statement = tables.count_values(
            tuple(subject), promise.parameters.get("weights"), distinct=not several and len(tables.sensitive) == 1
        )
        if statement is not None:
            engine.run(statement)
        return counts

    def _count_population(self, name: str) -> tuple[str, int]:
        """Make the table of classes with the rows of a population that each covers; count the rows that none covers."""
        manifest, engine, given = self.release.manifest, self.release.engine, self.populations[name]
        quasi = manifest.of_role("quasi")
        absent = [one.name for one in quasi if one.name not in given.schema.names]
        if absent:
            raise InputError(f"{given.name} lacks columns of the release: {', '.join(absent)}")
        numbers, place = self.tables.numbered, list(self.populations).index(name)
        assert numbers is not None  # noqa: S101 - all quasi attributes have labels
        keys = ["class"] if len(numbers.bounds) == 1 else [f"class[{n}]" for n in range(1, len(numbers.bounds) + 1)]
        digits = ", ".join(f"{numbers.unpack(at, keys)} AS l{at + 1}" for at in range(len(quasi)))
        engine.run(f"CREATE OR REPLACE TEMP TABLE class_labels AS SELECT class, n, {digits} FROM classes")
        from shoal.verify.reach import count_covered  # few guarantees are about populations

        uncovered = count_covered(engine, manifest, given, "class_labels", f"covered_{place}")
        table = f"population{place}"
        engine.run(
            f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT class, n, coalesce(total, 0) AS covered"
            f" FROM classes LEFT JOIN covered_{place} USING (class)"
        )
        return table, uncovered

    def _ask_source(
        self, source: SourceRows, guarantees: Sequence[CheckedGuarantee]
    ) -> tuple[list[Check], list[CheckedGuarantee]]:
        """Return the checks and guarantees that the source decides, once the witness was shown to be true."""
        from shoal.verify import people

        manifest, engine, checks = self.release.manifest, self.release.engine, []
        counted = [promise for promise in manifest.promises if promise.counts is not None and not promise.obstacle]
        changed = people.find_changed(manifest)
        if counted or changed:
            rows = people.TrueRows.of_classes(source, people=bool(counted))
            n_classes = int(engine.value("SELECT count(*) FROM classes"))
            if changed:
                checks.append(people.check_true_values(rows, n_classes))
            if counted and rows.n_classes != n_classes:
                why = "equal values are spelled in several ways, so records cannot be followed"
                guarantees = _leave_out(manifest.promises, guarantees, why)
            else:
                guarantees = [
                    conclude(promise, rows.judge_people(promise)) if promise in counted else found
                    for promise, found in zip(manifest.promises, guarantees, strict=True)
                ]
        return [*checks, *people.check_withheld(manifest, source)], list(guarantees)


def _leave_out(
    promises: Sequence[Promise], guarantees: Sequence[CheckedGuarantee], why: str, *, ok: bool = False
) -> list[CheckedGuarantee]:
    """Return guarantees of which those about people were not checked: they fail unless *ok*."""
    about_people = (
        promise.counts is not None and found.ok for promise, found in zip(promises, guarantees, strict=True)
    )
    return [
        replace(found, ok=ok, done=not ok, partly=False, detail=f"not checked: {why}") if left else found
        for found, left in zip(guarantees, about_people, strict=True)
    ]


def _find_levels(manifest: Manifest) -> Mapping[str, object]:
    stated = manifest.written.levels or manifest.written.method_parameters.get("levels")
    return stated if isinstance(stated, dict) else {}


def _check_levels(manifest: Manifest, covers: Mapping[str, Covers]) -> Check:
    """Check that labels of an attribute do not overlap, as at one level, and are their only value at level 0.

    If single values are suppressed, labels overlap with the label of all values, which is at no level.
    """
    levels, full = _find_levels(manifest), manifest.written.levels is not None
    for attribute in manifest.of_role("quasi"):
        cover = covers[attribute.name]
        order = np.argsort(cover.low, kind="stable")
        if full and (cover.low[order][1:] < cover.high[order][:-1]).any():
            return Check("levels", False, f"labels of {attribute.name} overlap, so they are not of one level")
        if levels.get(attribute.name) != 0 or attribute.kind != "category":
            continue
        for label, entry in attribute.covers.items():
            several = [value.strip('"') for value in entry.get("values", ())] != [label.strip('"')]
            if several if "values" in entry else full and "any" in entry:
                return Check(
                    "levels", False, f"{attribute.name} is at level 0, but a label of it is not its only value"
                )
    return Check("levels", True, "every quasi-identifier has labels of one level")


def _check_population(name: str, manifest: Manifest, population: Source) -> Check:
    declared = manifest.written.populations.get(name)
    if declared is None:
        return Check("population", True, "the manifest does not name the file of the population")
    same = population.digest() == declared.sha256
    detail = "the population is the declared one" if same else "the population differs from the declared one"
    return Check("population", same, detail)
