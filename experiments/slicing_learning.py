"""Figures 3 to 5 of the slicing paper: what classifiers learn from originals, and from releases of them.

Weka's J48 and NaiveBayes are what the paper ran. Scikit-learn's tree (entropy, at least two records in a leaf) grows as
theirs does but is not pruned; here it is, by C4.5's rule. Decision 25 says what differs. Where Weka is at hand, its own
J48 is asked too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa

from experiments import weka
from experiments.slicing_tables import SENSITIVE, FeatureArray, Rows, Table
from shoal.anonymize import anonymize
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UnreachableError, UsageError
from shoal.core.kernels import kernel
from shoal.core.progress import Progress
from shoal.methods.slicing import Slicing
from shoal.methods.slicing.buckets import Cutter
from shoal.plan.problem import Problem
from shoal.plan.slices import SlicedPlan
from shoal.policy.policy import Policy
from shoal.utility.marginals import measure_distance

CONFIDENCE = 0.25  # C4.5's and J48's: smaller prunes more
LEAST_IN_LEAF = 2
_NO_CHILD = -1
ORIGINAL = "original"
GENERALIZATION = "generalization"
BUCKETIZATION = "bucketization"
SLICING = "slicing"
RANDOM_BUCKETIZATION = "bucketization in random buckets"
RANDOM_SLICING = "slicing in random buckets"
MULTISETS = "multisets"
LOCAL_RECODING = "local recoding"
# Local recoding and multisets are made of the buckets that slicing publishes.
TECHNIQUES = (
    ORIGINAL,
    GENERALIZATION,
    BUCKETIZATION,
    SLICING,
    RANDOM_BUCKETIZATION,
    RANDOM_SLICING,
    LOCAL_RECODING,
    MULTISETS,
)
TREE = "decision tree"
BAYES = "naive Bayes"
J48 = "Weka's J48"
CLASSIFIERS = (TREE, BAYES)
PRUNED = "pruned by C4.5's rule"  # the same decision tree, among those that are pruned otherwise
# Trees that are not pruned: what stops them is the least number of records in a leaf.
UNPRUNED = {f"at least {least} records in a leaf": least for least in (2, 20, 100, 300)}
TARGETS = ("occupation", "education")
QUESTIONS = tuple(itertools.product(TARGETS, CLASSIFIERS))
BUCKET_SIZE = 100  # of random buckets, as in the paper's Figures 6 and 7; more where the requirement needs it
DRAWS = 5
ALPHA = 2


def require_learning() -> None:
    """Raise unless classifiers can learn; to be called before long work."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise UsageError(
            "classifiers need scikit-learn, which is not installed: pip install --group experiments"
        ) from None


@dataclass(frozen=True, slots=True, eq=False)
class PrunedTree:
    """A decision tree whose branches were cut where C4.5 expects no more errors without them.

    Quinlan, "C4.5: programs for machine learning", section 4.2: of the records like those in a leaf so many are
    expected to be of another class as the upper limit of the binomial at the confidence says; a branch that expects
    no fewer in its leaves becomes a leaf.
    """

    tree: Any
    answer: IntArray  # (n_nodes,) what is said of a record that ends there, or would end further down

    @classmethod
    def learn(cls, features: FeatureArray, classes: IntArray, seed: int) -> PrunedTree:
        """Grow the tree by information gain, then prune it."""
        grown = grow_tree(features, classes, LEAST_IN_LEAF, seed)
        tree = grown.tree_
        present = np.asarray(grown.classes_, dtype=np.int64)
        commonest = present[np.argmax(tree.value[:, 0, :], axis=1)]
        size = np.asarray(tree.n_node_samples, dtype=np.int64)
        correct = np.rint(np.max(tree.value[:, 0, :], axis=1) * size).astype(np.int64)
        left = np.asarray(tree.children_left, dtype=np.int64)
        right = np.asarray(tree.children_right, dtype=np.int64)
        cut = prune(expected_errors(size, size - correct), left, right)
        return cls(tree, _answers(cut, commonest, left, right))

    def predict(self, features: FeatureArray) -> IntArray:
        """Return the class of the leaf of each row."""
        leaf: IntArray = self.tree.apply(features)
        return self.answer[leaf]


