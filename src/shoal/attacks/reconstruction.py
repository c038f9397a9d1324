"""reconstruction: every hidden column, guessed by gradient boosting that learns from the published rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoal.attacks.base import FEWEST, NOBODYS, People, Trials
from shoal.attacks.parts import Secret, rows_of
from shoal.attacks.sensitive import Answers, Asked, Beliefs, LearnedAttack, find_share, guess_likeliest, mode
from shoal.attacks.view import UNKNOWN, ReleaseView
from shoal.core.arrays import FloatArray
from shoal.core.errors import UsageError

ROWS = 10_000  # at most, that are learned from
VALUES = 20  # that are told apart; rarer ones are guessed by the reader only
ROUNDS = 20  # of boosting
RARE = 0.05  # share of the published records, below which a value is called rare
RARE_VALUES, READER = "rare values", "reader"


class ReconstructionAttack(LearnedAttack):
    """Learns from the published rows how a hidden column follows from the others, and guesses people's own values.

    Hidden columns are the sensitive ones and the quasi attributes that are generalized; of the latter the target is the
    value, or the narrowest range that labels tell apart, and the adversary knows the other quasi values. The baseline
    is the most frequent value. The variant ``reader`` guesses from the person's class alone; ``rare values`` counts the
    people whose true value has less than a share of 0.05 of the records.
    """

    name = "reconstruction"
    title = "hidden values, learned from the published rows"
    of_hidden = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: rows must be published whole, and scikit-learn must be there."""
        try:
            import sklearn  # noqa: F401
        except ImportError:
            return "it learns with scikit-learn, which is not installed; install shoal[attacks]"
        if view.sliced is not None:
            return "no row shows all values of one record; definetti learns from buckets"
        if view.form.by_plan:
            return "the classes of a plan have no labels to learn from"
        return NOBODYS if view.treatments.nobodys else super().refuses(view)

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Attack members drawn from the source, and people of the control group, in the codes of this view."""
        drawn = [
            None if people is None else view.recode(people.draw(self.n_targets, rng)) for people in (targets, control)
        ]
        return super().run(view, drawn[0] or targets, drawn[1], rng)

    def learn(self, view: ReleaseView, secret: Secret, everybody: People, rng: np.random.Generator) -> Beliefs:  # noqa: ARG002
        """Fit the classes' values; a label is the middle of the codes that it covers."""
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        pairs, entries = view.parts[secret.part].pairs, secret.entries
        first = np.unique(pairs.pair_of, return_index=True)[1]
        labels = view.read_records(first)[0]
        middles = [(stated.low + stated.high - 1) / 2 for stated in view.labels]
        known = np.stack([own[label] for own, label in zip(middles, labels.T, strict=True)], axis=1)
        told = np.argsort(-secret.marginal, kind="stable")[:VALUES]
        row, value = rows_of(entries.start), entries.value
        used = np.flatnonzero(np.isin(value, told))
        shares = entries.weight[used] / entries.weight[used].sum()
        used = rng.choice(used, min(ROWS, view.n_rows), p=shares)
        if len(np.unique(value[used])) < 2:
            raise UsageError(f"{secret.name!r} shows fewer than two values, so there is nothing to learn")
        model = HistGradientBoostingClassifier(
            max_iter=ROUNDS, random_state=int(rng.integers(2**31)), early_stopping=False
        )
        with threadpool_limits(1):  # threads would wait for each other longer than so few rows take
            model.fit(known[row[used]], value[used])

        def beliefs(people: People) -> FloatArray:
            stated = np.where(people.codes == UNKNOWN, np.nan, people.codes.astype(np.float64))
            found = np.zeros((len(people), len(secret.values)))
            with threadpool_limits(1):
                found[:, model.classes_] = model.predict_proba(stated)
            return found

        return beliefs

    def judge(self, view: ReleaseView, secret: Secret, asked: Asked, rng: np.random.Generator) -> Trials:
        """Learn once, and count the guesses, those of the reader, and those about rare values."""
        beliefs = self.learn(view, secret, asked.everybody, rng)

        def answer(people: People, weights: FloatArray) -> Answers:
            blind = np.full(len(people), mode(secret))
            guess = guess_likeliest(weights, blind, rng)
            return Answers(people, guess, blind, people.secrets[secret.name], find_share(weights, guess))

        groups = [asked.members] if asked.others is None else [asked.members, asked.others]
        learned = [answer(people, beliefs(people)) for people in groups]
        read = [answer(people, view.believe(secret, people)) for people in groups]
        rare = [each.select(np.flatnonzero(np.append(secret.marginal, 0)[each.truth] < RARE)) for each in learned]
        stated = {self.name: learned, READER: read, RARE_VALUES: rare}
        found = {
            name: own.try_beside(beside[0] if beside else None, name, view)
            for name, (own, *beside) in stated.items()
            if all(len(each.truth) >= FEWEST for each in (own, *beside))
        }
        return replace(found.pop(self.name), variants=found)
