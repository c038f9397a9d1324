"""The comparison: set people aside, make every release, attack it, and measure its utility."""

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
from shoal.compare.result import RISKS, AnyWeights, Candidate, Comparison, Row, read_weights
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
    """Compare the releases of several policies, or of several techniques on one policy.

    Every release is verified and attacked, none is written, and all results are for the data holder only. All
    releases have the same control group: the *control* table or a random share of the data.

    Parameters
    ----------
    data, policies
        A table in any form that ``shoal.open_source`` opens, and at least one policy.
    techniques
        "all", or the names of techniques to apply to the attributes of the single policy.
    sweep, methods
        Values of parameters, and methods; each policy has a row for every combination.
    weights
        The weights of risk and utility in the ranking.
    control, hold_out
        A table of people who are in no release, or the share of the data to set aside (0.2 unless stated).
    targets, seed
        The number of guesses of each attack, and a seed that makes the comparison repeatable.
    """
    if not policies:
        raise UsageError("a comparison needs at least one policy")
    chosen = _choose(techniques)
    axes, kinds = read_sweep(sweep), read_methods(methods)
    if chosen and len(policies) > 1:
        raise UsageError("techniques are compared on the attributes of one policy; give one, or no techniques")
    if chosen and (axes or kinds):
        raise UsageError("techniques have parameters of their own, so give either techniques or a sweep or methods")
    weighed = read_weights(weights)
    if control is not None and hold_out is not None:
        raise UsageError("a control table and a share to hold out both give a control group; choose one")
    share = None if control is not None else HOLD_OUT if hold_out is None else hold_out
    if share is not None and not 0 <= share < 1:
        raise UsageError(f"the share of records to hold out must be from 0 to below 1, not {share}")
    if targets < FEWEST:
        raise UsageError(f"the number of targets, {targets}, is too small; give at least {FEWEST}")
    loaded = [Policy.load(policy) for policy in policies]
    candidates = [] if chosen else list_rows(policy_names(policies), loaded, axes, kinds)
    table = _read(data, loaded[0].source)
    for policy in loaded:
        check_columns(policy, open_source(table, policy.source))
    strangers = None if control is None else _read(control, loaded[0].source)
    people = table
    if share:
        people, strangers = _split_people(table, share, np.random.default_rng(seed))
    bench = Bench.of(loaded, people, strangers, targets=targets, seed=seed)
    with tempfile.TemporaryDirectory(prefix="shoal-compare-") as folder:  # only its owner can read it
        if chosen:
            candidates = _apply_techniques(chosen, loaded[0], bench, Path(folder) / "pseudonyms.key")
        with show_progress(progress) as shown:
            rows = bench.fill_rows(candidates, shown)
    note = NO_CONTROL
    if strangers is not None:
        of = f"{strangers.num_rows:,} of {table.num_rows:,} records"
        note = f"{of}, drawn at random, were put aside first: they are the control group and in no release"
        if not share:
            note = f"the control group is a table that was given, with {strangers.num_rows:,} records"
    return Comparison(
        rows=rows,
        records=people.num_rows,
        control=0 if strangers is None else strangers.num_rows,
        held_out=share or None,
        targets=targets,
        seed=seed,
        notes=(note,),
        weights=weighed,
    )


def _choose(techniques: str | Sequence[str] | None) -> Sequence[Recipe]:
    """Return the requested recipes in the order of the table; none if no techniques are requested."""
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
        raise UsageError(f"name at least one technique; known: all, {', '.join(known)}")
    return [recipe for recipe in RECIPES if recipe.name in names]


