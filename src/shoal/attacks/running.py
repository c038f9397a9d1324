"""Running the attacks that apply to a release, each with its own random numbers."""

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
from shoal.policy.policy import Acceptance, Policy
from shoal.policy.preparing import unfold_baskets
from shoal.release.published import PublishedRelease, read_columns
from shoal.release.release import INTERNAL, PUBLIC, Release, find_release, read_internal
from shoal.release.witness import find_sampled
from shoal.sources.base import Source, SourceOptions
from shoal.sources.opening import open_source

OF_VARIANT = 500  # targets, at most, of the variant with quasi-identifiers only


def attack_names() -> tuple[str, ...]:
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
    """Attack a release, given the table it was made from.

    Parameters
    ----------
    release, source
        The result of ``shoal.anonymize``, or its folder, and the original table.
    control
        A table of similar people who are not in the source, to distinguish disclosure from inference.
    attacks
        Names of attacks; all by default.
    targets, seed
        The number of people that each attack tries. The same seed gives the same figures.
    policy
        How the tables are written, and which values are similar.
    register, others
        A table of names, and other releases about the same people.

    Returns
    -------
    list of Trials or Refusal
        One entry for each attack, and for each sensitive column that it infers.

    Examples
    --------
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
    kinds = discover("shoal.attacks", Attack)
    for name in attacks or ():
        if name not in kinds:
            raise UsageError(f"unknown attack {name!r}{did_you_mean(name, kinds) or '; known: ' + ', '.join(kinds)}")
    chosen = [kind for name, kind in kinds.items() if attacks is None or name in attacks]
    loaded = None if policy is None else Policy.load(policy)
    view = ReleaseView.read(release, loaded)
    # Without a policy, tables have the same texts for missing values as the release.
    options = SourceOptions(missing=list(view.manifest.missing.tokens)) if loaded is None else loaded.source
    named = None if register is None else open_source(register, options)
    names = None if named is None else read_columns(named, named.schema.names)
    views = tuple(ReleaseView.read(other, like=view) for other in others)
    wanted = [*view.known, *view.secrets, *(name for other in views for name in other.known), *view.treatments.shown]
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
            raise InputError(f"the {stated} has fewer than {FEWEST} records, too few for an attack")
    scene, tried = (
        Scene(view, people, members, strangers),
        [kind(targets, register=names, others=views) for kind in chosen],
    )
    with show_progress(progress) as showing:
        return _try_all(tried, scene, seed, showing)


def _try_all(attacks: Sequence[Attack], known: Scene, seed: int | None, progress: Progress) -> list[Trials | Refusal]:
    wide, found = known, dict[str, list[Trials | Refusal]]()
    with progress.step("attacking", len(attacks), unit="attacks") as step:
        for each in sorted(attacks, key=lambda each: each.of_insensitive):  # the last ones need the wide view
            if wide is known and each.of_insensitive:
                wide = known.widen()
            release_memory()
            found[each.name] = try_attack(each, known, wide, None if seed is None else [seed, *each.name.encode()])
            step.advance(1)
    return [result for each in attacks for result in found[each.name]]


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A release, and people in its codes: of the source, of a sample of it, and of the control group."""

    view: ReleaseView
    people: People
    members: People | None = None  # the people of a sample, if they are known
    others: People | None = None

    def widen(self) -> Scene:
        """Return the scene for an adversary with insensitive columns as well."""
        groups = self.people, self.members, self.others
        wide = self.view.widen([each.table for each in groups if each is not None])
        if wide is self.view:
            return self
        people, members, others = (None if each is None else wide.recode(each) for each in groups)
        return self if people is None else Scene(wide, people, members, others)


