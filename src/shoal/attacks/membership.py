"""membership: an adversary who knows all quasi values of a person decides whether the person is in a sliced table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray
from shoal.attacks.base import Attack, Tally, Trials
from shoal.errors import InputError, UsageError
from shoal.membership.contents import BucketContents
from shoal.membership.drawing import draw_fakes
from shoal.membership.scores import Scores
from shoal.plan import same_rows
from shoal.sliced.table import SlicedPart, SlicedTable
from shoal.sources.columns import plain

BY_BUCKETS = ("matching-buckets", "matching-degree", "expected-copies", "excess")
POPULARITY = "popularity"
N_TARGETS = 2000
_FEWEST = 20


class MembershipAttack(Attack):
    """Tells members from others by how the buckets match them.

    Li, Li, Zhang and Molloy, section 5. Beside the number of matching buckets it tries the matching degree, the
    expected copies, and these over what the frequencies of the values alone lead one to expect.
    """

    name = "membership"
    title = "who is in the data"

    def __init__(self, n_targets: int = N_TARGETS) -> None:
        if n_targets < _FEWEST:
            raise UsageError(f"{n_targets} targets tell nothing; ask for at least {_FEWEST}")
        self.n_targets = n_targets

    def refuses(self, manifest: Mapping[str, Any]) -> str | None:
        """Return why not: it is about sliced releases whose parts share no attribute and are published as they are."""
        parts = [list(part) for part in manifest["parts"]]
        names = [name for part in parts for name in part]
        if len(parts) < 2:
            return "the attack on membership reads buckets, and this release is not sliced"
        if len(set(names)) < len(names):
            return "the attack on membership does not join overlapping parts"
        quasi = quasi_names(manifest)
        if not quasi:
            return "no attribute is quasi-identifying, so there is nothing that an adversary knows"
        if any("labels" in manifest["attributes"][name] for name in quasi):
            return "the attack on membership does not read generalized columns"
        return None

    def run(
        self,
        published: pa.Table,
        manifest: Mapping[str, Any],
        source: pa.Table,
        control: pa.Table | None,
        rng: np.random.Generator,
    ) -> Trials:
        """Attack members drawn from the source and as many others: of the control table, or else fake tuples."""
        reason = self.refuses(manifest)
        if reason is not None:
            raise UsageError(reason)
        table = SlicedTable.of(published, manifest)
        quasi = quasi_names(manifest)
        parts = [known for part in table.parts if (known := KnownPart.of(part, quasi)) is not None]
        contents = BucketContents.of(table.bucket, [part.codes for part in parts])
        people = _tuples(parts, source, "the source")
        others = None if control is None else _tuples(parts, control, "the control table")
        trials = attack_tuples(contents, people, others, self.n_targets, rng)
        if not manifest.get("withheld"):
            return trials
        note = "members are drawn from all records of the source, those that were withheld included"
        return replace(trials, notes=(*trials.notes, note))


def membership_attack(
    published: pa.Table,
    manifest: Mapping[str, Any],
    source: pa.Table,
    control: pa.Table | None = None,
    n_targets: int = N_TARGETS,
    rng: np.random.Generator | None = None,
) -> Trials:
    """Attack a sliced release, given its rows, its manifest and the table it was made from.

    ``risk`` is the advantage: the share of members who are called members, less that of others.
    """
    return MembershipAttack(n_targets).run(published, manifest, source, control, rng or np.random.default_rng())


def attack_tuples(
    contents: BucketContents, people: CodeArray, others: CodeArray | None, n_targets: int, rng: np.random.Generator
) -> Trials:
    """Attack, given the values of the people in each part, (n_parts, n_people), and of others who are not in the data.

    Without others, they are fake tuples, all equally likely. Each score's rule is chosen on one half of the targets and
    counted on the other half, and so is the score that counts.
    """
    members = _some(people, n_targets, rng)
    if others is None:
        whole = people[:, (people >= 0).all(axis=0)]
        strangers = draw_fakes(contents, whole, n_targets, rng)
        note = f"others are {strangers.shape[1]:,} fake tuples, drawn evenly from all distinct ones"
        if strangers.shape[1] < _FEWEST:
            raise UsageError(
                "there are next to no fake tuples: whoever matches a bucket is in the data; give a control table to "
                "measure how often people who are not in it match none"
            )
    else:
        strangers = _some(others, n_targets, rng)
        note = "others are people of the control table"
    if min(members.shape[1], strangers.shape[1]) < _FEWEST:
        raise UsageError(f"fewer than {_FEWEST} people tell nothing; give larger tables")
    inside, outside = Scores.of(contents, members), Scores.of(contents, strangers)
    learned_in, tested_in = _halves(members.shape[1], rng)
    learned_out, tested_out = _halves(strangers.shape[1], rng)
    variants: dict[str, Trials] = {}
    best, chosen = -1.0, BY_BUCKETS[0]
    for name in (*BY_BUCKETS, POPULARITY):
        yes, no = _figure(inside, name), _figure(outside, name)
        rule, advantage = Rule.learned(yes[learned_in], no[learned_out])
        variants[name] = Trials(name, rule.tally(yes[tested_in]), rule.tally(no[tested_out]))
        if name in BY_BUCKETS and advantage > best:
            best, chosen = advantage, name
    of_best = variants[chosen]
    return Trials(
        MembershipAttack.name, of_best.success, of_best.control, None, variants, (note, f"decided by {chosen}")
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """Calls somebody a member if the score is at least, or at most, a threshold."""

    threshold: float
    above: bool

    def says_member(self, scores: FloatArray) -> BoolArray:
        """Return the decision for each score."""
        return np.asarray(scores >= self.threshold if self.above else scores <= self.threshold)

    def tally(self, scores: FloatArray) -> Tally:
        """Count who is called a member."""
        return Tally(int(np.count_nonzero(self.says_member(scores))), len(scores))

    @classmethod
    def learned(cls, members: FloatArray, others: FloatArray) -> tuple[Rule, float]:
        """Return the rule that tells these members from these others best, and its advantage on them.

        >>> Rule.learned(np.array([3.0, 4.0, 5.0, 1.0]), np.array([0.0, 1.0, 1.0]))
        (Rule(threshold=3.0, above=True), 0.75)
        """
        levels = np.unique(np.concatenate([members, others]))
        inside, outside = np.sort(members), np.sort(others)
        best: tuple[Rule, float] = (cls(float(levels[0]), True), 0.0)
        for above in (True, False):
            side = "left" if above else "right"
            below_in = np.searchsorted(inside, levels, side=side) / len(inside)  # type: ignore[call-overload]
            below_out = np.searchsorted(outside, levels, side=side) / len(outside)  # type: ignore[call-overload]
            advantage = below_out - below_in if above else below_in - below_out
            place = int(np.argmax(advantage))
            if advantage[place] > best[1]:
                best = (cls(float(levels[place]), above), float(advantage[place]))
        return best


@dataclass(frozen=True, slots=True, eq=False)
class KnownPart:
    """The quasi attributes of a part: what an adversary knows of a person there."""

    codes: CodeArray  # (n_rows,)
    distinct: pa.Table  # (n_values rows)

    @classmethod
    def of(cls, part: SlicedPart, quasi: Sequence[str]) -> KnownPart | None:
        """Return the part without its other attributes, or None if nothing is left."""
        names = [name for name in part.names if name in quasi]
        if not names:
            return None
        few = part.distinct.select(names)
        first, group = same_rows([_codes(few.column(name)) for name in names])
        return cls(group[part.codes], few.take(pa.array(first)))

    def values(self, people: pa.Table, told: str) -> CodeArray:
        """Return (n_people,) the value of each, -1 where the release does not show it."""
        names = self.distinct.column_names
        missing = [name for name in names if name not in people.column_names]
        if missing:
            raise InputError(f"{told} has no column {missing[0]!r}, which the release knows as quasi-identifying")
        n_values = self.distinct.num_rows
        columns = []
        for name in names:
            ours = self.distinct.column(name)
            theirs = people.column(name)
            if theirs.type != ours.type:
                ours, theirs = ours.cast(pa.string()), theirs.cast(pa.string())
            columns.append(_codes(pa.chunked_array([*ours.chunks, *theirs.chunks], type=ours.type)))
        first, group = same_rows(columns)
        known = first[group[n_values:]]  # a value of the release stands before all people
        return np.where(known < n_values, known, -1).astype(np.int32)


def quasi_names(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of the quasi attributes of a release."""
    return [name for name, entry in manifest["attributes"].items() if entry["role"] == "quasi"]


def _tuples(parts: Sequence[KnownPart], people: pa.Table, told: str) -> CodeArray:
    if not people.num_rows:
        raise InputError(f"{told} is empty")
    rows = plain(people)
    return np.stack([part.values(rows, told) for part in parts])


def _codes(column: pa.ChunkedArray) -> AnyIntArray:
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(pc.cast(coded.indices, pa.int64()))


def _figure(scores: Scores, name: str) -> FloatArray:
    return np.asarray(getattr(scores, name.replace("-", "_")), dtype=np.float64)


def _some(people: CodeArray, n: int, rng: np.random.Generator) -> CodeArray:
    """Draw n people, or all if there are fewer: nobody twice, for the halves must not share anybody."""
    return people[:, rng.permutation(people.shape[1])[:n]]


def _halves(n: int, rng: np.random.Generator) -> tuple[AnyIntArray, AnyIntArray]:
    order = rng.permutation(n)
    return order[: n // 2], order[n // 2 :]
