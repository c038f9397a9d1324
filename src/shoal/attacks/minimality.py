"""minimality: that a class was not made smaller tells something about who has which value in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.attacks.base import TREATED, People
from shoal.attacks.parts import Secret
from shoal.attacks.sensitive import Beliefs, LearnedAttack, not_their_own
from shoal.attacks.view import ReleaseView, build_known_tree, encode_together
from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.kernels import find_rows
from shoal.core.registry import find
from shoal.models.base import ClassHistograms, PrivacyModel, TableModel, Whole
from shoal.release.sliced.table import number_rows

DRAWS = 200  # of who has which value in each class
PRIOR = 4.0  # draws that a class's own shares count for


class MinimalityAttack(LearnedAttack):
    """Believes of all ways to deal a class's values to its people only those in which no smaller class was allowed.

    Wong, Fu, Wang and Pei, "Minimality attack in privacy preserving data publishing" (VLDB 2007). The adversary knows
    the quasi values of everybody in the data, the method, and what it promises. Incognito takes the best levels: with
    one attribute a level lower, classes with more records than may be withheld break the promise. Ways are drawn at
    random and counted. Classes of other methods overlap, so that it is not known who is in which.

    It applies if the promise is about how often sensitive values occur in a class, whichever they are: l-diversity of
    any kind. The levels below a published one are known if the policy is.
    """

    name = "minimality"
    title = "the sensitive value, because no smaller class was allowed"
    of_records = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: the method must stop at the smallest classes, for the sake of sensitive values."""
        reason = super().refuses(view)
        if reason is not None:
            return reason
        method, chosen = view.manifest.get("method"), view.manifest.get("method_parameters", {})
        if method == "sweep":
            return "classes of the sweep overlap, so it is not known who is in which; decoding tries its labels"
        if method != "incognito" or chosen.get("recode"):
            return "it applies to full-domain generalization, which stops where nothing finer holds"
        if view.treatments.of_quasi:
            return TREATED
        if "sample" in view.manifest:
            return "who of the source was drawn into the sample is not known, and so not who is in which class"
        if view.manifest.get("withheld"):
            return "records were withheld, and which classes they would have broken is not known"
        if len(view.secrets) > 1:
            return "there are several sensitive attributes, and which of them forbade smaller classes is not known"
        models = read_promises(view)
        if any(isinstance(model, TableModel) for model in models):
            return "a promise is about all classes together, so which smaller ones it forbade is not known"
        if any(model.sees == "population" or model.knows_values or len(model.attributes) > 1 for model in models):
            return "what the release promises looks beyond how often values occur in a class"
        if not any(model.sees == "values" for model in models):
            return "the promise is about the sizes of classes only, so smaller ones were not refused for their values"
        return not_their_own(view)

    def learn(self, view: ReleaseView, secret: Secret, everybody: People, rng: np.random.Generator) -> Beliefs:
        """Draw ways to deal each class's values, and keep those that explain why it was not made smaller."""
        members = Members.of(view, secret, everybody)
        whole = Whole.of(np.bincount(members.values, minlength=len(secret.values)))
        models = read_promises(view)
        refused = _lower_levels(view, everybody, members.class_of)
        seen, drawn = _draw_explaining(members, refused, models, whole, len(secret.values), rng)
        counts = secret.count_in_classes(view.parts[0])
        shares: FloatArray = counts / counts.sum(axis=1, keepdims=True)
        likely = (seen + PRIOR * shares[members.class_of_kind]) / (drawn + PRIOR)

        def beliefs(people: People) -> FloatArray:
            kind = members.kinds(view, people)
            return np.append(likely, np.zeros((1, likely.shape[1])), axis=0)[kind]

        return beliefs


def read_promises(view: ReleaseView) -> list[PrivacyModel]:
    """Return the models that the manifest promises."""
    return [
        find("shoal.models", PrivacyModel, each["model"], what="privacy model").model_validate(each["parameters"])
        for each in view.manifest.get("guarantees", [])
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Everybody in the data by class, and kinds of people of a class who have the same quasi values."""

    everybody: People
    class_of: AnyIntArray  # (n,)
    kind: CodeArray  # (n,)
    class_of_kind: AnyIntArray  # (n_kinds,)
    values: IntArray  # (n,) published values, class by class
    order: IntArray  # (n,) people, class by class

    @classmethod
    def of(cls, view: ReleaseView, secret: Secret, everybody: People) -> Members:
        """Find everybody's class, which must have as many people as records."""
        if secret.edges is not None or "labels" in view.manifest["attributes"][secret.name]:
            raise UsageError("sensitive values were put into groups, so it is not known how often each occurs")
        part = view.parts[0]
        class_of = view.find_classes(part, everybody)
        if (class_of < 0).any() or (np.bincount(class_of, minlength=len(part.records)) != part.records).any():
            raise UsageError("the people of the source are not those of the classes: the release is not of this table")
        values = [encode_together([everybody.table.column(name)]) for name in view.known]
        kind, first = number_rows([class_of, *values], len(everybody))
        dealt = np.repeat(secret.entries.value, np.rint(secret.entries.weight).astype(np.int64))
        return cls(everybody, class_of, kind, class_of[first], dealt, np.argsort(class_of, kind="stable"))

    def kinds(self, view: ReleaseView, people: People) -> AnyIntArray:
        """Return (n,) the kind of each person, -1 for those of whom there is none in the data."""
        n, tables = len(self.kind), (self.everybody.table, people.table)
        codes = [encode_together([table.column(name) for table in tables]) for name in view.known]
        row = find_rows([column[:n] for column in codes], [column[n:] for column in codes])
        return np.where(row < 0, -1, self.kind[row])


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """Smaller classes that the method did not allow, in sets of which each would have been made as a whole."""

    person: IntArray  # (m,) people of the smaller classes, set by set
    group: IntArray  # (m,) their smaller class
    owner: IntArray  # (n_groups,) the set of each smaller class
    budget: int  # records of classes that break the promise which could have been withheld


def _draw_explaining(
    members: Members,
    refused: Refused,
    models: Sequence[PrivacyModel],
    whole: Whole,
    n_values: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:
    """Return (n_kinds, n_values) how many people of a kind had a value in draws that explain, and how many did so.

    A draw explains why nothing finer was published if no set of smaller classes would have been allowed.
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


def _lower_levels(view: ReleaseView, everybody: People, class_of: AnyIntArray) -> Refused:
    """Return the classes of all levels that are lower in one attribute, as far as these are known."""
    person: list[IntArray] = []
    group: list[IntArray] = []
    owner: list[IntArray] = []
    taken = 0
    for name, level in view.manifest["levels"].items():
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
        raise UsageError("nothing tells what lies below the published levels; give the policy")
    budget = 0 if view.policy is None else int(view.policy.max_withheld * len(everybody))
    return Refused(np.concatenate(person), np.concatenate(group), np.concatenate(owner), budget)