def try_attack(attack: Attack, known: Scene, wide: Scene, seeds: Sequence[int] | None = None) -> list[Trials | Refusal]:
    """Try an attack, for each sensitive column that it infers, with all columns that its adversary can know."""

    def find(attack: Attack, known: Scene) -> list[Trials | Refusal]:
        return [_try(attack, part, known, np.random.default_rng(seeds)) for part in by_column(attack, known.view)]

    if wide is known or not attack.of_insensitive:
        columns = find(attack, known)
    else:
        fewer = copy(attack)
        fewer.n_targets = min(attack.n_targets, OF_VARIANT)
        names = ", ".join(repr(name) for name in wide.view.known if name not in known.view.known)
        note = f"the attacker is assumed to know {names} as well, which the release shows"
        both = zip(find(fewer, known), find(attack, wide), strict=True)
        columns = [_join(narrow, found, note) for narrow, found in both]
    reasons = {column.reason if isinstance(column, Refusal) else None for column in columns}
    same = len(reasons) == 1 and None not in reasons  # a refusal that does not depend on the column
    return [replace(columns[0], about=None)] if same else columns


def _join(narrow: Trials | Refusal, found: Trials | Refusal, note: str) -> Trials | Refusal:
    """Return the result with insensitive columns; the result with quasi-identifiers alone becomes a variant."""
    if isinstance(found, Refusal):
        return narrow
    only = {} if isinstance(narrow, Refusal) else {"quasi-identifiers only": replace(narrow, variants={}, notes=())}
    return replace(found, variants={**found.variants, **only}, notes=(*found.notes, note))


def _try(attack: Attack, view: ReleaseView, known: Scene, rng: np.random.Generator) -> Trials | Refusal:
    about = next(iter(view.secrets), None) if isinstance(attack, SensitiveAttack) else None
    reason = attack.refuses(view)
    if reason is not None:
        return Refusal(attack.name, reason, about)
    sampled = known.members if attack.of_people else None
    try:
        found = attack.run(view, known.people if sampled is None else sampled, known.others, rng)
    except UsageError as error:  # a reason that depends on the people
        return Refusal(attack.name, str(error), about)
    notes, sample = view.treatments.notes(view.known), view.manifest.sample
    if attack.of_people and found.success.trials < FEW:
        notes.append(f"the attack was tried on {found.success.trials} people only, so the interval is wide")
    if attack.of_people and sample is not None and sampled is not None:
        notes.append("targets are people whose records are in the sample, according to the data holder's files")
    elif attack.of_people and sample is not None:
        more = "more" if sample.share is None else f"about {1 / sample.share:.3g} times the"
        notes.append(
            "the release is a sample, and its people are not known: targets are people of the whole source, so the "
            f"people in the sample are at {more} risk"
        )
    return replace(found, notes=(*found.notes, *notes))


def _open(table: object, options: SourceOptions, policy: Policy | None) -> Source:
    source = open_source(table, options)
    return source if policy is None else unfold_baskets(policy, source)[1]


def _people(
    view: ReleaseView, source: Source, stated: str, wanted: Sequence[str], only: BoolArray | None = None
) -> People:
    """Read the known columns, the sensitive ones, and names that a register has; of some rows *only*, if given."""
    names = [name for name in dict.fromkeys(wanted) if name in source.schema.names]
    for name in view.known:
        if name not in names and name not in view.treatments.named:
            raise InputError(
                f"{stated} has no column {name!r}, a quasi-identifier of the release"
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
    """Return a function that names the risk of the decision record to which a result belongs.

    Results about a hidden quasi value belong to none.
    """
    found, kinds = find_release(folder), discover("shoal.attacks", Attack)
    quasi = [] if found is None else found[1].names("quasi")
    return lambda each: None if each.about in quasi else kinds[each.attack].bears_on


def record_results(found: Iterable[Trials | Refusal], bears_on: Bearing) -> list[dict[str, object]]:
    """Return the results of the attacks that were tried, as the decision record stores them."""
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
    """Return the findings of the run or, without its evidence, the findings from the public files."""
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
    return find_all(PublishedTable(found.form, counts, found.form.list_models()), accepted)
