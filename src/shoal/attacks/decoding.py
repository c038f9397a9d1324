"""decoding: labels of sensitive values stand for what a class has most of, for only that had to be hidden."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shoal.attacks.answers import Asked, SensitiveAttack, not_their_own
from shoal.attacks.base import FEWEST, TREATED, People, Tally, Trials, name_size
from shoal.attacks.parts import Secret
from shoal.attacks.refinement import Places
from shoal.attacks.view import ReleaseView, rows_of
from shoal.core.arrays import AnyIntArray, FloatArray, IntArray
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
    classes cover.
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
        control = None
        if asked.others is not None:
            (start, classes), _ = view.cover(
                view.parts[0], view.hulls(asked.others.codes), asked.others.numbers, near=False
            )
            truth = asked.others.secrets[secret.name][rows_of(start)]
            beside = _count(classes[truth >= 0], truth[truth >= 0], of_class.shape)
            there = np.flatnonzero(beside.sum(axis=1)[labelled.owner] > 0)
            share = beside[labelled.owner, labelled.guess] / np.maximum(beside.sum(axis=1), 1)[labelled.owner]
            records = labelled.records[there]
            control = Tally(round(float(records @ share[there])), int(records.sum())) if len(there) else None
        note = (
            f"{n:,} records are published under labels; decoded, {round(float(labelled.records @ right)):,} of them "
            f"have the value that is said, where the promise allows {round(float(labelled.records @ promised)):,}"
        )
        success, baseline = (Tally(round(float(labelled.records @ each)), n) for each in (right, promised))
        tried = Trials(self.name, success, control, baseline, notes=(note,))
        if tried.risk.low <= 0 or success.success > baseline.success:
            return tried
        found = f"{name_size(tried.risk)}: {tried.risk.value:.0%} of what would stay hidden is found"
        return replace(tried, conclusion=f"{found}, no more than the promise allows")


class Labelled(NamedTuple):
    """Records under one label in one class, for every such label and class."""

    owner: IntArray  # (n,) the class
    records: IntArray  # (n,)
    guess: IntArray  # (n,) the value that the label is taken to stand for
    entry: IntArray  # (m,) of each value below each of the labels, whose it is
    value: IntArray  # (m,) and which
    shown: FloatArray  # (n_classes, n_values) records that show a value by itself

    def find_right(self, left: FloatArray) -> FloatArray:
        """Return (n,) the share of the records that have the guessed value, given what is *left* behind labels."""
        total = np.bincount(self.entry, left[self.owner[self.entry], self.value], len(self.owner))
        return np.asarray(left[self.owner, self.guess] / np.maximum(total, 1e-300))


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
