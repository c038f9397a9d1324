"""The belief about a person who is in classes of several releases, and whether it satisfies their guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.dictionaries import fold_text
from shoal.core.errors import InputError, PolicyError
from shoal.core.kernels import inline_kernel, kernel
from shoal.core.registry import find
from shoal.core.wording import join_words, parameters_text
from shoal.manifest import Attribute, Manifest
from shoal.models.base import ClassHistograms, PrivacyModel, ValueModel, Whole
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.release.covers import read_numbers
from shoal.taxonomies.construct import from_levels
from shoal.taxonomies.files import from_nested
from shoal.taxonomies.scales import Categories
from shoal.taxonomies.tree import Taxonomy

DISTINCT = "distinct-l-diversity"  # for several releases together, the floor replaces its l
_STEPS, _PLAIN_STEPS = 300, 16  # of Newton's method; the first ones are not shortened
_SETTLED = 1e-12
_LONGEST = 16.0  # the largest step of a logarithm


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """A guarantee of a release about the shares of a sensitive attribute's values."""

    model: ValueModel
    attribute: Attribute

    @classmethod
    def read(cls, manifest: Manifest, sensitive: str) -> list[Promise]:
        """Return the guarantees of a release about the values of one sensitive attribute by itself.

        Guarantees about labels do not limit the belief in values, so only the verifier checks them. The guarantee of a
        plan holds for all releases by it.
        """
        attribute, found = manifest.attributes[sensitive], []
        for one in manifest.guarantees if manifest.agreed is None else ():
            try:
                kind = find("shoal.models", PrivacyModel, one.model, what="privacy model")
                model = kind.model_validate(one.parameters)
            except (PolicyError, ValidationError):
                raise InputError(
                    f"a guarantee about {sensitive!r} is {one.model}: this shoal does not know the model or its "
                    "parameters"
                ) from None
            by_labels = isinstance(model, ValueModel) and model.judges_induced and attribute.boxed
            if isinstance(model, ValueModel) and not by_labels and model.attributes in ((), (sensitive,)):
                found.append(cls(model, attribute))
        return found

    @property
    def text(self) -> str:
        """The guarantee as messages name it; if it limits the most frequent value, with the share that it permits."""
        most = getattr(self.model, "alpha", None)
        if isinstance(self.model, SimpleLDiversity):
            most = 1 / self.model.l
        named = f"{self.model.name} ({parameters_text(self.model.model_dump(exclude={'attribute'}))})"
        return named if most is None else f"{most:.2f} by {named}"

    def holds(self, beliefs: NDArray[Any], values: Sequence[str | None], table: IntArray) -> BoolArray:
        """Return (n,) whether each belief satisfies the guarantee; the class size that a model asks for is ignored.

        *beliefs* (n, n_values) are counts or shares of the values, which *table* counts in all releases.
        """
        tree, leaf = self._place_values(values)
        model = self.model.model_copy(update={"k": 1}) if "k" in type(self.model).model_fields else self.model
        counts = np.zeros((len(beliefs), tree.n_leaves), dtype=beliefs.dtype)
        whole = np.zeros(tree.n_leaves, dtype=np.int64)
        counts[:, leaf], whole[leaf] = beliefs, table
        of_all = Whole(int(whole.sum()), whole, taxonomy=tree)
        if counts.dtype.kind == "f":
            return model.holds_surely(counts, of_all)
        return model.holds(ClassHistograms(counts.sum(axis=1), counts), of_all)

    def _place_values(self, values: Sequence[str | None]) -> tuple[Taxonomy, IntArray]:
        """Return the tree, or the order, that defines distances of values, and (n_values,) the leaf of each value."""
        one, distance = self.attribute, getattr(self.model, "distance", "equal")
        texts = [value for value in values if value is not None]
        order: Sequence[str] | None = texts if distance == "equal" else one.order
        if order is None and distance == "ordered" and one.kind in ("number", "date"):
            order = [texts[place] for place in np.argsort(read_numbers(texts, one.kind, one.format))]
        if distance == "hierarchical" and one.taxonomy is not None:
            tree = from_nested(one.taxonomy)
        else:
            tree = from_levels(order or (), [], Categories(pa.array(order or (), pa.string())), declared=True)
        tree = tree.with_missing() if None in values else tree
        place = {fold_text(text): leaf for leaf, text in reversed(list(enumerate(tree.leaf_labels)))}
        found = [tree.missing if value is None else place.get(fold_text(value)) for value in values]
        if None in found:
            raise InputError(
                f"{self.model.name} cannot be checked: the manifest's order or taxonomy of {one.name!r} does not have "
                "all of its values"
            )
        return tree, np.array(found, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class BeliefJudge:
    """The guarantees of a set of releases about one sensitive attribute, and the values that they have together.

    Of each kind of guarantee that any of the releases makes, the weakest parameters must be satisfied.
    """

    promised: Sequence[Promise]
    values: tuple[str | None, ...]
    table: IntArray  # (n_values,) records of all of the releases

    @property
    def text(self) -> str:
        return join_words(list(dict.fromkeys(each.text for each in self.promised)))

    def judge(self, left: IntArray, fewest: IntArray, most: IntArray) -> tuple[BoolArray, FloatArray]:
        """Return (n,) whether the guarantees are satisfied, and the largest belief.

        *left* (n_releases, n, n_values) has the records of each value in classes of each release that *fewest* to
        *most* people share; at least one value must be left in all of them.
        """
        least = left.min(axis=0)
        counted = least.sum(axis=1)
        kept, largest = np.ones(len(least), dtype=np.bool_), np.zeros(len(least))
        for sharing in (fewest, most):
            # If the people who share the classes are as many as their common records, beliefs are exact counts.
            exactly = (sharing >= counted) | (len(left) == 1)
            for some, exact in ((np.flatnonzero(exactly), True), (np.flatnonzero(~exactly), False)):
                if not len(some):
                    continue
                beliefs: NDArray[Any] = least[some]
                if not exact:
                    beliefs = np.empty((len(some), len(self.values)))
                    _believe(left[:, some], self.table / self.table.sum(), sharing[some], beliefs)
                kept[some] &= self._keep(beliefs)
                largest[some] = np.fmax(largest[some], beliefs.max(axis=1) / beliefs.sum(axis=1))
        return kept, largest

    def _keep(self, beliefs: NDArray[Any]) -> BoolArray:
        """Return (n,) whether every kind of guarantee is satisfied by counts, or by shares that are not NaN."""
        known = np.isfinite(beliefs).all(axis=1)
        shown = np.where(known[:, None], beliefs, 1)
        kinds: dict[str, BoolArray] = {}
        for each in self.promised:
            before = kinds.get(each.model.name, np.zeros(len(shown), dtype=np.bool_))
            kinds[each.model.name] = before | each.holds(shown, self.values, self.table)
        return np.asarray(np.logical_and.reduce([known, *kinds.values()]))


@inline_kernel
def _logistic(place: float) -> float:
    return float(1.0 / (1.0 + np.exp(-place)))


@kernel
def _solve(counts: IntArray, least: float, others: float, level: float, place: float) -> tuple[float, float]:
    """Return the place at which the belief p in a value has this level, and the slope there.

    The belief is the logistic of the place times the value's limit. The level is log p minus the logarithms of the
    remainders that *others* leave of the *counts* of each release. Its slope is between 1 and the number of releases,
    so a step of Newton's method divided by the latter always converges.
    """
    slope = 1.0
    for step in range(_STEPS):
        inside, outside = _logistic(place), _logistic(-place)
        found = min(place, 0.0) - np.log1p(np.exp(-abs(place))) + np.log(least / others)
        slope = outside
        for count in counts:
            rest = (count - least) + least * outside
            found -= np.log(rest)
            slope += least * inside * outside / rest
        move = (level - found) / (slope if step < _PLAIN_STEPS else len(counts))
        place += move
        if abs(move) < _SETTLED:
            break
    return place, slope


@kernel
def _believe(left: IntArray, prior: FloatArray, sharing: IntArray, beliefs: FloatArray) -> None:
    """Fill in the belief about each of *sharing* people in the same classes: docs/adr/0017-linking.md.

    For one person it is Bayes' rule. Otherwise a level is found at which the beliefs add up to 1; without one, they are
    NaN.
    """
    n_releases, n_rows, n_values = left.shape
    weights, places = np.empty(n_values), np.empty(n_values)
    for i in range(n_rows):
        least = np.zeros(n_values)
        highest = -np.inf
        for s in range(n_values):
            least[s] = left[:, i, s].min()
            if least[s] > 0:
                weights[s] = -(n_releases - 1) * np.log(prior[s])
                places[s] = weights[s] + np.log(left[:, i, s].astype(np.float64)).sum()
                highest = max(highest, places[s])
        values = np.flatnonzero(least)
        beliefs[i] = 0.0
        level = -highest - np.log(np.exp(places[values] - highest).sum())
        beliefs[i, values] = np.exp(places[values] + level)
        others = sharing[i] - 1.0
        if others == 0:
            continue
        for v in values:
            share = min(max(beliefs[i, v] * others / least[v], 1e-300), 0.5)
            places[v] = np.log(share / (1.0 - share))
        low, high, total = level, np.inf, 0.0
        for _ in range(_STEPS):
            total, rise = 0.0, 0.0
            for v in values:
                places[v], slope = _solve(left[:, i, v], least[v], others, level + weights[v], places[v])
                beliefs[i, v] = least[v] / others * _logistic(places[v])
                total += beliefs[i, v]
                rise += beliefs[i, v] * _logistic(-places[v]) / slope
            if abs(total - 1.0) < _SETTLED:
                break
            low, high = (level, high) if total < 1.0 else (low, level)
            after = min(level - np.log(total) * total / max(rise, 1e-300), level + _LONGEST)
            level = after if low < after < high else 0.5 * (low + high)
        if not abs(total - 1.0) < _SETTLED:
            beliefs[i] = np.nan
