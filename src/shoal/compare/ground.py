"""The common ground of a comparison: every release's values as leaves of the same trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import ShoalError, TaxonomyError, UsageError, did_you_mean
from shoal.linking.linkable import encode_column
from shoal.policy.policy import AttributePolicy, Policy
from shoal.release.release import Release
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.builders.listed import FlatTaxonomy
from shoal.taxonomies.construct import from_levels
from shoal.taxonomies.fitting import default_builder
from shoal.taxonomies.parse import days, decimal_numbers, texts
from shoal.taxonomies.scales import Categories, Numbers, Prefixes, number_text
from shoal.taxonomies.tree import Cover, Taxonomy

UNKNOWN = -1  # leaf of a text that is no value of the attribute, such as a token
_STRETCHES = 64  # that decimal numbers without a declared domain are cut into


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """An attribute whose values are compared: its tree and, of numbers and dates, the places of its leaves."""

    name: str
    taxonomy: Taxonomy
    places: FloatArray | None  # (n_leaves,) but for the missing one; None for categories

    @classmethod
    def of(cls, name: str, attribute: AttributePolicy, columns: Sequence[pa.ChunkedArray]) -> Compared:
        """Take the declared tree, or one of the values that the *columns*, all of one attribute, have."""
        values = _distinct(columns)
        taxonomy = _tree(name, attribute.taxonomy, values.drop_null())
        if values.null_count:
            taxonomy = taxonomy.with_missing()
        return cls(name, taxonomy, taxonomy.scale.positions())

    @property
    def n_values(self) -> int:
        """Number of leaves of values that are there."""
        return self.taxonomy.n_leaves - (self.taxonomy.missing is not None)

    def leaves(self, values: pa.Array) -> CodeArray:
        """Return (n_values,) the leaf of each value: of whole numbers and dates the nearest one.

        >>> age = Compared.of("age", AttributePolicy("quasi"), [pa.chunked_array([[20, 30, 40]])])
        >>> age.leaves(pa.array(["24.9", "1000", "gA7x"])).tolist()
        [0, 2, -1]
        """
        missing = UNKNOWN if self.taxonomy.missing is None else self.taxonomy.missing
        if self.places is None:
            found = self.taxonomy.encode(values)
        else:
            numbers, valid = self._numbers(values)
            scale, cuts = self.taxonomy.scale, (self.places[1:] + self.places[:-1]) / 2
            if isinstance(scale, Numbers) and not scale.whole:
                cuts = np.asarray(scale.starts[1:], dtype=np.float64)
            found = np.where(valid, np.searchsorted(cuts, numbers, side="right"), UNKNOWN).astype(np.int32)
        gone = values.is_null().to_numpy(zero_copy_only=False)
        return np.where(gone, missing, found).astype(np.int32)

    def codes(self, column: pa.ChunkedArray) -> CodeArray:
        """Return (n_rows,) the leaf of each row."""
        whole = column.combine_chunks()
        if not pa.types.is_dictionary(whole.type):
            whole = whole.dictionary_encode()
        found = np.append(self.leaves(whole.dictionary), self.leaves(pa.nulls(1, whole.dictionary.type)))
        index = whole.indices.cast(pa.int64()).fill_null(len(whole.dictionary))
        return np.asarray(found[np.asarray(index)], dtype=np.int32)

    def bins(self, most: int) -> CodeArray:
        """Return (n_leaves + 1,) the bin of each leaf, neighbours together if there are more than *most*.

        Missing values have a bin of their own, and so has what is unknown, which stands last, at -1.
        """
        n_bins = min(self.n_values, most)
        bins = np.arange(self.n_values) * n_bins // self.n_values
        rest = np.arange(n_bins, n_bins + self.taxonomy.n_leaves + 1 - self.n_values)
        return np.concatenate([bins, rest]).astype(np.int32)

    def _numbers(self, values: pa.Array) -> tuple[FloatArray, BoolArray]:
        if self.taxonomy.scale.kind == "number":
            return decimal_numbers(values)
        found, valid = days(values, self.taxonomy.scale.reading().get("format"))
        if not valid.all() and pa.types.is_string(values.type):  # averages of dates are written as ISO says
            plain, readable = days(values)
            found, valid = np.where(valid, found, plain), valid | readable
        return found.astype(np.float64), valid


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """All attributes whose values are compared, and which of them is predicted."""

    attributes: tuple[Compared, ...]
    predicted: int | None  # place of the attribute

    @classmethod
    def of(cls, policy: Policy, names: Sequence[str], tables: Sequence[pa.Table], predicted: str | None) -> Ground:
        """Compare these attributes by the policy's trees, or by what values the *tables* have."""
        attributes = [
            Compared.of(name, policy.attributes[name], [table.column(name) for table in tables]) for name in names
        ]
        chosen = choose_predicted(policy, names, predicted)
        return cls(tuple(attributes), None if chosen is None else list(names).index(chosen))

    def codes(self, table: pa.Table) -> CodeArray:
        """Return (n_attributes, n_rows) the leaves of a table's rows."""
        return np.stack([one.codes(table.column(one.name)) for one in self.attributes])


def names_in_all(policies: Sequence[Policy]) -> list[str]:
    """Return the attributes that are quasi or sensitive in every policy, in the order of the first one."""
    published = [[*policy.names("quasi"), *policy.names("sensitive")] for policy in policies]
    return [name for name in published[0] if all(name in each for each in published)]


