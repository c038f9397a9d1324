"""The whole of a comparison: put people aside, make every release, attack it, and see what it keeps."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.anonymize.opening import Options
from shoal.anonymize.run import run
from shoal.attacks.base import FEWEST, N_TARGETS, NO_CONTROL, Attack, Refusal, Trials
from shoal.attacks.running import attack, record_results
from shoal.audit.decision import decide
from shoal.audit.marginals import SourceTables
from shoal.columns.keys import new_key
from shoal.compare.recipes import RECIPES, Base, Recipe
from shoal.compare.result import RISKS, AnyWeights, Asked, Comparison, Row, read_weights
from shoal.compare.sweeps import AnyMethods, AnySweep, list_rows, policy_names, read_methods, read_sweep
from shoal.core.errors import InputError, PolicyError, ShoalError, UsageError, did_you_mean
from shoal.core.progress import Progress, Silent, show_progress
from shoal.core.registry import discover
from shoal.core.wording import count_noun
from shoal.policy.encoding import check_columns
from shoal.policy.policy import Policy
from shoal.policy.preparing import unfold_baskets
from shoal.release.published import read_columns
from shoal.release.release import Release
from shoal.sources.base import Source, SourceOptions
from shoal.sources.columns import plain
from shoal.sources.opening import open_source
from shoal.utility.marginals import Marginals

HOLD_OUT = 0.2
AnyPolicy: TypeAlias = str | Path | Mapping[str, Any] | Policy


def recipe_names() -> tuple[str, ...]:
    """Return the techniques that can be compared, in the order of the table."""
    return tuple(recipe.name for recipe in RECIPES)


def compare(
    data: object,
    *policies: AnyPolicy,
    techniques: str | Sequence[str] | None = None,
    sweep: AnySweep | None = None,
    methods: AnyMethods | None = None,
    weights: AnyWeights | None = None,
    control: object | None = None,
    hold_out: float | None = None,
    targets: int = N_TARGETS,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Make a release by every policy, or by every technique on one, and tell what each leaves, promises and keeps.

    The same people are aside in all of them: those of a *control* table or, without one, a random share *hold_out* of
    the data, 0.2 if it is not given, who are in no release. *techniques* are "all" or names; *methods* and a *sweep*
    over parameters make several rows of every policy; *weights* rank them. Every release is verified as ever, none is
    written, and what is found is for the data holder alone.
    """
    if not policies:
        raise UsageError("a comparison needs a policy at least")
    chosen = _choose(techniques)
    axes, kinds = read_sweep(sweep), read_methods(methods)
    if chosen and len(policies) > 1:
        raise UsageError("techniques are compared on the attributes of one policy; give one, or no techniques")
    if chosen and (axes or kinds):
        raise UsageError("techniques have parameters of their own; compare them, or sweep over those of a policy")
    weighed = read_weights(weights)
    share = _share(control, hold_out)
    if targets < FEWEST:
        raise UsageError(f"the number of targets, {targets}, is too small; give at least {FEWEST}")
    loaded = [Policy.load(policy) for policy in policies]
    asked = [] if chosen else list_rows(policy_names(policies), loaded, axes, kinds)
    table = _read(data, loaded[0].source)
    for policy in loaded:
        check_columns(policy, open_source(table, policy.source))
    strangers = None if control is None else _read(control, loaded[0].source)
    people = table
    if share:
        people, strangers = _split_people(table, share, np.random.default_rng(seed))
    bench = Bench.of(loaded, people, strangers, targets=targets, seed=seed)
    with tempfile.TemporaryDirectory(prefix="shoal-compare-") as folder:  # for its owner alone; removed in the end
        if chosen:
            asked = _by_technique(chosen, loaded[0], bench, Path(folder) / "pseudonyms.key")
        with show_progress(progress) as showing:
            rows = _fill_rows(asked, bench, showing)
    return Comparison(
        rows=tuple(rows),
        records=people.num_rows,
        control=0 if strangers is None else strangers.num_rows,
        held_out=share or None,
        targets=targets,
        seed=seed,
        notes=_notes(people, strangers, share),
        weights=weighed,
    )


