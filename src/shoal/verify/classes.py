"""The verification of a release in one part: every row is a record, and rows with equal quasi values are a class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from shoal.verify.counting import ReleaseTables
from shoal.verify.covers import Covers, put_covers
from shoal.verify.manifest import Manifest
from shoal.verify.promises import (
    Counts,
    Judgement,
    Promise,
    Subject,
    answer,
    conclude,
    judge,
)
from shoal.verify.readings import check_readings
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.rows import Release, SourceRows

if TYPE_CHECKING:
    from shoal.sources.base import Source
    from shoal.verify.agreed import Plan


class Answer(NamedTuple):
    """The results for the rows of a release."""

    checks: list[Check]
    guarantees: list[CheckedGuarantee] | None = None  # None: its form does not let them be judged


def check_rows(n_rows: int, manifest: Manifest) -> Check:
    """There are rows, as many as the manifest says."""
    if not n_rows:
        return Check("rows", False, "the release is empty")
    same = n_rows == manifest.rows
    return Check("rows", same, f"{n_rows} rows" + ("" if same else f", the manifest says {manifest.rows}"))


def put_labels(release: Release) -> dict[str, Covers]:
    """Make the tables of declared labels and return their covers; raise CoverError if a label contradicts its cover."""
    engine, manifest = release.engine, release.manifest
    engine.run("CREATE TEMP MACRO folded(t) AS trim(t)")
    if not manifest.labelled:
        return {}
    covers = put_covers(engine, manifest)
    for attribute in manifest.labelled if manifest.written.agreed is None else ():  # a plan says what its labels cover
        check_readings(attribute)
    engine.run("CREATE TEMP VIEW declared AS SELECT attribute, label, number FROM covers")
    return covers


def check_labels(release: Release, tables: ReleaseTables) -> Check:
    """Check that no attribute has texts that are not labels, and none has labels that no row has."""
    engine = release.engine
    engine.run(tables.list_published())
    found = engine.fetch(
        "SELECT attribute, count(*) FILTER (label IS NULL), count(*) FILTER (p.number IS NULL)"
        " FROM published AS p FULL JOIN declared AS d USING (attribute, number) GROUP BY attribute ORDER BY attribute"
    )
    unknown = [name for name, strange, _ in found if strange]
    idle = [f"{name} ({times})" for name, _, times in found if times]
    fault = unknown and f"values in {', '.join(unknown)} are not labels of the manifest"
    fault = fault or (idle and f"the manifest lists labels that no row has: {', '.join(idle)}")
    return Check.of("labels", fault, "every label is declared, and every declared label occurs")


@dataclass(frozen=True, slots=True)
class FormRows:
    """The rows of a release, and what a check of its form may compare them with."""

    release: Release
    tables: ReleaseTables
    covers: Mapping[str, Covers]
    source: SourceRows | None
    populations: Mapping[str, Source]
    plan: Plan | None  # of several data owners


FormCheck: TypeAlias = Callable[[FormRows], Answer]  # without guarantees the release fails


def verify_classes(given: FormRows) -> Answer:
    """Check a release in one part, in which every row is a record."""
    manifest, engine, source = given.release.manifest, given.release.engine, given.source
    engine.run(*given.tables.count())
    rows = "SELECT coalesce(sum(n), 0) FROM classes" if given.tables.keys else "SELECT count(*) FROM release"
    n_rows = int(engine.value(rows))
    checks = [check_rows(n_rows, manifest)]
    if given.covers:
        checks += [check_labels(given.release, given.tables), *_check_levels(manifest, given.covers)]
    if n_rows:
        _list_texts(given)
        guarantees = [_judge(given, promise, checks) for promise in manifest.promises]
    else:
        empty = "an empty release satisfies no guarantee"
        guarantees = [answer(promise, None, False, empty) for promise in manifest.promises]
    if manifest.written.synthetic is not None:
        checks.append(Check("truth", True, "the rows were drawn at random, so they are not compared with people"))
    elif source is not None:
        from shoal.verify.truth import Comparison

        true = Comparison(given.release, given.tables, source).check()
        checks += true
        if source.witness is None:
            guarantees = _leave_open(guarantees, "people are counted with the witness", ok=True)
        elif all(check.ok for check in true):
            guarantees = _ask_source(given, source, guarantees, checks)
        else:
            guarantees = _leave_open(guarantees, "the witness is not true", ok=False)
    return Answer(checks, guarantees)


def _judge(given: FormRows, promise: Promise, checks: list[Check]) -> CheckedGuarantee:
    """Judge a promise by the published rows."""
    if promise.counts is not None:
        from shoal.verify import people

        weaker = people.weaken(promise)
        return people.judge_records(promise, None if weaker is None else _judge_records(given, weaker))
    if promise.kind.about == "population" and not promise.obstacle:
        from shoal.verify.reach import judge_population  # few guarantees are about populations

        return judge_population(given.release, promise, given.populations, checks)
    labelled = {one.name for one in given.release.manifest.labelled}
    induced = any(not labelled.isdisjoint(subject) for subject in promise.subjects)
    grounds = ", by the frequencies that labels induce" if induced else ""
    return conclude(promise, _judge_records(given, promise), grounds=grounds)


def _judge_records(given: FormRows, promise: Promise) -> Judgement:
    if promise.kind.about in ("parts", "plan"):
        return Judgement(0, obstacle="cannot check: only a sliced release has parts to promise this model of")
    tables: Iterable[Counts] = [Counts("classes")]
    if promise.kind.about == "values":
        tables = (_count_values(given, promise, subject) for subject in promise.subjects)
    return judge(given.release.engine, promise, tables)


def _count_values(given: FormRows, promise: Promise, subject: Subject) -> Counts:
    counts, statement = given.tables.count_values(promise, subject)
    given.release.engine.run(*([] if statement is None else [statement]))
    return counts


def _list_texts(given: FormRows) -> None:
    """Make the tables of normal forms of all values that promises are about."""
    subjects = (subject for promise in given.release.manifest.promises for subject in promise.subjects)
    for name in dict.fromkeys(chain.from_iterable(subjects)):
        from shoal.verify.people import put_texts

        place, kind = given.tables.sensitive[name][0], None if given.source is None else given.source.types[name]
        distinct = f"SELECT DISTINCT s{place} AS s FROM counted"
        put_texts(given.release.engine, given.release.manifest, name, distinct, f"texts{place}", kind)


def _ask_source(
    given: FormRows, source: SourceRows, guarantees: list[CheckedGuarantee], checks: list[Check]
) -> list[CheckedGuarantee]:
    """Add the checks and return the guarantees that the source decides, once the witness was shown to be true."""
    from shoal.verify import people

    manifest, engine = given.release.manifest, given.release.engine
    counted = any(promise.counts is not None and not promise.obstacle for promise in manifest.promises)
    changed = people.find_changed(manifest)
    if counted or changed:
        rows = people.TrueRows.of_classes(source, people=counted)
        n_classes = int(engine.value("SELECT count(*) FROM classes"))
        if changed:
            checks.append(people.check_true_values(rows, n_classes))
        if rows.n_classes != n_classes:
            why = "equal values are spelled in several ways, so records cannot be followed"
            guarantees = _leave_open(guarantees, why, ok=False)
        else:
            guarantees = [
                conclude(promise, rows.judge_people(promise)) if promise.counts and not promise.obstacle else found
                for promise, found in zip(manifest.promises, guarantees, strict=True)
            ]
    checks += people.check_withheld(manifest, source)
    return guarantees


def _leave_open(guarantees: Sequence[CheckedGuarantee], why: str, *, ok: bool) -> list[CheckedGuarantee]:
    """Return guarantees of which those about people were not checked, unless records contradict them."""
    detail = f"not checked: {why}"
    return [
        replace(one, ok=ok, done=not ok, partly=False, detail=detail) if one.counts is not None and one.ok else one
        for one in guarantees
    ]


def _check_levels(manifest: Manifest, covers: Mapping[str, Covers]) -> list[Check]:
    """Check that labels of an attribute do not overlap, as at one level, and are their only value at level 0.

    If single values are suppressed, labels overlap with the label of all values, which is at no level.
    """
    full = manifest.written.levels is not None
    levels = manifest.written.levels or manifest.written.method_parameters.get("levels")
    if not levels or not isinstance(levels, dict):
        return []
    for attribute in manifest.of_role("quasi"):
        cover, name = covers[attribute.name], attribute.name
        order = np.argsort(cover.low, kind="stable")
        if full and (cover.low[order][1:] < cover.high[order][:-1]).any():
            return [Check("levels", False, f"labels of {name} overlap, so they are not of one level")]
        if levels.get(name) != 0 or attribute.kind != "category":
            continue
        for label, entry in attribute.covers.items():
            several = [value.strip('"') for value in entry.get("values", ())] != [label.strip('"')]
            if several if "values" in entry else full and "any" in entry:
                return [Check("levels", False, f"{name} is at level 0, but a label of it is not its only value")]
    return [Check("levels", True, "every quasi-identifier has labels of one level")]
