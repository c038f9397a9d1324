"""reconstruction: gradient boosting learns from the published rows and guesses every hidden column."""

from __future__ import annotations

import numpy as np

from shoal.attacks.base import NOBODYS, People, Trials
from shoal.attacks.parts import Secret, rows_of
from shoal.attacks.sensitive import Beliefs, LearnedAttack
from shoal.attacks.view import UNKNOWN, ReleaseView
from shoal.core.arrays import FloatArray
from shoal.core.errors import UsageError

ROWS = 10_000  # at most, in the training set
VALUES = 20  # most frequent values that the model distinguishes
ROUNDS = 20  # of boosting


class ReconstructionAttack(LearnedAttack):
    """Learns from the published rows how a hidden column follows from the others, and guesses people's own values.

    Hidden columns are the sensitive ones and the generalized quasi attributes. For the latter the target is the value,
    or the narrowest range that labels distinguish, and the adversary has the other quasi values. The baseline is the
    most frequent value.
    """

    name = "reconstruction"
    title = "hidden values, learned from the published rows"
    of_hidden, beats_reader = True, False

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: rows must be published whole, and scikit-learn must be installed."""
        try:
            import sklearn  # noqa: F401
        except ImportError:
            return "it learns with scikit-learn, which is not installed; install shoal[attacks]"
        if view.sliced is not None:
            return "no row shows all values of one record; the attack definetti learns from buckets"
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
        """Fit the values of classes; a label is represented by the middle of its codes."""
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        pairs, entries = view.parts[secret.part].pairs, secret.entries
        first = np.unique(pairs.pair_of, return_index=True)[1]
        labels = view.read_records(first)[0]
        middles = [(stated.low + stated.high - 1) / 2 for stated in view.labels]
        known = np.stack([own[label] for own, label in zip(middles, labels.T, strict=True)], axis=1)
        frequent = np.argsort(-secret.marginal, kind="stable")[:VALUES]
        row, value = rows_of(entries.start), entries.value
        used = np.flatnonzero(np.isin(value, frequent))
        shares = entries.weight[used] / entries.weight[used].sum()
        used = rng.choice(used, min(ROWS, view.n_rows), p=shares)
        if len(np.unique(value[used])) < 2:
            raise UsageError(f"{secret.name!r} shows fewer than two values, so there is nothing to learn")
        model = HistGradientBoostingClassifier(
            max_iter=ROUNDS, random_state=int(rng.integers(2**31)), early_stopping=False
        )
        with threadpool_limits(1):  # for so few rows, threads cost more than they save
            model.fit(known[row[used]], value[used])

        def beliefs(people: People) -> FloatArray:
            stated = np.where(people.codes == UNKNOWN, np.nan, people.codes.astype(np.float64))
            found = np.zeros((len(people), len(secret.values)))
            with threadpool_limits(1):
                found[:, model.classes_] = model.predict_proba(stated)
            return found

        return beliefs