def grow_tree(features: FeatureArray, classes: IntArray, least_in_leaf: int, seed: int) -> Any:
    """Grow scikit-learn's tree by information gain."""
    require_learning()
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=least_in_leaf, random_state=seed)
    return tree.fit(features, classes)


def expected_errors(size: IntArray, errors: IntArray) -> FloatArray:
    """Return how many errors each node would make as a leaf, at the upper limit of its binomial.

    Of six, nine and one records of one class each, Quinlan expects the shares 0.206, 0.143 and 0.750 to be of another.

    >>> size = np.array([6, 9, 1])
    >>> (expected_errors(size, np.zeros(3, dtype=np.int64)) / size).round(3)
    array([0.206, 0.143, 0.75 ])
    """
    from scipy.special import betaincinv

    rest = np.maximum(size - errors, 1)  # a node without a correct record is wrong for all
    share = np.where(errors < size, betaincinv(errors + 1.0, rest, 1 - CONFIDENCE), 1.0)
    return np.asarray(size * share, dtype=np.float64)


@kernel
def prune(as_leaf: FloatArray, left: IntArray, right: IntArray) -> BoolArray:
    """Return the nodes that end their branch: leaves, and those that expect no fewer errors from below.

    Children stand behind their parents.
    """
    n_nodes = len(left)
    expected = as_leaf.copy()
    cut = np.ones(n_nodes, dtype=np.bool_)
    for node in range(n_nodes - 1, -1, -1):
        if left[node] == _NO_CHILD:
            continue
        below = expected[left[node]] + expected[right[node]]
        if below < as_leaf[node]:
            expected[node] = below
            cut[node] = False
    return cut


@kernel
def _answers(cut: BoolArray, commonest: IntArray, left: IntArray, right: IntArray) -> IntArray:
    """Give every node below a cut the answer of the cut."""
    answer = commonest.copy()
    ended = cut.copy()
    for node in range(len(left)):
        if ended[node] and left[node] != _NO_CHILD:
            for child in (left[node], right[node]):
                ended[child] = True
                answer[child] = answer[node]
    return answer


