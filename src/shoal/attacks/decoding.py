"""decoding: labels of sensitive values stand for what a class has most of, for only that had to be hidden."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shoal.attacks.answers import Asked, SensitiveAttack, not_their_own
from shoal.attacks.base import FEWEST, TREATED, People, Trials, name_size
from shoal.attacks.exposure import Outcomes, judge
from shoal.attacks.parts import Secret, rows_of
from shoal.attacks.refinement import Places
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.kernels import gather_entries
from shoal.linking.kernels import Histograms
from shoal.linking.linkable import Candidates, encode_column


class DecodingAttack(SensitiveAttack):
    """Says of every record under a label the value below the label that its class shows most often by itself.

    A method that generalizes sensitive values only where there are too many of one, as the sweep does unless it defends
    its labels, says by the label which value that was. Of values that a class shows equally often, the most frequent is
    said: among people who are not in the data, which anybody can know, or else among records without a label.

    Trials are the records under labels. Which values they have is judged by the people who are in their class; where
    classes overlap, by how many of each kind of people are in each, as *refinement* finds. The baseline is what the
    promise allows: the larger of tau and the value's share in the source. The control group are people whom the same
    classes cover, of whom the same is said.
    """

    name = "decoding"
    title = "what labels of sensitive values stand for"
    of_records = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: sensitive values must be published under labels, in classes of the people's own values."""
        reason = super().refuses(view)
        if reason is None and (view.sliced is not None or not any(_has_labels(view, name) for name in view.secrets)):
            return "no sensitive value was generalized, so there are no labels to decode"
        if reason is None and view.treatments.of_quasi:
            return TREATED
        return reason or not_their_own(view)

    def judge(self, view: ReleaseView, secret: Secret, asked: Asked, rng: np.random.Generator) -> Trials:  # noqa: ARG002
        """Decode every label of every class, and count the records for which that is right."""
        everybody, n_values = asked.everybody.secrets[secret.name], len(secret.values)
        known = None if asked.others is None else asked.others.secrets[secret.name]
        labelled = decode(view, secret, None if known is None else np.bincount(known[known >= 0], minlength=n_values))
        n = int(labelled.records.sum())
        if n < FEWEST:
            raise UsageError(f"fewer than {FEWEST} records are published under labels, which tell nothing")
        usual = np.bincount(everybody[everybody >= 0], minlength=n_values) / len(everybody)
        promised = np.maximum(_read_tau(view, secret.name), usual[labelled.guess])
        of_class = count_values(view, secret, asked.everybody)
        right = labelled.find_right(np.maximum(of_class - labelled.shown, 0.0))
        first = np.unique(view.parts[secret.part].pairs.pair_of, return_index=True)[1]  # row of each class
        labels = view.read_records()[0][first]
        which = np.repeat(np.arange(len(labelled.records)), labelled.records)
        said = [np.diff(np.floor(np.cumsum(each[which]) + 0.5), prepend=0.0) > 0 for each in (right, promised)]
        inside = Outcomes(said[0], labelled.belief[which], labels[labelled.owner[which]], said[1])
        others = None if asked.others is None or known is None else labelled.ask(view, asked.others, known, labels)
        tried = judge(self.name, view, inside, others)
        found, allowed = (int(each.sum()) for each in said)
        note = (
            f"{n:,} records are published under labels; decoded, {found:,} of them have the value that is said, where "
            f"the promise allows {allowed:,}"
        )
        tried = replace(tried, notes=(note,))
        worst = tried.worst_case[1]
        if worst.risk.low <= 0 or worst.baseline is None or worst.success.success > worst.baseline.success:
            return tried
        stated = f"{name_size(worst.risk)}: {worst.risk.value:.0%} of what would stay hidden is found"
        return replace(tried, conclusion=f"{stated}, no more than the promise allows")


