"""The whole of a comparison: put people aside, make every release, attack it, and see what it keeps."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.anonymize import anonymize
from shoal.attacks.base import FEWEST, N_TARGETS, NO_CONTROL, Refusal, Trials
from shoal.attacks.running import attack
from shoal.columns.keys import new_key
from shoal.compare.cache import DRAWING_BITS, About, Cache, Common, Findings, default_folder, table_digest
from shoal.compare.ground import Ground, reconstruct
from shoal.compare.measures import KINDS, Measure, Score, Stage
from shoal.compare.ranking import RISKS, AnyWeights, read_weights
from shoal.compare.recipes import RECIPES, Base, Recipe
from shoal.compare.result import Asked, Comparison, Row
from shoal.compare.sweeps import AnyMethods, AnySweep, list_rows, policy_names, read_methods, read_sweep
from shoal.core.errors import InputError, PolicyError, ShoalError, UnreachableError, UsageError, did_you_mean
from shoal.core.progress import Progress, shown
from shoal.core.wording import counted_text
from shoal.linking.linkable import read_columns
from shoal.policy.encoding import check_columns
from shoal.policy.policy import Policy
from shoal.policy.preparing import unfold_baskets
from shoal.release.release import Release
from shoal.sources.base import SourceOptions
from shoal.sources.columns import plain
from shoal.sources.opening import open_source

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
    predict: str | None = None,
    seed: int | None = None,
    cache: bool | str | Path = True,
    progress: Progress | None = None,
) -> Comparison:
    """Make a release by every policy, or by every technique on one, and tell what each leaves, promises and keeps.

    The same people are aside in all of them: those of a *control* table or, without one, a random share *hold_out* of
    the data, 0.2 if it is not given, who are in no release. *techniques* are "all" or names; *methods* and a *sweep*
    over parameters make several rows of every policy; *weights* rank them. Every release is verified as ever, none is
    written, and what is found is for the data holder alone. Figures are kept in the folder *cache*, the user's own by
    default, so that a row is measured once; False keeps nothing.
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
        raise UsageError(f"{targets} targets tell nothing; ask for at least {FEWEST}")
    loaded = [Policy.load(policy) for policy in policies]
    asked = [] if chosen else list_rows(policy_names(policies), loaded, axes, kinds)
    kept, notes = _open_cache(cache)
    table = _read(data, loaded[0].source)
    for policy in loaded:
        check_columns(policy, open_source(table, policy.source))
    strangers = None if control is None else _read(control, loaded[0].source)
    about = About(table_digest(table), None if strangers is None else table_digest(strangers), share)
    questions = _questions(seed, kept, about)
    people = table
    if share:
        people, strangers = _split_people(table, share, np.random.default_rng(questions))
    scene = Scene.of(loaded, people, strangers, predict)
    with tempfile.TemporaryDirectory(prefix="shoal-compare-") as folder:  # for its owner alone; removed in the end
        own_key = Path(folder) / "pseudonyms.key"
        if chosen:
            asked = _by_technique(chosen, loaded[0], scene, own_key)
        drawn = f"drawn {questions:x}" if seed is None else f"seed {seed}"
        common = Common(about, drawn, targets, scene.predicted, scene.names, loaded[0], own_key)
        memory = Memory(kept, common, lambda: Field.of(scene, targets, seed, questions))
        with shown(progress) as showing:
            rows = _rows(asked, memory, showing)
    return Comparison(
        rows=tuple(rows),
        records=people.num_rows,
        control=0 if strangers is None else strangers.num_rows,
        held_out=share or None,
        predicted=scene.predicted,
        targets=targets,
        seed=seed,
        notes=(*_notes(people, strangers, share), *notes),
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


def _open_cache(wanted: bool | str | Path) -> tuple[Cache | None, tuple[str, ...]]:
    """Open the folder of figures; the user's own may fail, for a comparison does not need it, and a note says so."""
    if wanted is False:
        return None, ()
    if wanted is not True:
        return Cache(Path(wanted)), ()
    try:
        return Cache(default_folder()), ()
    except (UsageError, RuntimeError) as error:  # a user without a home
        return None, (f"nothing is kept for a later comparison: {error}",)


def _questions(seed: int | None, kept: Cache | None, about: About) -> int:
    """Return the number that people are put aside by and questions are drawn by.

    It is the seed, or chance of the operating system: drawn once for a table where figures are kept, so that rows of
    later comparisons are about the same people.
    """
    if seed is not None:
        return seed
    return secrets.randbits(DRAWING_BITS) if kept is None else kept.drawing(about.digest)


def _rows(asked: Sequence[Asked], memory: Memory, progress: Progress) -> list[Row]:
    """Fill every row; what is done is kept, whatever becomes of the rest."""
    rows = []
    try:
        with progress.step("comparing", len(asked), unit="releases") as step:
            for each in asked:
                rows.append(memory.row(each, progress))
                step.advance(1)
    finally:
        memory.tidy()
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


def _by_technique(chosen: Sequence[Recipe], policy: Policy, scene: Scene, key: Path) -> list[Asked]:
    """Return what each technique makes of a policy; of one that cannot serve it, the reason."""
    new_key(key)
    base = Base(policy, _commonest(scene), key)
    asked = []
    for recipe in chosen:
        found = recipe.apply(base)
        if isinstance(found, str):
            asked.append(Asked(Row(recipe.name, recipe.title, "", recipe.verdict, reason=found)))
            continue
        for setting in found:
            row = Row(recipe.name, recipe.title, setting.parameters, recipe.verdict)
            try:
                asked.append(Asked(row, Policy.load(setting.document, policy.folder)))
            except PolicyError as error:  # of what the policy declares, the technique cannot do with something
                asked.append(Asked(row.without(str(error))))
    return asked


def _commonest(scene: Scene) -> dict[str, float]:
    """Return the share of the commonest value of each sensitive attribute."""
    found = {}
    for name in scene.policy.names("sensitive"):
        counts = pc.value_counts(scene.known.column(name)).field("counts")
        found[name] = pc.max(counts).as_py() / scene.known.num_rows
    return found


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
            f"a share of {share:g} of {counted_text(table.num_rows, 'record')} leaves one side empty; hold out another "
            "share, or give a control table"
        )
    order = rng.permutation(table.num_rows)
    return table.take(pa.array(np.sort(order[n_aside:]))), table.take(pa.array(np.sort(order[:n_aside])))


