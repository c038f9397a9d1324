"""Trying attacks on a release: all that apply, each with chance of its own; and what no promise covers in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from shoal.attacks.base import FEW, FEWEST, N_TARGETS, Attack, People, Refusal, Trials, verdict
from shoal.attacks.sensitive import SensitiveAttack, by_column
from shoal.attacks.view import ReleaseView
from shoal.audit.counting import RowCounts
from shoal.audit.findings import PublishedTable, find_all
from shoal.core.arrays import BoolArray
from shoal.core.errors import InputError, UsageError, did_you_mean
from shoal.core.progress import Progress, show_progress
from shoal.core.registry import discover
from shoal.core.results import Finding
from shoal.engines.local import release_memory
from shoal.manifest import Sample
from shoal.policy.policy import Acceptance, Policy
from shoal.policy.preparing import unfold_baskets
from shoal.release.published import PublishedRelease, read_columns
from shoal.release.release import INTERNAL, PUBLIC, Release, find_release, read_internal
from shoal.release.witness import find_sampled
from shoal.sources.base import Source, SourceOptions
from shoal.sources.opening import open_source

OF_VARIANT = 500  # targets, at most, of what quasi-identifiers alone tell beside columns that are known, too


def attack_names() -> tuple[str, ...]:
    """Return the names of all attacks."""
    return tuple(discover("shoal.attacks", Attack))


def attack(
    release: Release | str | Path,
    source: object,
    control: object | None = None,
    *,
    attacks: Sequence[str] | None = None,
    targets: int = N_TARGETS,
    seed: int | None = None,
    policy: str | Path | Mapping[str, Any] | Policy | None = None,
    register: object | None = None,
    others: Sequence[Release | str | Path] = (),
    progress: Progress | None = None,
) -> list[Trials | Refusal]:
    """Attack a release, given the table it was made from and, as *control*, one of like people who are not in it.

    *release* is what ``shoal.anonymize`` gave back, or its folder. Each of the *attacks*, all without a name, is tried
    on as many *targets*, and for each sensitive column that it finds out; what has no meaning for this release comes
    back with the reason. The same *seed* gives the same figures. *policy* tells how the tables are written and which
    values are alike, *register* is a table of names, and *others* are releases about the same people.

    >>> import pyarrow as pa
    >>> import shoal
    >>> people = pa.table({"age": [20 + n // 2 for n in range(80)], "ill": ["flu", "gout"] * 40})
    >>> policy = {
    ...     "attributes": {"age": {"role": "quasi"}, "ill": {"role": "sensitive"}},
    ...     "privacy": [{"distinct-l-diversity": {"l": 2}}],
    ... }
    >>> (found,) = shoal.attack(shoal.anonymize(people, policy), people, attacks=["homogeneity"], seed=1)
    >>> found.success, found.risk.value
    (Tally(success=0, trials=80), 0.0)
    """
    chosen = _choose(attacks)
    loaded = None if policy is None else Policy.load(policy)
    view = ReleaseView.read(release, loaded)
    # Tables are written as the policy says, or with the same texts for missing values as the release.
    options = SourceOptions(missing=list(view.manifest.missing.tokens)) if loaded is None else loaded.source
    named = None if register is None else open_source(register, options)
    names = None if named is None else read_columns(named, named.schema.names)
    views = tuple(ReleaseView.read(other, like=view) for other in others)
    beside = [name for other in views for name in other.known]
    wanted = [*view.known, *view.secrets, *beside, *view.treatments.shown]
    shared = [] if named is None else [name for name in named.schema.names if name not in view.treatments.shown]
    given = _open(source, options, loaded)
    people = _people(view, given, "the source", [*wanted, *shared])
    sampled = find_sampled(release) if view.manifest.sample is not None else None
    members = None
    if sampled is not None and len(sampled) == len(people):
        members = _people(view, given, "the source", [*wanted, *shared], sampled)
    strangers = None
    if control is not None:
        strangers = _people(view, _open(control, options, loaded), "the control table", wanted)
    for stated, table in (("source", people), ("control table", strangers)):
        if table is not None and len(table) < FEWEST:
            raise InputError(f"the {stated} has fewer than {FEWEST} records: so few people tell nothing")
    known, wide = Known(view, people, members, strangers), None
    found: dict[str, list[Trials | Refusal]] = {}
    with show_progress(progress) as showing, showing.step("attacking", len(chosen), unit="attacks") as step:
        for name in sorted(chosen, key=lambda name: chosen[name].of_insensitive):  # only the last need the wide view
            if wide is None and chosen[name].of_insensitive:
                wide = known.widen()
            release_memory()
            each = chosen[name](targets, register=names, others=views)
            found[name] = try_attack(each, known, wide or known, None if seed is None else [seed, *name.encode()])
            step.advance(1)
    return [each for name in chosen for each in found[name]]


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A release, and people in its codes: of the source, of a sample of it, and of the control group."""

    view: ReleaseView
    people: People
    members: People | None = None  # whose records are in a sample, if that is known
    others: People | None = None

    def widen(self) -> Known:
        """Return the same for whoever knows people by what is neither quasi-identifying nor sensitive, too."""
        groups = self.people, self.members, self.others
        wide = self.view.widen([each.table for each in groups if each is not None])
        if wide is self.view:
            return self
        people, members, others = (None if each is None else wide.recode(each) for each in groups)
        return self if people is None else Known(wide, people, members, others)


def try_attack(attack: Attack, known: Known, wide: Known, seeds: Sequence[int] | None = None) -> list[Trials | Refusal]:
    """Try an attack, for each sensitive column that it finds out, by all that its adversary can know of people."""

    def find(attack: Attack, known: Known) -> list[Trials | Refusal]:
        return [_try(attack, part, known, np.random.default_rng(seeds)) for part in by_column(attack, known.view)]

    if wide is known or not attack.of_insensitive:
        columns = find(attack, known)
    else:
        fewer = copy(attack)
        fewer.n_targets, fewer.with_variants = min(attack.n_targets, OF_VARIANT), False
        names = ", ".join(repr(name) for name in wide.view.known if name not in known.view.known)
        note = f"people are assumed to be known by {names}, too, which the release shows"
        both = zip(find(fewer, known), find(attack, wide), strict=True)
        columns = [_join(narrow, found, note) for narrow, found in both]
    reasons = {column.reason if isinstance(column, Refusal) else None for column in columns}
    alike = len(reasons) == 1 and None not in reasons  # which column it is makes no difference then
    return [replace(columns[0], about=None)] if alike else columns


def _join(narrow: Trials | Refusal, found: Trials | Refusal, note: str) -> Trials | Refusal:
    """Return what was found by more than quasi-identifiers, with what these alone tell as a variant."""
    if isinstance(found, Refusal):
        return narrow
    only = {} if isinstance(narrow, Refusal) else {"quasi-identifiers only": replace(narrow, variants={}, notes=())}
    return replace(found, variants={**found.variants, **only}, notes=(*found.notes, note))


def _choose(names: Sequence[str] | None) -> dict[str, type[Attack]]:
    known = discover("shoal.attacks", Attack)
    for name in names or ():
        if name not in known:
            raise UsageError(f"unknown attack {name!r}{did_you_mean(name, known) or '; known: ' + ', '.join(known)}")
    return {name: kind for name, kind in known.items() if names is None or name in names}


def _try(attack: Attack, view: ReleaseView, known: Known, rng: np.random.Generator) -> Trials | Refusal:
    about = next(iter(view.secrets), None) if isinstance(attack, SensitiveAttack) else None
    reason = attack.refuses(view)
    if reason is not None:
        return Refusal(attack.name, reason, about)
    sampled = known.members if attack.of_people else None
    try:
        found = attack.run(view, known.people if sampled is None else sampled, known.others, rng)
    except UsageError as error:  # what only the people tell
        return Refusal(attack.name, str(error), about)
    notes = view.treatments.notes(view.known)
    if attack.of_people and found.success.trials < FEW:
        notes.append(f"{found.success.trials} people were asked about: so few tell little, as the interval shows")
    if attack.of_people and view.manifest.sample is not None:
        notes.append(_note_sample(view.manifest.sample, known=sampled is not None))
    return replace(found, notes=(*found.notes, *notes))


def _note_sample(sample: Sample, *, known: bool) -> str:
    """Say whom an attack on a sample is about, by whether it is known whose records were published."""
    if known:
        return "targets are people whose records are in the sample, as the data holder knows"
    more = "more" if sample.share is None else f"about {1 / sample.share:.3g} times the"
    return (
        "some records of the source were published, and whose is not known: targets are people of the whole source, so "
        f"those whose records are published are at {more} risk"
    )


def _open(table: object, options: SourceOptions, policy: Policy | None) -> Source:
    source = open_source(table, options)
    return source if policy is None else unfold_baskets(policy, source)[1]


def _people(
    view: ReleaseView, source: Source, stated: str, wanted: Sequence[str], only: BoolArray | None = None
) -> People:
    """Read the wanted columns, of some rows *only*: what is known, to be found out, and names that a register has."""
    names = [name for name in dict.fromkeys(wanted) if name in source.schema.names]
    for name in view.known:
        if name not in names and name not in view.treatments.named:
            raise InputError(
                f"{stated} has no column {name!r}, which the release knows as quasi-identifying"
                f"{did_you_mean(name, source.schema.names)}"
            )
    people = view.manifest.people
    units = [name for name in (people.unit, people.household) if name and name in source.schema.names][:1]
    rows: pa.Table = read_columns(source, list(dict.fromkeys([*names, *units])))
    rows = rows if only is None else rows.filter(pa.array(only))
    if not units:
        return view.people(rows, stated)
    owner = rows.column(units[0]).combine_chunks().cast(pa.string()).dictionary_encode(null_encoding="encode")
    person = np.asarray(owner.indices).astype(np.int32)
    order = np.argsort(person, kind="stable")
    return view.people(rows.select(names).take(pa.array(order)), stated, person=person[order])


Bearing: TypeAlias = Callable[[Trials], str | None]


def find_bearing(folder: Path) -> Bearing:
    """Return a function that says on which risk of the decision record a result bears.

    A quasi value that was hidden and learned bears on none of them.
    """
    found, kinds = find_release(folder), discover("shoal.attacks", Attack)
    quasi = [] if found is None else found[1].names("quasi")
    return lambda each: None if each.about in quasi else kinds[each.attack].bears_on


def record_results(found: Iterable[Trials | Refusal], bears_on: Bearing) -> list[dict[str, object]]:
    """Return the results of the attacks that were tried, as the decision record reads them."""
    kinds = discover("shoal.attacks", Attack)
    return [
        {
            **each.as_dict(),
            "title": kinds[each.attack].title,
            "verdict": verdict(each),
            "bears_on": bears_on(each),
        }
        for each in found
        if isinstance(each, Trials)
    ]


def read_findings(folder: Path, accepted: tuple[Acceptance, ...] = ()) -> tuple[Finding, ...]:
    """Return what the run found, if its evidence is beside the public files; else what these show by themselves."""
    found = PublishedRelease.find(folder)
    if found is None or found.folder is None:
        raise InputError(f"{folder} is not a release: it has no manifest.json")
    public = found.folder
    evidence = public.parent / INTERNAL / "evidence.json"
    if public.name == PUBLIC and evidence.is_file() and "findings" in (stated := read_internal(evidence)):
        return tuple(map(Finding.from_dict, stated["findings"]))
    counts = RowCounts.of(found.form)
    for batch in found.read_texts().to_batches():
        counts.add(batch)
    return find_all(PublishedTable.of(found.form, counts, found.form.list_models()), accepted)