class Labelled(NamedTuple):
    """Records under one label in one class, for every such label and class."""

    owner: IntArray  # (n,) the class
    records: IntArray  # (n,)
    guess: IntArray  # (n,) the value that the label is taken to stand for
    entry: IntArray  # (m,) of each value below each of the labels, whose it is
    value: IntArray  # (m,) and which
    shown: FloatArray  # (n_classes, n_values) records that show a value by itself

    @property
    def belief(self) -> FloatArray:
        """(n,) the share that the guess has of what the class shows of the values below the label."""
        return self.find_right(self.shown)

    def find_right(self, left: FloatArray) -> FloatArray:
        """Return (n,) the share of the records that have the guessed value, given what is *left* behind labels."""
        total = np.bincount(self.entry, left[self.owner[self.entry], self.value], len(self.owner))
        return np.asarray(left[self.owner, self.guess] / np.maximum(total, 1e-300))

    def ask(self, view: ReleaseView, people: People, truth: CodeArray, labels: CodeArray) -> Outcomes | None:
        """Say of people in the same classes what most labelled records of their class are taken to have."""
        (start, classes), _ = view.cover(view.parts[0], view.hulls(people.codes), people.numbers, near=False)
        most, order = np.full(len(labels), -1), np.argsort(self.records, kind="stable")
        most[self.owner[order]] = order  # the last of a class has most records
        person, entry = rows_of(start), most[classes]
        known = np.flatnonzero((entry >= 0) & (truth[person] >= 0))
        kept = known[np.unique(person[known], return_index=True)[1]]  # everybody once, in whichever class
        entry, true = entry[kept], truth[person[kept]]
        return Outcomes(self.guess[entry] == true, self.belief[entry], labels[classes[kept]]) if len(kept) else None


def decode(view: ReleaseView, secret: Secret, usual: FloatArray | IntArray | None) -> Labelled:
    """Return what every label stands for, given how frequent values usually are; None: as the records without one."""
    codes, texts = encode_column(view.rows.column(secret.name))
    candidates = Candidates.of(texts, view.manifest["attributes"][secret.name].get("labels"), "the release")
    pairs, n_values = view.parts[secret.part].pairs, len(secret.values)
    counted = Histograms.of(pairs.pair_of, codes, np.ones(len(codes), dtype=np.int64), len(pairs.second), len(texts))
    owner, alone = rows_of(counted.start), np.diff(candidates.start)[counted.value] == 1
    single = candidates.value[candidates.start[counted.value]]
    shown = _count(owner[alone], single[alone], (len(pairs.second), n_values), counted.counts[alone])
    often = shown.sum(axis=0) if usual is None else usual
    owner, records = owner[~alone], counted.counts[~alone]
    entry, place = gather_entries(candidates.start, counted.value[~alone])
    value = candidates.value[place]
    order = np.lexsort((often[value], shown[owner[entry], value], entry))  # the best of an entry comes last
    last = np.cumsum(np.bincount(entry, minlength=len(owner))) - 1
    return Labelled(owner, records, value[order][last], entry, value, shown)


def count_values(view: ReleaseView, secret: Secret, everybody: People) -> FloatArray:
    """Return (n_classes, n_values) how many people in each class have each value; expected, where classes overlap."""
    part, truth = view.parts[secret.part], everybody.secrets[secret.name]
    shape = len(part.records), len(secret.values)
    class_of = view.find_classes(part, everybody)
    if (view.copies(everybody.codes, everybody.numbers, near=False)[0] == np.append(part.records, 0)[class_of]).all():
        own = (class_of >= 0) & (truth >= 0)
        return _count(class_of[own], truth[own], shape)
    places = Places.of(view, everybody)
    kind = places.kinds(everybody)
    of_kind = _count(kind[truth >= 0], truth[truth >= 0], (len(places.people), shape[1])) / places.people[:, np.newaxis]
    inside = places.place < len(part.records)  # the last one has the records that were withheld
    found = np.zeros(shape)
    np.add.at(found, places.place[inside], places.expected[inside, np.newaxis] * of_kind[places.kind[inside]])
    return found


def _count(row: AnyIntArray, value: AnyIntArray, shape: tuple[int, int], weight: IntArray | None = None) -> FloatArray:
    key = row.astype(np.int64) * shape[1] + value
    return np.bincount(key, weight, shape[0] * shape[1]).reshape(shape).astype(np.float64)


def _has_labels(view: ReleaseView, name: str) -> bool:
    """Whether some published text of a column stands for several values."""
    labels = view.manifest["attributes"][name].get("labels") or {}
    shown = set(view.rows.column(name).unique().to_pylist())
    return any(text in shown and len(cover.get("values", ())) > 1 for text, cover in labels.items())


def _read_tau(view: ReleaseView, name: str) -> float:
    """Return the share of a class that the release promises no value to exceed; 0 where it promises none."""
    given = [each["parameters"] for each in view.manifest.get("guarantees", ()) if "tau" in each["parameters"]]
    return min((float(each["tau"]) for each in given if each.get("attribute") in (None, name)), default=0.0)