def choose_predicted(policy: Policy, names: Sequence[str], predicted: str | None) -> str | None:
    """Return the attribute to predict, the first sensitive one if none is named; None if there is none."""
    if predicted is None:
        return next((name for name in names if policy.attributes[name].role == "sensitive"), None)
    if predicted not in names:
        hint = did_you_mean(predicted, names) or f"; those that are: {', '.join(names)}"
        raise UsageError(f"{predicted!r} cannot be predicted: it is not quasi or sensitive in every policy{hint}")
    return predicted


def _distinct(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """Return the values of all columns, as texts if one column has them in another type than another."""
    found = [column.unique() for column in columns]
    found = [each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in found]
    if len({each.type for each in found}) > 1:
        found = [texts(each) for each in found]
    return pa.concat_arrays(found).unique()


def _tree(name: str, builder: TaxonomyBuilder | None, values: pa.Array) -> Taxonomy:
    try:
        chosen = builder or (default_builder(values.type, values) if len(values) else FlatTaxonomy())
        return chosen.build(values)
    except TaxonomyError as error:
        numbers, valid = decimal_numbers(values)
        if builder is None and len(values) and valid.all():
            return _stretches(numbers)
        raise TaxonomyError(f"column {name!r}: {error}") from None
    except ShoalError as error:
        raise type(error)(f"column {name!r}: {error}") from None


def _stretches(numbers: FloatArray) -> Taxonomy:
    """Cut decimal numbers where equally many distinct ones lie between."""
    edges = np.unique(np.quantile(np.unique(numbers), np.arange(_STRETCHES) / _STRETCHES, method="lower"))
    stops = np.append(edges[1:], np.nextafter(numbers.max(), np.inf))
    leaves = [f"from {number_text(edge)}" for edge in edges.tolist()]
    return from_levels(leaves, [], Numbers(edges, stops, np.zeros(len(edges), dtype=np.bool_)), declared=False)


def reconstruct(release: Release, ground: Ground, rng: np.random.Generator) -> CodeArray:
    """Return (n_attributes, n_rows) leaves of a release, as somebody who works with it would make a table of it.

    Where a label stands for several leaves, each row has one of them at random. Parts of a sliced release are linked at
    random within buckets. Values and averages are taken as they are; what is no value of the attribute, such as a
    token, is unknown.
    """
    table: pa.Table = release.form.complete_rows(release.data, rng)
    entries = release.manifest["attributes"]
    columns = []
    for compared in ground.attributes:
        labels = entries[compared.name].get("labels")
        column = table.column(compared.name)
        columns.append(compared.codes(column) if labels is None else _draw(compared, column, labels, rng))
    return np.stack(columns)


def _draw(
    compared: Compared, column: pa.ChunkedArray, labels: Mapping[str, Cover], rng: np.random.Generator
) -> CodeArray:
    codes, found = encode_column(column)
    below = [_below(compared, {"missing": True} if text is None else labels[text]) for text in found]
    sizes = np.array([len(leaves) for leaves in below], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    place = starts[codes] + np.floor(rng.random(len(codes)) * sizes[codes]).astype(np.int64)
    drawn: CodeArray = np.concatenate(below).astype(np.int32)[place]
    return drawn


def _below(compared: Compared, cover: Cover) -> IntArray:
    """Return the leaves that a label covers; where none does, the nearest one or UNKNOWN.

    >>> from shoal.policy.policy import AttributePolicy
    >>> age = Compared.of("age", AttributePolicy("quasi"), [pa.chunked_array([[20, 30, 40, 50]])])
    >>> _below(age, {"from": 25, "below": 50}).tolist(), _below(age, {"any": True}).tolist()
    ([1, 2], [0, 1, 2, 3])
    >>> town = Compared.of("town", AttributePolicy("quasi"), [pa.chunked_array([["Bonn", "Ulm"]])])
    >>> _below(town, {"values": ["Ulm"]}).tolist(), _below(town, {"values": ["Hof"]}).tolist()
    ([1], [-1])
    """
    if "any" in cover:
        return np.arange(compared.taxonomy.n_leaves)
    found = _present(compared, cover)
    missing = compared.taxonomy.missing
    if cover.get("missing") and missing is not None:
        found = np.append(found, missing)
    return found if len(found) else np.array([UNKNOWN])


def _present(compared: Compared, cover: Cover) -> IntArray:
    scale, inside = compared.taxonomy.scale, []
    if "values" in cover:
        leaves = np.unique(compared.leaves(pa.array(cover["values"], pa.string())))
        return np.asarray(leaves[leaves != UNKNOWN], dtype=np.int64)
    if compared.places is not None and "from" in cover:
        return _between(compared, cover["from"], cover["below"])
    if isinstance(scale, Categories | Prefixes):
        low, high, prefixes = cover.get("from"), cover.get("through"), tuple(cover.get("prefixes", ()))
        for text in scale.leaves.to_pylist():
            between = "from" in cover and (low is None or text >= low) and (high is None or text <= high)
            inside.append(between or text.startswith(prefixes))
    return np.flatnonzero(inside)


def _between(compared: Compared, low: Any, below: Any) -> IntArray:
    """Return the leaves whose place is from *low* on and below *below*, or the one nearest to their middle."""
    places: FloatArray = np.asarray(compared.places)
    ends = pa.array([None if end is None else str(end) for end in (low, below)], pa.string())
    numbers = (decimal_numbers(ends) if compared.taxonomy.scale.kind == "number" else days(ends))[0]
    first = places[0] if low is None else float(numbers[0])
    end = np.nextafter(places[-1], np.inf) if below is None else float(numbers[1])
    inside = np.flatnonzero((places >= first) & (places < end))
    return inside if len(inside) else np.array([np.abs(places - (first + end) / 2).argmin()])
