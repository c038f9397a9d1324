"""Every promise of a sliced release, judged for all tuples that are asked about."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray
from shoal.manifest import Attribute
from shoal.verify.exact import CannotCheckError
from shoal.verify.guarantees import Subject, agrees
from shoal.verify.manifest import Manifest
from shoal.verify.promises import Found, Promise, evaluate, find_model, worst_of
from shoal.verify.result import CheckedGuarantee
from shoal.verify.sliced.beliefs import Adversary, Beliefs

Outcome = tuple[float | None, bool, str]  # what is reached, whether that confirms the promise, and a sentence


@dataclass(slots=True, eq=False)
class _Case:
    """A promise about beliefs, and what tuples reach of it."""

    promise: Promise
    groups: dict[Subject, Found]  # what every group reaches, in whole numbers
    failing: Counter[Subject] = field(default_factory=Counter)
    tuples: Counter[Subject] = field(default_factory=Counter)  # that some bucket matches
    figures: list[float] = field(default_factory=list)

    def add(self, subject: Subject, beliefs: Beliefs, attribute: Attribute | None) -> None:
        """Judge what is believed of some more tuples."""
        worst, (holds, reached) = worst_of(self.promise), self.groups[subject]
        self.tuples[subject] += len(beliefs.single) + len(beliefs.mixed.sizes)
        if len(beliefs.single):
            self.failing[subject] += int((~holds[beliefs.single]).sum())
            own = reached[beliefs.single]
            self.figures.append(float(worst(own.min(), own.max())))
        if len(beliefs.mixed.sizes):
            kept, found = evaluate(self.promise, beliefs.mixed, attribute)
            self.failing[subject] += int((~(kept | beliefs.keep_exactly(holds))).sum())
            self.figures.append(float(worst(found.min(), found.max())))

    @property
    def achieved(self) -> float | None:
        """The worst that is believed of a tuple; None: no bucket matches any."""
        return worst_of(self.promise)(self.figures) if self.figures else None

    @property
    def shortfall(self) -> str | None:
        """How many of all tuples do not keep it, if some do not."""
        failing = max(self.failing.values(), default=0)
        return f"{failing} of {self.n_tuples}" if failing else None

    @property
    def n_tuples(self) -> int:
        """How many different tuples were judged."""
        return max(self.tuples.values(), default=0)


def check_promises(
    adversary: Adversary, manifest: Manifest, tuples: CodeArray | None, *, with_source: bool
) -> tuple[list[CheckedGuarantee], BoolArray | None]:
    """Return every promise beside what the tuples reach; None: they are too many to be formed.

    Also return which tuples some bucket matches, unless no promise made anybody look for that.
    """
    by_name = {attribute.name: attribute for attribute in manifest.attributes}

    def attribute_of(subject: Subject) -> Attribute | None:
        return by_name[subject[0]] if len(subject) == 1 else None

    cases: dict[int, _Case] = {}
    outcomes: dict[int, Outcome] = {}
    for place, promise in enumerate(manifest.promises):
        outcome = _judge_without_beliefs(promise, adversary)
        if outcome is not None:
            outcomes[place] = outcome
            continue
        try:
            groups = {one: adversary.factors(one)[0].groups for one in promise.subjects}
            found = {one: evaluate(promise, own, attribute_of(one)) for one, own in groups.items()}
            cases[place] = _Case(promise, found)
        except CannotCheckError as obstacle:
            outcomes[place] = None, False, f"cannot check: {obstacle}"
    matched: list[BoolArray] = []
    for subject in dict.fromkeys(subject for case in cases.values() for subject in case.groups):
        matched = []
        for beliefs in adversary.believe(subject, tuples) if tuples is not None else ():
            matched.append(beliefs.matched)
            for case in cases.values():
                if subject in case.groups:
                    case.add(subject, beliefs, attribute_of(subject))
    for place, case in cases.items():
        judged = tuples is not None and with_source
        outcomes[place] = _judge_by_source(case) if judged else _judge_alone(case, adversary)
    checked = [
        CheckedGuarantee(promise.model, promise.parameters, promise.claimed, *outcomes[place])
        for place, promise in enumerate(manifest.promises)
    ]
    return checked, np.concatenate(matched) if matched else None


def _judge_without_beliefs(promise: Promise, adversary: Adversary) -> Outcome | None:
    """Return the answer to a promise that is not about what is believed of tuples."""
    if promise.obstacle:
        return None, False, promise.obstacle
    if promise.model == "column-frequency":
        crowd = float(adversary.crowd())
        if crowd < promise.whole("k"):
            return crowd, False, "a bucket, or quasi values within one part, have fewer records"
        if not agrees(promise.claimed, crowd):
            return crowd, False, "the manifest's 'achieved' is not what the rows reach"
        return crowd, True, "every bucket, and all quasi values within one part, have as many records"
    model = find_model(promise.model)
    if model is None or model.about != "values" or not model.mixes:
        return None, False, "cannot check: no sliced release can promise this model"
    return None


def _judge_by_source(case: _Case) -> Outcome:
    achieved = case.achieved
    if achieved is None:
        return None, False, "no tuple of the source matches a bucket"
    if case.shortfall:
        return achieved, False, f"{case.shortfall} different tuples of the source do not keep it"
    if not agrees(case.promise.claimed, achieved):
        return achieved, False, "the manifest's 'achieved' is not what the tuples of the source reach"
    return achieved, True, f"all {case.n_tuples} different tuples of the source keep it"


def _judge_alone(case: _Case, adversary: Adversary) -> Outcome:
    """Judge without a source: whoever is in the table is one of the tuples that the buckets could form."""
    worst, claimed, achieved = worst_of(case.promise), case.promise.claimed, case.achieved
    if case.shortfall:
        detail = f"{case.shortfall} tuples that the buckets could form do not keep it; only the "
        return achieved, False, detail + "source can tell whether they are in the table"
    if achieved is None:
        # Where D(t,B) is that of one group, tuples keep what all groups keep, and none is worse than the worst group.
        mixtures = all(len(adversary.factors(subject)) == 1 for subject in case.groups)
        if not mixtures or not all(bool(holds.all()) for holds, _ in case.groups.values()):
            detail = "the buckets could form too many tuples to be judged; only the source can tell who is there"
            return None, False, detail
        achieved = worst(float(worst(reached.min(), reached.max())) for _, reached in case.groups.values())
    kept = "every tuple that the buckets could form keeps it, whoever is in the table"
    if agrees(claimed, achieved):
        return achieved, True, kept
    if claimed is None or worst(claimed, achieved) == claimed:
        return achieved, False, "the manifest's 'achieved' is worse than what any tuple could reach"
    return achieved, True, f"{kept}; whether the 'achieved' of the manifest is reached, only the source can tell"
