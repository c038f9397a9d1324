"""minimality: because the method did not make a class smaller, some values are likelier in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.attacks.base import TREATED, People
from shoal.attacks.downcoding import Hierarchy, build_known_tree
from shoal.attacks.parts import Secret, encode_together
from shoal.attacks.sensitive import Beliefs, LearnedAttack, not_their_own
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.kernels import find_rows
from shoal.models.base import ClassHistograms, PrivacyModel, TableModel, Whole
from shoal.plan.reader import RefusedGroups, dominate, explain
from shoal.release.sliced.table import number_rows

DRAWS = 200  # random assignments of values to the people of each class
PRIOR = 4.0  # weight of a class's own shares, in draws
STEPWISE = ("mondrian", "sweep", "local-suppression")  # methods that make every finer class that satisfies the models
MOST_SETS = 400  # of refused groups that are explained


class MinimalityAttack(LearnedAttack):
    """Considers only those assignments of a class's values to its people in which no smaller class was allowed.

    Wong, Fu, Wang and Pei, "Minimality attack in privacy preserving data publishing" (VLDB 2007). The adversary has the
    quasi values of all people in the data, and information about the method and its guarantees. Incognito chooses the
    best levels: with one attribute a level lower, classes with more records than may be withheld violate the guarantee.
    The attack draws assignments at random and counts them. For the other methods, the transparent reader explains
    groups that are not a class: Mondrian would have cut a class into the children of a label if all of them satisfied
    the models, the sweep would have published any finer label with enough people, and local suppression any combination
    of values. People whom no class covers were withheld because together they violate the models.

    The attack applies if the guarantee limits how often sensitive values occur in a class, as l-diversity of any kind
    does. The levels below a published one are known if the policy is given.
    """

    name = "minimality"
    title = "the sensitive value, because no smaller class was allowed"
    of_records = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: the method must stop at the smallest classes that the sensitive values allow."""
        reason = super().refuses(view)
        if reason is not None:
            return reason
        if any(view.manifest.attributes[name].boxed for name in view.secrets):
            return "sensitive values are published under labels, so their counts are not known; see the attack decoding"
        method, chosen = view.manifest.method, view.manifest.method_parameters
        stops = method in STEPWISE or (method == "incognito" and not chosen.get("recode"))
        if not stops and not view.manifest.withheld:
            return "no record was withheld, and the method does not try all finer classes of the same records"
        if view.treatments.of_quasi:
            return TREATED
        if view.manifest.sample is not None:
            return "the release is a sample, so the people of each class are not known"
        if len(view.secrets) > 1:
            return "any of several sensitive attributes may have prevented smaller classes"
        models = view.form.list_models()
        if any(isinstance(model, TableModel) for model in models):
            return "a guarantee is about all classes together, so it does not show which smaller ones it prevented"
        if any(model.sees == "population" or model.knows_values or len(model.attributes) > 1 for model in models):
            return "a guarantee considers more than how often values occur in a class"
        if not any(model.sees == "values" for model in models):
            return "the guarantee is about the sizes of classes only, so values did not prevent smaller ones"
        return not_their_own(view)

    def learn(self, view: ReleaseView, secret: Secret, everybody: People, rng: np.random.Generator) -> Beliefs:
        """Explain why classes were not made smaller, and why records were withheld."""
        if secret.edges is not None:
            raise UsageError("sensitive values were put into groups, so their frequencies are not known")
        models, withheld = view.form.list_models(), len(everybody) - view.n_rows
        if view.manifest.method == "incognito" and not view.manifest.withheld:
            return self._learn_levels(view, secret, everybody, models, rng)
        published = np.rint(secret.marginal * view.n_rows).astype(np.int64)
        whole = Whole.of(published)
        absent = np.zeros(len(published))
        if withheld > 0:
            size = np.array([min(withheld, int(published.sum()))])
            absent = dominate(published[np.newaxis], size, models, whole)[0][0]

        def beliefs(people: People) -> FloatArray:
            found = np.zeros((len(people), len(published)))
            if view.manifest.method in STEPWISE:
                explain_refused(view, secret, (everybody, people), models, found, rng)
            found[view.copies(people.codes, people.numbers, near=False)[0] == 0] = absent
            return found

        return beliefs

    def _learn_levels(
        self,
        view: ReleaseView,
        secret: Secret,
        everybody: People,
        models: Sequence[PrivacyModel],
        rng: np.random.Generator,
    ) -> Beliefs:
        """Draw assignments of each class's values, and count the ones that explain why no level is lower."""
        members = Members.of(view, secret, everybody)
        whole = Whole.of(np.bincount(members.values, minlength=len(secret.values)))
        lower = _lower_levels(view, everybody, members.class_of)
        seen, drawn = _draw_explaining(members, lower, models, whole, len(secret.values), rng)
        counts = secret.count_in_classes(view.parts[0], np.arange(len(view.parts[0].records)))
        shares: FloatArray = counts / counts.sum(axis=1, keepdims=True)
        likely = (seen + PRIOR * shares[members.class_of_kind]) / (drawn + PRIOR)

        def beliefs(people: People) -> FloatArray:
            kind = members.kinds(view, people)
            return np.append(likely, np.zeros((1, likely.shape[1])), axis=0)[kind]

        return beliefs


