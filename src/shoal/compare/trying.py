"""One row of a comparison: make the release, attack it, and see what it keeps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shoal.anonymize import anonymize
from shoal.attacks.base import Refusal, Trials
from shoal.attacks.running import attack_release
from shoal.columns.baskets.unfolding import unfolded
from shoal.compare.ground import Ground
from shoal.compare.measures.base import Measure, Score, Stage
from shoal.compare.parts import RISKS
from shoal.compare.reconstruction import reconstructed
from shoal.compare.result import Row
from shoal.core.errors import InputError, ShoalError, UnreachableError, did_you_mean
from shoal.core.registry import discover
from shoal.linking.reading import read_columns
from shoal.policy.policy import Policy
from shoal.release.release import Release
from shoal.sources.opening import open_source


@dataclass(frozen=True, slots=True)
class Asked:
    """A row that says what is to be tried, and the policy to try it by; none if there is a reason against it."""

    row: Row
    policy: Policy | None = None


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
        spread = [unfolded(policy, open_source(people, policy.source))[0] for policy in policies]
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
        kinds = sorted(discover("shoal.compare.measures", Measure).values(), key=lambda kind: kind.place)
        return cls(scene, ground, tuple(kind(stage) for kind in kinds), targets, seed)

    def tried(self, asked: Asked) -> Row:
        """Fill a row; a requirement that cannot be reached, or another refusal, is told in place of figures."""
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
            found = attack_release(
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
        rows = reconstructed(release, self.ground, np.random.default_rng(self.seed))
        return {measure.name: measure.score(rows) for measure in self.measures}


def _greatest(found: Sequence[Trials | Refusal]) -> Trials | Refusal:
    """Return the greatest risk that an attack found, of all sensitive columns."""
    tried = [each for each in found if isinstance(each, Trials)]
    return max(tried, key=lambda each: each.risk.value) if tried else found[0]


def _columns(policy: Policy, table: pa.Table, names: Sequence[str], told: str) -> pa.Table:
    source = unfolded(policy, open_source(table, policy.source))[1]
    for name in names:
        if name not in source.schema.names:
            raise InputError(f"{told} has no column {name!r}{did_you_mean(name, source.schema.names)}")
    return read_columns(source, names)