def _share(control: object | None, hold_out: float | None) -> float | None:
    """Return the share of the data to put aside; None if there is a control table."""
    if control is not None and hold_out is not None:
        raise UsageError("a control table and a share to hold out are two ways to have a control group; choose one")
    share = None if control is not None else HOLD_OUT if hold_out is None else hold_out
    if share is not None and not 0 <= share < 1:
        raise UsageError(f"the share of records to hold out must be from 0 to below 1, not {share}")
    return share


def _fill_rows(asked: Sequence[Asked], bench: Bench, progress: Progress) -> list[Row]:
    """Make, attack and measure the release of every row that has a policy."""
    rows = []
    with progress.step("comparing", len(asked), unit="releases") as step:
        for row, policy in asked:
            if policy is None:
                rows.append(row)
            else:
                with progress.step(row.name, 1, unit="release") as own:
                    rows.append(bench.fill(row, policy))
                    own.advance(1)
            step.advance(1)
    return rows


def _choose(techniques: str | Sequence[str] | None) -> Sequence[Recipe]:
    """Return the recipes that are asked for, in the order of the table; none if no techniques are."""
    if techniques is None:
        return []
    if techniques == "all":
        return RECIPES
    names = [name.strip() for name in techniques.split(",")] if isinstance(techniques, str) else list(techniques)
    known = recipe_names()
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"; known: all, {', '.join(known)}"
            raise UsageError(f"unknown technique {name!r}{hint}")
    if not names:
        raise UsageError(f"name a technique at least; known: all, {', '.join(known)}")
    return [recipe for recipe in RECIPES if recipe.name in names]


def _by_technique(chosen: Sequence[Recipe], policy: Policy, bench: Bench, key: Path) -> list[Asked]:
    """Return what each technique makes of a policy; of one that cannot serve it, the reason."""
    new_key(key)
    secret = bench.policy.names("sensitive")
    known = read_columns(bench.source, secret) if secret else bench.people.select([])
    counts = {name: pc.value_counts(known.column(name)).field("counts") for name in known.column_names}
    base = Base(policy, {name: pc.max(each).as_py() / known.num_rows for name, each in counts.items()}, key)
    asked = []
    for recipe in chosen:
        row = Row(recipe.name, recipe.title, "", recipe.verdict)
        found = recipe.apply(base)
        if isinstance(found, str):
            asked.append(Asked(replace(row, reason=found)))
            continue
        for parameters, document in found:
            row = replace(row, parameters=parameters)
            try:
                asked.append(Asked(row, Policy.load(document, policy.folder)))
            except PolicyError as error:  # of what the policy declares, the technique cannot do with something
                asked.append(Asked(replace(row, reason=str(error))))
    return asked


def _read(data: object, options: SourceOptions) -> pa.Table:
    source = open_source(data, options)
    table = plain(pa.Table.from_batches(list(source.batches()), schema=source.schema))
    if not table.num_rows:
        raise InputError(f"{source.name} is empty")
    return table


def _split_people(table: pa.Table, share: float, rng: np.random.Generator) -> tuple[pa.Table, pa.Table]:
    """Put a random share of the records aside."""
    n_aside = round(share * table.num_rows)
    if not 0 < n_aside < table.num_rows:
        raise UsageError(
            f"a share of {share:g} of {count_noun(table.num_rows, 'record')} leaves one side empty; hold out another "
            "share, or give a control table"
        )
    order = rng.permutation(table.num_rows)
    return table.take(pa.array(np.sort(order[n_aside:]))), table.take(pa.array(np.sort(order[:n_aside])))


def _notes(people: pa.Table, strangers: pa.Table | None, share: float | None) -> tuple[str, ...]:
    if strangers is None:
        return (NO_CONTROL,)
    if share:
        of = f"{strangers.num_rows:,} of {people.num_rows + strangers.num_rows:,} records"
        return (f"{of}, drawn at random, were put aside first: they are the control group and in no release",)
    return (f"the control group are the {strangers.num_rows:,} records of the table that was given for it",)