def explain_refused(
    view: ReleaseView,
    secret: Secret,
    groups: tuple[People, People],
    models: Sequence[PrivacyModel],
    found: FloatArray,
    rng: np.random.Generator,
) -> None:
    """Fill in the beliefs about the second of two *groups* of people, in whose classes finer groups were refused.

    The first group is all people in the data, whom finer groups count. ``found`` is (n, n_values). For people in
    several refused groups the most informative one decides.
    """
    part, method = view.parts[0], view.manifest.method
    class_of = [view.find_classes(part, people) for people in groups]
    stated = [each.parameters for each in view.manifest.guarantees]
    least = max(math.ceil(each.get(key, 1)) for each in stated for key in ("k", "l"))
    if method == "local-suppression":
        ways = [[list(people.codes.T) for people in groups]]
    else:
        levels = [Hierarchy.of(view, a, groups[0]) for a in range(len(view.known))]
        labels = view.read_records(np.unique(part.pairs.pair_of, return_index=True)[1])[0]
        ways = [
            [[each.find_children(labels[own, a], people)] for own, people in zip(class_of, groups, strict=True)]
            for a, each in enumerate(levels)
        ]
    whole = Whole.of(np.rint(secret.marginal * view.n_rows).astype(np.int64))
    for everybody, asked in ways:
        known = np.flatnonzero((class_of[0] >= 0) & (everybody[0] >= 0))
        group, first = number_rows([class_of[0][known], *(column[known] for column in everybody)], len(known))
        rows, sizes = known[first], np.bincount(group)
        owner, records = class_of[0][rows], part.records[class_of[0][rows]]
        usable = (sizes >= least) & (sizes < records)
        if method == "mondrian":  # all children of a label, or none
            total, fits = np.bincount(owner, sizes), np.bincount(owner, ~usable)
            usable &= (fits[owner] == 0) & (total[owner] <= records)
        own = find_rows([class_of[0][rows], *(column[rows] for column in everybody)], [class_of[1], *asked])
        own[(class_of[1] < 0) | (asked[0] < 0)] = -1
        sets = owner.astype(np.int64) if method == "mondrian" else np.arange(len(rows))
        wanted = np.unique(sets[own[own >= 0]][usable[own[own >= 0]]])
        chosen = np.flatnonzero(usable & np.isin(sets, rng.permutation(wanted)[:MOST_SETS]))
        chosen = chosen[np.argsort(sets[chosen], kind="stable")]
        if not len(chosen):
            continue
        classes, place = np.unique(owner[chosen], return_inverse=True)
        counts = np.rint(secret.count_in_classes(part, classes)).astype(np.int64)
        posterior = np.zeros((len(rows) + 1, found.shape[1]))  # the last row is for people in no refused group
        number = np.unique(sets[chosen], return_inverse=True)[1]
        posterior[chosen] = explain(counts, RefusedGroups(sizes[chosen], place, number), models, whole, rng)
        said = posterior[own]
        more = said.max(axis=1) > found.max(axis=1)
        found[more] = said[more]


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """All people in the data by class, and kinds of people of a class who have the same quasi values."""

    everybody: People
    class_of: AnyIntArray  # (n,)
    kind: CodeArray  # (n,)
    class_of_kind: AnyIntArray  # (n_kinds,)
    values: IntArray  # (n,) published values, class by class
    order: IntArray  # (n,) people, class by class

    @classmethod
    def of(cls, view: ReleaseView, secret: Secret, everybody: People) -> Members:
        """Find each person's class; every class must have as many people as records."""
        part = view.parts[0]
        class_of = view.find_classes(part, everybody)
        if (class_of < 0).any() or (np.bincount(class_of, minlength=len(part.records)) != part.records).any():
            raise UsageError("the people of the source do not fit the classes: the release is not of this table")
        values = [encode_together([everybody.table.column(name)]) for name in view.known]
        kind, first = number_rows([class_of, *values], len(everybody))
        dealt = np.repeat(secret.entries.value, np.rint(secret.entries.weight).astype(np.int64))
        return cls(everybody, class_of, kind, class_of[first], dealt, np.argsort(class_of, kind="stable"))

    def kinds(self, view: ReleaseView, people: People) -> AnyIntArray:
        """Return (n,) the kind of each person, -1 for people unlike anyone in the data."""
        n, tables = len(self.kind), (self.everybody.table, people.table)
        codes = [encode_together([table.column(name) for table in tables]) for name in view.known]
        row = find_rows([column[:n] for column in codes], [column[n:] for column in codes])
        return np.where(row < 0, -1, self.kind[row])