@dataclass(frozen=True, slots=True, eq=False)
class NaiveBayes:
    """Naive Bayes over categories, each counted once more than it occurs."""

    model: Any

    @classmethod
    def learn(cls, categories: IntArray, classes: IntArray, n_categories: IntArray) -> NaiveBayes:
        """Count; ``n_categories`` tells how many each attribute may have."""
        require_learning()
        from sklearn.naive_bayes import CategoricalNB

        return cls(CategoricalNB(alpha=1.0, min_categories=n_categories).fit(categories, classes))

    def predict(self, categories: IntArray) -> IntArray:
        """Return the likeliest class of each row."""
        return np.asarray(self.model.predict(categories), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Setting:
    """One technique with its parameters; the original has none."""

    technique: str
    l: int | None = None
    c: int | None = None

    @property
    def method(self) -> dict[str, Any]:
        """The method of a policy: buckets are cut as Mondrian does or random; bucketization is slicing with QI | S."""
        if self.technique == GENERALIZATION:
            return {"mondrian": {}}
        alpha = 1 if self.technique in (BUCKETIZATION, RANDOM_BUCKETIZATION) else ALPHA
        random = {"grouping": "random", "bucket_size": BUCKET_SIZE} if self.is_random else {}
        return {"slicing": {"columns": self.c, "alpha": alpha, **random}}

    @property
    def is_random(self) -> bool:
        """Whether records are put into buckets at random."""
        return self.technique in (RANDOM_BUCKETIZATION, RANDOM_SLICING)


class _PaperCutter(Cutter):
    """Cuts as the paper's tuple partition does, even if a bucket then links the parts of its records."""

    def find_linked(self, cells: CodeArray, half: IntArray, n_buckets: int) -> BoolArray:  # noqa: ARG002
        """Return that no bucket is linked."""
        return np.zeros(n_buckets, dtype=np.bool_)


class _PaperSlicing(Slicing):
    """Slicing with buckets that are cut by all quasi attributes, as Mondrian does (section 4.3 of the paper)."""

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> SlicedPlan:
        """Return the parts that slicing finds, with the paper's buckets."""
        found, counts = super().plan(problem, rng, progress), problem.cells.counts
        items = _PaperCutter(problem, found.parts, counts, smallest=2).cut(range(len(problem.quasi)))
        plan = SlicedPlan.of_pieces(found.parts, counts, items.pieces(), items.n_buckets)
        return replace(plan, search=found.search)


@dataclass(frozen=True, slots=True)
class Folds:
    """How many folds each way of testing deals."""

    own: int = 10
    unseen: int = 3


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How often a classifier that learned from one technique's rows is right; None: no table meets the requirement.

    ``own`` is the paper's: folds of the published rows themselves. ``unseen`` asks about original records that the
    published rows do not hold: the other folds were anonymized by themselves.
    """

    technique: str
    l: int | None
    c: int | None
    target: str
    classifier: str
    own: float | None
    unseen: float | None


@dataclass(frozen=True, slots=True)
class Slices:
    """The columns and buckets of one sliced release."""

    technique: str
    l: int | None
    c: int | None
    parts: list[list[str]]
    buckets: int
    mixed: float  # share of the records whose bucket holds both sexes


@dataclass(frozen=True, slots=True)
class Learned:
    """What came of one setting."""

    accuracies: list[Accuracy]
    slices: Slices | None  # of the release of the whole table, if it is sliced


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """The rows that one technique publishes of a table, as an analyst makes them usable: sliced ones re-linked."""

    draw: Callable[[np.random.Generator], Rows]
    slices: Slices | None = None


def publish(table: Table, source: pa.Table, setting: Setting, seed: int) -> Publication:
    """Publish some rows of the table; raises if the requirement cannot be met."""
    if setting.l is None:
        rows = Rows.of_values(table, source)
        return Publication(lambda _: rows)
    policy = Policy.load(table.policy(setting.l, setting.method))
    if isinstance(policy.method, Slicing) and not setting.is_random:
        policy = replace(policy, method=_PaperSlicing(**policy.method.model_dump()))
    release = anonymize(source, policy, seed=seed)
    if setting.technique == GENERALIZATION:
        labels = Rows.of_labels(table, release.data, release.manifest)
        return Publication(lambda _: labels)
    parts, n_buckets = list(release.manifest["parts"]), int(release.manifest["buckets"])
    if setting.technique in (LOCAL_RECODING, MULTISETS):
        sliced, bucket = Rows.of_values(table, release.data), np.asarray(release.data["bucket"], dtype=np.int64)
        recoded = recode_locally(sliced, bucket)
        local = setting.technique == LOCAL_RECODING
        return Publication(lambda rng: recoded if local else link_at_random(sliced, bucket, rng))
    return Publication(
        lambda rng: Rows.of_values(table, release.sample_table(rng)),
        Slices(setting.technique, setting.l, setting.c, parts, n_buckets, share_of_mixed(release.data)),
    )


def recode_locally(rows: Rows, bucket: IntArray) -> Rows:
    """Replace the quasi values of each bucket by their range (section 2.2 of the paper); sensitive values stay."""
    order = np.argsort(bucket, kind="stable")
    starts = np.flatnonzero(np.diff(bucket[order], prepend=-1))
    number = np.unique(bucket, return_inverse=True)[1].reshape(-1)
    least, greatest = (side.reduceat(rows.least[order], starts)[number] for side in (np.minimum, np.maximum))
    place = rows.table.place(SENSITIVE)
    least[:, place] = greatest[:, place] = rows.least[:, place]
    return Rows(rows.table, least, greatest)


def link_at_random(rows: Rows, bucket: IntArray, rng: np.random.Generator) -> Rows:
    """Draw rows from the multisets of exact values that each bucket has, every attribute by itself (section 2.2)."""
    shuffled = [
        rows.least[np.lexsort((rng.random(len(bucket)), bucket)), place] for place in range(rows.least.shape[1])
    ]
    return Rows(rows.table, np.stack(shuffled, axis=1))


def distance_of_pairs(rows: Rows, originals: Rows, rng: np.random.Generator) -> float:
    """Return the total variation distance of the joint shares of two attributes, mean over all pairs; 0 is no loss.

    Where a label leaves several values, one is drawn; numbers with many values are put in bins.
    """
    columns = rows.table.columns
    values = [[column.bin[side.draw(column.name, rng)] for column in columns] for side in (rows, originals)]
    distances = []
    for a, b in itertools.combinations(range(len(columns)), 2):
        size = int(columns[b].bin.max()) + 1
        n_pairs = (int(columns[a].bin.max()) + 1) * size
        joint = [np.bincount(one[a] * size + one[b], minlength=n_pairs).astype(np.float64) for one in values]
        distances.append(measure_distance(*joint))
    return fmean(distances)


def measure_learning(
    table: Table, setting: Setting, folds: Folds, seed: int, questions: Sequence[tuple[str, str]] = QUESTIONS
) -> Learned:
    """Publish by one technique and measure what can be learned, in both ways, for each target and classifier."""
    rng = np.random.default_rng([seed, TECHNIQUES.index(setting.technique), setting.l or 0, setting.c or 0])
    chosen = (setting.technique, setting.l, setting.c)
    try:
        publication = publish(table, table.rows, setting, seed)
    except UnreachableError:
        return Learned([Accuracy(*chosen, *question, None, None) for question in questions], None)
    draws = [publication.draw(rng) for _ in range(min(DRAWS, folds.own))]
    fold_of = rng.permutation(draws[0].n_rows) % folds.own
    unseen = list(_unseen(table, setting, folds.unseen, seed, rng))
    accuracies = []
    for question in questions:
        own = [
            measure_accuracy(rows, rows, fold_of == fold, *question, rng)
            for fold, rows in zip(range(folds.own), itertools.cycle(draws), strict=False)
        ]
        other = [measure_accuracy(rows, asked, None, *question, rng) for rows, asked in unseen]
        accuracies.append(Accuracy(*chosen, *question, fmean(own), fmean(other) if other else None))
    return Learned(accuracies, publication.slices)


def measure_accuracy(
    rows: Rows, asked: Rows, held: BoolArray | None, target: str, classifier: str, rng: np.random.Generator
) -> float:
    """Return the share of the *asked* rows whose target is given by a classifier that learned from *rows*.

    *held* are rows that both have: they are asked about, and not learned from.
    """
    doubled = rows.generalized
    everything = slice(None)
    learn_from = everything if held is None else ~held
    ask = everything if held is None else held
    classes = rows.draw(target, rng)
    truth: IntArray = classes if asked is rows else asked.draw(target, rng)
    if classifier == J48:
        sides = ((rows, classes, learn_from), (asked, truth, ask))
        return weka.measure_accuracy(*(weka.write_arff(*side, target, doubled=doubled) for side in sides))
    if classifier != BAYES:
        features, seed = rows.positions(target, doubled=doubled)[learn_from], int(rng.integers(2**31))
        least = UNPRUNED.get(classifier)
        tree = (
            PrunedTree.learn(features, classes[learn_from], seed)
            if least is None
            else grow_tree(features, classes[learn_from], least, seed)
        )
        stated = tree.predict(asked.positions(target, doubled=doubled)[ask])
    else:
        bayes = NaiveBayes.learn(
            rows.bins(target, doubled=doubled)[learn_from], classes[learn_from], rows.n_bins(target, doubled=doubled)
        )
        stated = bayes.predict(asked.bins(target, doubled=doubled)[ask])
    return float(np.mean(stated == truth[ask]))


def share_of_mixed(rows: pa.Table) -> float:
    """Return the share of the records of a sliced table whose bucket holds both sexes.

    Only there does it matter that slicing keeps sex beside occupation: elsewhere the bucket itself tells the sex.
    """
    bucket = np.asarray(rows.column("bucket"), dtype=np.int64)
    sex = np.asarray(rows.column("sex").combine_chunks().dictionary_encode().indices)
    size = np.bincount(bucket)
    of_first = np.bincount(bucket, sex == 0, minlength=len(size))
    return float(size[(of_first > 0) & (of_first < size)].sum() / len(bucket))


def _unseen(
    table: Table, setting: Setting, n_folds: int, seed: int, rng: np.random.Generator
) -> Iterator[tuple[Rows, Rows]]:
    """Yield what all folds but one publish, and the original records of that fold; the same folds for all settings.

    A fold whose others alone cannot meet the requirement is left out.
    """
    fold = np.random.default_rng(seed).permutation(len(table.rows)) % n_folds
    for number in range(n_folds):
        others = table.rows.filter(pa.array(fold != number))
        try:
            rows = publish(table, others, setting, seed).draw(rng)
        except UnreachableError:
            continue
        yield rows, Rows.of_values(table, table.rows.filter(pa.array(fold == number)))