def _notes(people: pa.Table, strangers: pa.Table | None, share: float | None) -> tuple[str, ...]:
    if strangers is None:
        return (NO_CONTROL, "predictions are tried on the people whom they were learned from")
    if share:
        of = f"{strangers.num_rows:,} of {people.num_rows + strangers.num_rows:,} records"
        return (f"{of}, drawn at random, were put aside first: they are the control group and in no release",)
    return (f"the control group are the {strangers.num_rows:,} records of the table that was given for it",)


@dataclass(slots=True)
class Memory:
    """Fills rows; the ground that releases are measured on is built when the first one must be made."""

    cache: Cache | None
    common: Common
    build: Callable[[], Field]
    field: Field | None = None
    ground: str | None = None  # what the field was built on

    def row(self, asked: Asked, progress: Progress) -> Row:
        """Return a row with figures of an earlier comparison of the same content, or with new ones, which are kept."""
        policy = asked.policy
        if policy is None:
            return asked.row
        key = None if self.cache is None else self.common.key(policy)
        kept = None if key is None else self._look_up(key, asked.row, policy)
        if kept is not None:
            return kept
        with progress.step(asked.row.name, 1, unit="release") as step:
            if self.field is None:
                self.ground = self.common.ground()
                self.field = self.build()
            row = self.field.fill(asked)
            step.advance(1)
        self._keep(key, row, policy)
        return row

    def tidy(self) -> None:
        """Keep the folder small."""
        if self.cache is not None:
            self.cache.tidy()

    def _look_up(self, key: str, row: Row, policy: Policy) -> Row | None:
        content = None if self.cache is None else self.cache.look_up(key)
        found = None if content is None else Findings.read(content)
        return None if found is None else found.fill(row, policy)

    def _keep(self, key: str | None, row: Row, policy: Policy) -> None:
        """Keep a row, unless a file that it comes from changed meanwhile, or since rows are compared by it."""
        if self.cache is None or key is None or self.common.key(policy) != key or self.common.ground() != self.ground:
            return
        found = Findings.of(row, policy)
        if found is not None:
            self.cache.keep(key, found.as_dict())


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """Whom all rows are about, and the attributes that are compared."""

    policy: Policy  # the first one, with attributes in place of baskets
    people: pa.Table  # whom releases are about
    strangers: pa.Table | None  # like them, but in no release
    names: tuple[str, ...]  # attributes that are compared
    known: pa.Table  # the people's compared attributes
    foreign: pa.Table | None  # those of the strangers
    predicted: str | None

    @classmethod
    def of(cls, policies: Sequence[Policy], people: pa.Table, strangers: pa.Table | None, predict: str | None) -> Scene:
        """Find what all policies publish, in both tables."""
        spread = [unfold_baskets(policy, open_source(people, policy.source))[0] for policy in policies]
        names = Ground.names(spread)
        known = _columns(policies[0], people, names, "the table")
        foreign = None if strangers is None else _columns(policies[0], strangers, names, "the control table")
        predicted = Ground.to_predict(spread[0], names, predict)
        return cls(spread[0], people, strangers, tuple(names), known, foreign, predicted)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """Everything that is the same for all rows."""

    scene: Scene
    ground: Ground
    measures: tuple[Measure, ...]
    targets: int
    seed: int | None

    @classmethod
    def of(cls, scene: Scene, targets: int, seed: int | None, questions: int) -> Field:
        """Build the common ground, and ask the source what all releases will be asked."""
        tables = [scene.known] if scene.foreign is None else [scene.known, scene.foreign]
        ground = Ground.of(scene.policy, scene.names, tables, scene.predicted)
        stage = Stage(ground, ground.codes(tables[0]), ground.codes(tables[-1]), questions)
        return cls(scene, ground, tuple(kind(stage) for kind in KINDS), targets, seed)

    def fill(self, asked: Asked) -> Row:
        """Fill a row; a requirement that cannot be reached, or another refusal, stands in place of figures."""
        if asked.policy is None:
            return asked.row
        began = time.perf_counter()
        try:
            release = anonymize(self.scene.people, asked.policy, seed=self.seed)
        except UnreachableError as error:
            return replace(asked.row, reason=str(error), unreachable=True)
        except ShoalError as error:
            return asked.row.without(str(error))
        seconds = round(time.perf_counter() - began, 3)
        return replace(
            asked.row,
            guarantees=tuple(release.guarantees),
            claims=tuple(release.manifest.get("claims", ())),
            risks=self._risks(release, asked.policy),
            utility=self._utility(release),
            seconds=seconds,
            records=int(release.manifest["rows"]),
        )

    def _risks(self, release: Release, policy: Policy) -> dict[str, Trials | Refusal]:
        try:
            found = attack(
                release,
                self.scene.people,
                self.scene.strangers,
                attacks=RISKS,
                targets=self.targets,
                seed=self.seed,
                policy=policy,
            )
        except ShoalError as error:
            return {name: Refusal(name, str(error)) for name in RISKS}
        return {name: _greatest([each for each in found if each.attack == name]) for name in RISKS}

    def _utility(self, release: Release) -> dict[str, Score]:
        rows = reconstruct(release, self.ground, np.random.default_rng(self.seed))
        return {measure.name: measure.score(rows) for measure in self.measures}


def _greatest(found: Sequence[Trials | Refusal]) -> Trials | Refusal:
    """Return the greatest risk that an attack found, of all sensitive columns."""
    tried = [each for each in found if isinstance(each, Trials)]
    return max(tried, key=lambda each: each.risk.value) if tried else found[0]


def _columns(policy: Policy, table: pa.Table, names: Sequence[str], which: str) -> pa.Table:
    source = unfold_baskets(policy, open_source(table, policy.source))[1]
    for name in names:
        if name not in source.schema.names:
            raise InputError(f"{which} has no column {name!r}{did_you_mean(name, source.schema.names)}")
    return read_columns(source, names)