def _apply_techniques(chosen: Sequence[Recipe], policy: Policy, bench: Bench, key: Path) -> list[Candidate]:
    """Return a policy for each technique and setting, or the reason why the technique cannot be applied."""
    new_key(key)
    secret = bench.policy.names("sensitive")
    known = read_columns(bench.source, secret) if secret else bench.people.select([])
    counts = {name: pc.value_counts(known.column(name)).field("counts") for name in known.column_names}
    base = Base(policy, {name: pc.max(each).as_py() / known.num_rows for name, each in counts.items()}, key)
    candidates = []
    for recipe in chosen:
        row = Row(recipe.name, recipe.title, "", recipe.verdict)
        found = recipe.apply(base)
        if isinstance(found, str):
            candidates.append(Candidate(replace(row, reason=found)))
            continue
        for parameters, document in found:
            row = replace(row, parameters=parameters)
            try:
                candidates.append(Candidate(row, Policy.load(document, policy.folder)))
            except PolicyError as error:  # the technique does not fit the policy's declarations
                candidates.append(Candidate(replace(row, reason=str(error))))
    return candidates


def _read(data: object, options: SourceOptions) -> pa.Table:
    source = open_source(data, options)
    table = plain(pa.Table.from_batches(list(source.batches()), schema=source.schema))
    if not table.num_rows:
        raise InputError(f"{source.name} is empty")
    return table


def _split_people(table: pa.Table, share: float, rng: np.random.Generator) -> tuple[pa.Table, pa.Table]:
    n_aside = round(share * table.num_rows)
    if not 0 < n_aside < table.num_rows:
        raise UsageError(
            f"a share of {share:g} of {count_noun(table.num_rows, 'record')} leaves one side empty; hold out another "
            "share, or give a control table"
        )
    order = rng.permutation(table.num_rows)
    return table.take(pa.array(np.sort(order[n_aside:]))), table.take(pa.array(np.sort(order[:n_aside])))


@dataclass(frozen=True, eq=False)
class Bench:
    """The people and attributes that all releases share, and the settings of the attacks."""

    policy: Policy  # the first one, with baskets unfolded
    source: Source  # the people, with baskets unfolded
    people: pa.Table  # in every release
    strangers: pa.Table | None  # the control group
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
        """Find the attributes that all policies publish; refuse a control table without them."""
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

    def fill_rows(self, candidates: Sequence[Candidate], progress: Progress) -> tuple[Row, ...]:
        rows = []
        with progress.step("comparing", len(candidates), unit="releases") as step:
            for row, policy in candidates:
                if policy is not None:
                    with progress.step(row.name, 1, unit="release") as own:
                        rows.append(self.fill(row, policy))
                        own.advance(1)
                else:
                    rows.append(row)
                step.advance(1)
        return tuple(rows)

    def fill(self, row: Row, policy: Policy) -> Row:
        """Fill a row with figures, or with the reason why its release cannot be made."""
        tables = self.tables  # computed once, and not timed
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
            claims=tuple(one.model_dump() for one in release.form.manifest.claims),
            risks=found,
            marginals=tuple(Marginals.of(each) for each in release.evidence["marginals"]),
            seconds=seconds,
            records=release.form.manifest.rows,
        )

    def _attack(self, release: Release, policy: Policy) -> dict[str, Trials | Refusal]:
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
    """Return the result for the people most at risk, with the average as a variant, and without any values."""
    if isinstance(found, Refusal):
        return found
    variants = {name: replace(each, exposed=None, subgroup=None) for name, each in found.variants.items()}
    average = replace(found, exposed=None, subgroup=None, variants=variants)
    _, worst = found.worst_case
    if worst is found:
        return average
    whose = "people whom the attack is surest about" if worst is found.exposed else "subgroup that fares worst"
    variants = {**variants, "average": replace(average, variants={}, notes=())}
    return replace(worst, variants=variants, notes=(*found.notes, f"the figure is about the {whose}"))


def make_release(people: pa.Table, policy: Policy, *, seed: int | None, tables: SourceTables | None) -> Release:
    """Return a verified release in memory, compared with the source's *tables*."""
    return run(people, policy, Options(seed=seed, tables=tables), Silent())