@dataclass(frozen=True, eq=False)
class Bench:
    """Whom all rows are about, the attributes that are compared, and what every release is asked."""

    policy: Policy  # the first one, with attributes in place of baskets
    source: Source  # the people with these attributes
    people: pa.Table  # whom releases are about
    strangers: pa.Table | None  # like them, but in no release
    names: tuple[str, ...]  # attributes that are compared
    targets: int
    seed: int | None

    @classmethod
    def of(
        cls,
        policies: Sequence[Policy],
        people: pa.Table,
        strangers: pa.Table | None,
        **asked: Any,
    ) -> Bench:
        """Find what all policies publish, and see that a control table has it."""
        spread = [unfold_baskets(policy, open_source(people, policy.source)) for policy in policies]
        published = [[*policy.names("quasi"), *policy.names("sensitive")] for policy, _ in spread]
        names = [name for name in published[0] if all(name in each for each in published)]
        if strangers is not None:
            known = unfold_baskets(policies[0], open_source(strangers, policies[0].source))[1].schema.names
            for name in names:
                if name not in known:
                    raise InputError(f"the control table has no column {name!r}{did_you_mean(name, known)}")
        return cls(*spread[0], people, strangers, tuple(names), **asked)

    @cached_property
    def tables(self) -> SourceTables | None:
        return SourceTables.of(self.policy, self.source, self.names)

    def fill(self, row: Row, policy: Policy) -> Row:
        """Fill a row; a requirement that cannot be reached, or another refusal, stands in place of figures."""
        tables = self.tables  # before anything is timed
        began = time.perf_counter()
        try:
            release = make_release(self.people, policy, seed=self.seed, tables=tables)
        except ShoalError as error:
            return replace(row, reason=str(error))
        seconds = round(time.perf_counter() - began, 3)
        found = self._attack(release, policy)
        kinds = discover("shoal.attacks", Attack)
        results = record_results(found.values(), lambda each: kinds[each.attack].bears_on)
        return replace(
            row,
            decision=decide(release.manifest, release.evidence, {"attacks": results}),
            guarantees=tuple(release.guarantees),
            claims=tuple(release.manifest.get("claims", ())),
            risks=found,
            marginals=tuple(Marginals.of(each) for each in release.evidence["marginals"]),
            seconds=seconds,
            records=int(release.manifest["rows"]),
        )

    def _attack(self, release: Release, policy: Policy) -> dict[str, Trials | Refusal]:
        """Return what each attack found about those most at risk, of all sensitive columns."""
        options: dict[str, Any] = {"attacks": RISKS, "targets": self.targets, "seed": self.seed, "policy": policy}
        try:
            found = attack(release, self.people, self.strangers, **options)
        except ShoalError as error:
            return {name: Refusal(name, str(error)) for name in RISKS}
        worst: dict[str, Trials | Refusal] = {}
        for each in map(_keep_worst, found):
            before = worst.setdefault(each.attack, each)
            if isinstance(each, Trials) and not (isinstance(before, Trials) and before.risk.low >= each.risk.low):
                worst[each.attack] = each
        return {name: worst[name] for name in RISKS}


def _keep_worst(found: Trials | Refusal) -> Trials | Refusal:
    """Return the trials of those who are most at risk, with the average beside, and without values of anybody."""
    if isinstance(found, Refusal):
        return found
    variants = {name: replace(each, exposed=None, subgroup=None) for name, each in found.variants.items()}
    average = replace(found, exposed=None, subgroup=None, variants=variants)
    _, worst = found.worst_case
    if worst is found:
        return average
    whose = "the people whom the attack is surest about" if worst is found.exposed else "the subgroup that fares worst"
    beside = {**variants, "average": replace(average, variants={}, notes=())}
    return replace(worst, variants=beside, notes=(*found.notes, f"the risk is that of {whose}"))


def make_release(people: pa.Table, policy: Policy, *, seed: int | None, tables: SourceTables | None) -> Release:
    """Return a verified release in memory, whose tables are compared with these."""
    return run(people, policy, Options(seed=seed, tables=tables), Silent())
