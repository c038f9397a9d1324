"""The classifiers of the slicing paper: a decision tree with the pruning of C4.5, and naive Bayes.

Weka's J48 and NaiveBayes are what the paper ran. Scikit-learn's tree (entropy, at least two records in a leaf) grows as
theirs does but is not pruned; here it is, by C4.5's rule. Decision 15 tells what differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.compiled import compiled
from shoal.core.errors import UsageError

FeatureArray: TypeAlias = NDArray[np.float32]  # what trees are grown from

CONFIDENCE = 0.25  # C4.5's and J48's: smaller prunes more
LEAST_IN_LEAF = 2
_NO_CHILD = -1


def require_learning() -> None:
    """Raise unless classifiers can learn; to be called before long work."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise UsageError("classifiers need scikit-learn, which is not installed; install shoal[papers]") from None


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
        require_learning()
        from sklearn.tree import DecisionTreeClassifier

        grown = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=LEAST_IN_LEAF, random_state=seed)
        grown.fit(features, classes)
        tree = grown.tree_
        present = np.asarray(grown.classes_, dtype=np.int64)
        commonest = present[np.argmax(tree.value[:, 0, :], axis=1)]
        size = np.asarray(tree.n_node_samples, dtype=np.int64)
        correct = np.rint(np.max(tree.value[:, 0, :], axis=1) * size).astype(np.int64)
        left = np.asarray(tree.children_left, dtype=np.int64)
        right = np.asarray(tree.children_right, dtype=np.int64)
        cut = pruned(expected_errors(size, size - correct), left, right)
        return cls(tree, _answers(cut, commonest, left, right))

    def predict(self, features: FeatureArray) -> IntArray:
        """Return the class of the leaf of each row."""
        leaf: IntArray = self.tree.apply(features)
        return self.answer[leaf]


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


@compiled
def pruned(as_leaf: FloatArray, left: IntArray, right: IntArray) -> BoolArray:
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


@compiled
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