@dataclass(frozen=True, slots=True, eq=False)
class LowerLevels:
    """Smaller classes that the method did not allow, in sets; the method would have made each set as a whole."""

    person: IntArray  # (m,) people of the smaller classes, set by set
    group: IntArray  # (m,) their smaller class
    owner: IntArray  # (n_groups,) the set of each smaller class
    budget: int  # records that could have been withheld


def _draw_explaining(
    members: Members,
    refused: LowerLevels,
    models: Sequence[PrivacyModel],
    whole: Whole,
    n_values: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:
    """Return (n_kinds, n_values) how often a person of a kind had a value in the draws that explain, and their number.

    A draw explains the release if it would have allowed no set of smaller classes.
    """
    n, n_groups = len(members.kind), len(refused.owner)
    n_kinds = len(members.class_of_kind)
    people = np.bincount(members.kind)
    seen, drawn = np.zeros(n_kinds * n_values), 0
    sizes = np.bincount(refused.group, minlength=n_groups)
    drawn_values = np.empty(n, dtype=np.int64)
    for _ in range(DRAWS):
        order = np.argsort(members.class_of + rng.random(n))
        drawn_values[order] = members.values
        key = refused.group * n_values + drawn_values[refused.person]
        counts = np.bincount(key, minlength=n_groups * n_values).reshape(-1, n_values)
        classes = ClassHistograms(sizes, counts)
        holds = np.logical_and.reduce([model.holds(classes, whole) for model in models])
        broken = np.bincount(refused.owner, np.where(holds, 0, sizes))  # records, set by set
        if (broken > refused.budget).all():
            drawn += 1
            seen += np.bincount(members.kind * n_values + drawn_values, minlength=n_kinds * n_values)
    return seen.reshape(-1, n_values) / people[:, None], drawn


def _lower_levels(view: ReleaseView, everybody: People, class_of: AnyIntArray) -> LowerLevels:
    """Return the classes of all levels that are lower in one attribute, as far as these are known."""
    person: list[IntArray] = []
    group: list[IntArray] = []
    owner: list[IntArray] = []
    taken = 0
    for name, level in (view.manifest.levels or {}).items():
        tree = None if level == 0 else build_known_tree(view, name, everybody)
        if tree is not None:
            below: AnyIntArray = tree.node_at(level - 1)[tree.encode(everybody.table.column(name))]
        elif level == 1:
            below = encode_together([everybody.table.column(name)])
        else:
            continue
        finer, first = number_rows([class_of, below], len(class_of))
        person.append(np.arange(len(class_of)))
        group.append(finer.astype(np.int64) + taken)
        owner.append(np.full(len(first), len(owner)))
        taken += len(first)
    if not owner:
        raise UsageError("the levels below the published ones are not known; give the policy")
    budget = 0 if view.policy is None else int(view.policy.max_withheld * len(everybody))
    return LowerLevels(np.concatenate(person), np.concatenate(group), np.concatenate(owner), budget)
