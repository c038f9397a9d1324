"""Encoding counted cells as a problem: codes become leaves of taxonomies, and models are bound to attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain

import numpy as np
import pyarrow as pa

from shoal.columns.sampling import refuse_nobody
from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.dictionaries import fold_texts, split_values
from shoal.core.errors import InputError, PolicyError, ShoalError, TaxonomyError, did_you_mean
from shoal.plan.cells import Cells
from shoal.plan.counted import CountedCells, SeenValues
from shoal.plan.problem import Attribute, Problem
from shoal.policy.binding import WholeTable, bind_model, bind_models, bind_true_values
from shoal.policy.policy import Policy
from shoal.sources.base import Source
from shoal.sources.opening import open_source
from shoal.taxonomies.builders.listed import FileTaxonomy, FlatTaxonomy, GroupsTaxonomy, TreeTaxonomy
from shoal.taxonomies.construct import from_parents
from shoal.taxonomies.fitting import default_builder, find_uncovered
from shoal.taxonomies.parse import days, decimal_numbers
from shoal.taxonomies.tree import Taxonomy

_ANY_TREE = replace(from_parents([str(n) for n in range(300)], range(-1, 299)), declared=False)  # for unknown values


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """A problem and the relation of its cells to the counted cells."""

    problem: Problem
    kept: IntArray | None  # (n_cells,) their places among the counted cells; None: all cells in the same order
    n_dropped: int  # records that are left out because of missing values


def check_columns(policy: Policy, source: Source) -> None:
    """Raise unless policy and source name the same columns."""
    columns = source.schema.names
    declared = (*policy.attributes, *policy.dropped)
    absent = [name for name in declared if name not in columns]
    undeclared = [name for name in columns if name not in declared]
    if absent:
        names = "; ".join(f"column {name!r} is not in {source.name}{did_you_mean(name, columns)}" for name in absent)
        raise InputError(names)
    if undeclared:
        raise PolicyError(
            f"{source.name} has columns that the policy does not declare: {', '.join(undeclared)}; "
            "give each a role (identifier if it names people, drop to leave it out)"
        )


def open_populations(policy: Policy) -> dict[str, Source]:
    """Open the population tables of the models, by their names in the policy."""
    paths = {str(path) for model in policy.privacy if (path := getattr(model, "population", None)) is not None}
    return {path: open_source(policy.folder / path, policy.source) for path in sorted(paths)}


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A quasi or sensitive attribute, and the leaf of each of its values."""

    attribute: Attribute
    leaf: AnyIntArray  # (n_codes,)
    one_to_one: bool  # whether all values have different leaves


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A box of leaves that contains exactly the encoded records of the whole table."""

    lo: CodeArray  # (n_quasi,)
    hi: CodeArray  # (n_quasi,)
    seen: SeenValues
    whole: WholeTable


def outline_problem(policy: Policy) -> Problem:
    """Return the problem without records; taxonomies that depend on the data are replaced by placeholders."""
    attributes = []
    for name in (*policy.names("quasi"), *policy.names("sensitive")):
        builder, tree = policy.attributes[name].taxonomy, _ANY_TREE
        try:
            tree = tree if builder is None else _taxonomy(policy, name, pa.array([], pa.string()), [])
        except TaxonomyError:
            if isinstance(builder, FileTaxonomy | GroupsTaxonomy | TreeTaxonomy):  # other builders may need values
                raise
        attributes.append(Attribute(name, tree))
    n_quasi, one = len(policy.names("quasi")), np.ones(1, dtype=np.int64)
    quasi, sensitive = tuple(attributes[:n_quasi]), tuple(attributes[n_quasi:])
    cells = Cells(tuple(np.zeros(1, dtype=np.int32) for _ in attributes), one)
    people = {getattr(model, "population", ""): one for model in policy.privacy}
    bound = (bind_model(model, n, sensitive, cells, people, None) for n, model in enumerate(policy.privacy))
    return Problem(quasi, sensitive, cells, tuple(chain.from_iterable(bound)), carried=policy.names("insensitive"))


def encode(counted: CountedCells, policy: Policy, populations: Mapping[str, CountedCells] | None = None) -> Encoding:
    """Build the taxonomies and bind the models to the counted cells."""
    return encode_cells(counted, policy, make_trees(counted, policy, populations), populations)


def make_trees(
    seen: SeenValues, policy: Policy, populations: Mapping[str, CountedCells] | None = None
) -> tuple[Tree, ...]:
    """Build the trees of the quasi attributes, the sensitive attributes and the columns of true values, in this order.

    They depend on the values of the records that are not dropped or, for a table larger than memory, of all records.
    """
    names = (*policy.names("quasi"), *policy.names("sensitive"))
    if policy.missing == "drop" and isinstance(seen, CountedCells):
        seen = seen.only(_complete_cells(seen, names))
    return tuple(_tree(seen, policy, populations or {}, name) for name in (*names, *policy.true_values))


def encode_cells(
    counted: CountedCells,
    policy: Policy,
    trees: Sequence[Tree],
    populations: Mapping[str, CountedCells] | None = None,
    region: Region | None = None,
) -> Encoding:
    """Encode the counted cells by these trees, and bind the models to them."""
    populations = populations or {}
    n_quasi, n_own = len(policy.names("quasi")), len(trees) - len(policy.true_values)
    trees, true = trees[:n_own], trees[n_own:]
    names = [tree.attribute.name for tree in trees]
    kept = _complete_cells(counted, names) if policy.missing == "drop" else None
    which = slice(None) if kept is None else kept
    counts = counted.run.counts[which]
    columns = [counted.columns.index(name) for name in names]
    leaves = tuple(counted.translate(column, tree.leaf)[which] for column, tree in zip(columns, trees, strict=True))
    values = tuple(  # codes that are different for different source values
        leaf if tree.one_to_one else counted.codes(column)[which]
        for column, tree, leaf in zip(columns, trees, leaves, strict=True)
    )
    attributes = tuple(tree.attribute for tree in trees)
    quasi, sensitive = attributes[:n_quasi], attributes[n_quasi:]
    cells = Cells(leaves, counts)
    people: dict[str, IntArray] = {}
    if populations:
        cells, people = _with_populations(cells, quasi, populations)
        values = ()
    seen, whole = (counted.only(kept), None) if region is None else (region.seen, region.whole)
    units = {key: counted.codes(counted.columns.index(name))[which] for key, name in policy.counted_units.items()}
    for key, persons in units.items():
        refuse_nobody(policy.counted_units[key], int(counts[persons == 0].sum()))
    changed = {}
    for tree, (column, name) in zip(true, policy.true_values.items(), strict=True):
        leaf = counted.translate(counted.columns.index(column), tree.leaf)[which]
        changed[name] = replace(tree.attribute, name=name), np.pad(leaf, (0, cells.n_cells - len(leaf)))
    requirements = bind_models(policy.privacy, sensitive, cells, people, seen, whole, units)
    requirements += bind_true_values(policy.privacy, sensitive, cells, changed)
    n_records = int(counts.sum())
    budget = int(Fraction(str(policy.max_withheld)) * n_records)
    numbers = tuple(_numbers(counted, attribute, which) for attribute in quasi) if policy.method.averages else ()
    box = None if region is None else (region.lo, region.hi)
    capped = {name: Fraction(str(share)) for name, share in policy.max_generalized.items()}
    caps = tuple(capped.get(one.name) for one in sensitive)
    carried = policy.names("insensitive")
    problem = Problem(quasi, sensitive, cells, requirements, budget, carried, values, numbers, caps, box)
    return Encoding(problem, kept, int(counted.run.counts.sum()) - n_records)


def _complete_cells(counted: CountedCells, names: Sequence[str]) -> IntArray | None:
    """Return the cells without missing values in these columns; None if all cells are."""
    complete = np.ones(len(counted.run.counts), dtype=np.bool_)
    for name in names:
        complete &= counted.codes(counted.columns.index(name)) != 0
    if not complete.any():
        raise InputError("every record has a missing value, and the policy drops such records")
    return None if complete.all() else np.flatnonzero(complete)


def _tree(seen: SeenValues, policy: Policy, populations: Mapping[str, CountedCells], name: str) -> Tree:
    """Build the tree of an attribute and find the leaves of its values."""
    column = seen.columns.index(name)
    values, used = seen.in_use(column)
    if not len(values):
        raise InputError(f"column {name!r} has no values: every record is missing one")
    others = [people.in_use(people.columns.index(name)) for people in populations.values() if name in people.columns]
    taxonomy = _taxonomy(policy, name, values, [found for found, _ in others])
    _check_leaves(policy, name, taxonomy, seen, values)
    hidden = policy.method.draws_rows  # then the domain must not reveal whether values are missing
    has_missing = (bool(used[0]) or hidden) and (policy.missing != "drop" or name in policy.true_values)
    if has_missing or any(codes[0] for _, codes in others):
        taxonomy = taxonomy.with_missing()
    leaf, quasi = _leaves(taxonomy, seen.dictionaries[column].values, used), policy.attributes[name].role == "quasi"
    if not quasi:
        spelled = None if policy.method.draws_rows else seen.dictionaries[column].values
        leaf = _merge_spellings(leaf.astype(np.int32), spelled, used)
    one_to_one = len(kernels.occurring(leaf[used])) == int(used.sum())
    variants = not quasi and not one_to_one
    own = policy.attributes[name]
    return Tree(Attribute(name, taxonomy, own.weight, variants, own.value_weights), leaf, one_to_one)


def _merge_spellings(leaf: CodeArray, values: pa.Array | None, used: BoolArray) -> CodeArray:
    """Return (n_codes,) leaves; texts with the same normal form share the first of their leaves."""
    if values is None or not pa.types.is_string(values.type):
        return leaf
    form = np.append(len(values), split_values(fold_texts(values))[0])  # missing is separate
    first = np.full(len(values) + 1, np.iinfo(np.int32).max, dtype=np.int32)
    np.minimum.at(first, form[used], leaf[used])
    return np.where(used, first[form], leaf)


def _numbers(counted: CountedCells, attribute: Attribute, which: IntArray | slice) -> FloatArray | None:
    """Return (n_cells,) the numbers or days of an attribute, NaN for missing; None for categories."""
    scale = attribute.taxonomy.scale
    column = counted.columns.index(attribute.name)
    values = counted.dictionaries[column].values
    if scale.kind not in ("number", "date"):
        return None
    read, valid = decimal_numbers(values) if scale.kind == "number" else days(values, scale.reading().get("format"))
    table = np.append(np.nan, np.where(valid, read, np.nan))
    return np.asarray(table[counted.codes(column)[which]])


def _taxonomy(policy: Policy, name: str, values: pa.Array, others: list[pa.Array]) -> Taxonomy:
    """Build the tree of an attribute from the values of the table and all populations."""
    builder = policy.attributes[name].taxonomy
    every = values
    if others:
        try:
            every = pa.concat_arrays([values, *(other.cast(values.type) for other in others)]).unique()
        except pa.ArrowInvalid:  # the message quotes a value
            message = f"column {name!r} of the population has values that do not read as {values.type}"
            raise InputError(message) from None
    try:
        if builder is None:
            quasi = policy.attributes[name].role == "quasi"
            builder = default_builder(values.type, values) if quasi else FlatTaxonomy()
        return builder.build(every)
    except ShoalError as error:
        raise type(error)(f"column {name!r}: {error}") from None


def _check_leaves(policy: Policy, name: str, taxonomy: Taxonomy, seen: SeenValues, values: pa.Array) -> None:
    """Raise if a value is not in its taxonomy, or if sensitive values share a leaf."""
    leaf = taxonomy.encode(values)
    if (leaf < 0).any():
        records = seen.records(seen.columns.index(name))
        gap = find_uncovered(leaf, values, records[1:][records[1:] > 0])
        raise InputError(gap.message(name))
    published_by_leaf = policy.attributes[name].role == "quasi" or policy.method.draws_rows
    if not published_by_leaf and len(kernels.occurring(leaf)) < len(leaf):
        raise PolicyError(
            f"column {name!r} is sensitive, so its values must remain distinct, but leaves of its taxonomy have "
            "several values; give it a taxonomy whose leaves are single values"
        )


def _leaves(taxonomy: Taxonomy, values: pa.Array, used: BoolArray) -> AnyIntArray:
    """Return (n_codes,) the leaf of each code; code 0 is missing."""
    leaf = np.zeros(len(used), dtype=np.int32)
    leaf[0] = 0 if taxonomy.missing is None else taxonomy.missing
    if len(values):
        found = taxonomy.encode(values)
        leaf[1:] = np.where(used[1:], found, 0)
    narrow = np.uint8 if taxonomy.n_leaves <= 1 << 8 else np.uint16 if taxonomy.n_leaves <= 1 << 16 else np.int32
    return leaf.astype(narrow)


def _with_populations(
    cells: Cells, quasi: tuple[Attribute, ...], populations: Mapping[str, CountedCells]
) -> tuple[Cells, dict[str, IntArray]]:
    """Append the populations' cells with a count of zero; return each population's records of all cells."""
    n_more = sum(len(people.run.counts) for people in populations.values())
    columns = [[column] for column in cells.codes[: len(quasi)]]
    totals, stop = {}, cells.n_cells
    for path, people in populations.items():
        for parts, attribute in zip(columns, quasi, strict=True):
            column = people.columns.index(attribute.name)
            values, used = people.in_use(column)
            if (attribute.taxonomy.encode(values) < 0).any():
                raise InputError(f"the population {path} has values of {attribute.name!r} outside its taxonomy")
            leaf = _leaves(attribute.taxonomy, people.dictionaries[column].values, used)
            parts.append(people.translate(column, leaf))
        start, stop = stop, stop + len(people.run.counts)
        totals[path] = np.zeros(cells.n_cells + n_more, dtype=np.int64)
        totals[path][start:stop] = people.run.counts
    sensitive = [np.pad(column, (0, n_more)) for column in cells.codes[len(quasi) :]]
    joined = (*(np.concatenate(parts) for parts in columns), *sensitive)
    return Cells(joined, np.pad(cells.counts, (0, n_more))), totals
