"""From counted cells to a problem: dictionary codes become leaves of taxonomies, models meet their attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from shoal import kernels
from shoal.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.cells import Cells
from shoal.engines.local import CountedCells
from shoal.errors import InputError, PolicyError, ShoalError, did_you_mean
from shoal.models.base import PopulationModel, PrivacyModel, ValueModel
from shoal.plan import same_rows
from shoal.policy import Policy
from shoal.problem import Attribute, Problem, Requirement
from shoal.sources import Source
from shoal.taxonomies.builders.default import default_builder
from shoal.taxonomies.builders.flat import FlatTaxonomy
from shoal.taxonomies.completeness import uncovered
from shoal.taxonomies.parse import days, decimal_numbers, texts
from shoal.taxonomies.tree import Taxonomy


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """A problem, and how its cells relate to the counted ones."""

    problem: Problem
    kept: IntArray | None  # (n_cells,) places among the counted cells; None: all of them, in order
    n_dropped: int  # records left out because a value is missing


def check_columns(policy: Policy, source: Source) -> None:
    """Raise unless policy and source name the same columns."""
    columns = source.schema.names
    absent = [name for name in policy.attributes if name not in columns]
    undeclared = [name for name in columns if name not in policy.attributes]
    if absent:
        names = "; ".join(f"column {name!r} is not in {source.name}{did_you_mean(name, columns)}" for name in absent)
        raise InputError(names)
    if undeclared:
        raise PolicyError(
            f"{source.name} has columns that the policy does not declare: {', '.join(undeclared)}; "
            "give each a role (identifier if it must not be published)"
        )


def encode(counted: CountedCells, policy: Policy, populations: Mapping[str, CountedCells] | None = None) -> Encoding:
    """Build taxonomies from what was counted and the policy, and bind the models to the cells."""
    populations = populations or {}
    n_quasi = len(policy.names("quasi"))
    names = (*policy.names("quasi"), *policy.names("sensitive"))
    columns = [_column(counted, policy, populations, name) for name in names]
    kept = _kept(counted, names) if policy.missing == "drop" else None
    counts = counted.run.counts if kept is None else counted.run.counts[kept]
    leaves = tuple(column.leaves if kept is None else column.leaves[kept] for column in columns)
    values = tuple(column.values if kept is None else column.values[kept] for column in columns)
    attributes = tuple(column.attribute for column in columns)
    quasi, sensitive = attributes[:n_quasi], attributes[n_quasi:]
    cells = Cells(leaves, counts)
    people: dict[str, IntArray] = {}
    if populations:
        cells, people = _with_populations(cells, quasi, populations)
        values = ()
    requirements = tuple(
        _weighted(requirement, counted, sensitive)
        for number, model in enumerate(policy.privacy)
        for requirement in _bound(model, number, sensitive, n_quasi, cells, people)
    )
    n_records = int(counts.sum())
    budget = int(Fraction(str(policy.max_withheld)) * n_records)
    numbers = tuple(_numbers(counted, attribute, kept) for attribute in quasi) if policy.method.averages else ()
    problem = Problem(quasi, sensitive, cells, requirements, budget, policy.names("insensitive"), values, numbers)
    return Encoding(problem, kept, int(counted.run.counts.sum()) - n_records)


def _kept(counted: CountedCells, names: Sequence[str]) -> IntArray | None:
    """Return the counted cells without a missing value of these columns; None if that is all of them."""
    complete = np.ones(len(counted.run.counts), dtype=np.bool_)
    for name in names:
        complete &= counted.codes(counted.columns.index(name)) != 0
    if not complete.any():
        raise InputError("every record has a missing value, and the policy drops such records")
    return None if complete.all() else np.flatnonzero(complete)


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """A quasi or sensitive attribute, and what the counted cells have of it."""

    attribute: Attribute
    leaves: AnyIntArray  # (n_counted_cells,)
    values: AnyIntArray  # (n_counted_cells,) codes that differ wherever source values do


def _column(counted: CountedCells, policy: Policy, populations: Mapping[str, CountedCells], name: str) -> _Column:
    """Make the tree of an attribute and look its values up there."""
    column = counted.columns.index(name)
    values, used = counted.in_use(column)
    if not len(values):
        raise InputError(f"column {name!r} has no values: every record is missing one")
    others = [_population_values(people, name) for people in populations.values() if name in people.columns]
    taxonomy = _taxonomy(policy, name, values, others)
    _check_leaves(policy, name, taxonomy, counted, values)
    synthetic = policy.method.publishes == "synthetic"  # whether values are missing must not show in its domain
    has_missing = (bool(used[0]) or synthetic) and policy.missing != "drop"
    if has_missing or any(_has_missing(people, name) for people in populations.values()):
        taxonomy = taxonomy.with_missing()
    leaf = _leaves(taxonomy, counted.dictionaries[column].values, used)
    if policy.attributes[name].role == "sensitive":
        leaf = leaf.astype(np.int32)
    leaves = counted.translated(column, leaf)
    one_to_one = len(kernels.occurring(leaf[used])) == int(used.sum())
    attribute = Attribute(name, taxonomy, policy.attributes[name].weight)
    return _Column(attribute, leaves, leaves if one_to_one else counted.codes(column))


def _numbers(counted: CountedCells, attribute: Attribute, kept: IntArray | None) -> FloatArray | None:
    """Return (n_cells,) the numbers of an attribute, or the days of its dates, NaN for missing; None for categories."""
    scale = attribute.taxonomy.scale
    column = counted.columns.index(attribute.name)
    values = counted.dictionaries[column].values
    if scale.kind not in ("number", "date"):
        return None
    read, valid = decimal_numbers(values) if scale.kind == "number" else days(values, scale.reading().get("format"))
    table = np.append(np.nan, np.where(valid, read, np.nan))
    codes = counted.codes(column)
    return np.asarray(table[codes if kept is None else codes[kept]])


def _has_missing(people: CountedCells, name: str) -> bool:
    return name in people.columns and bool(people.used(people.columns.index(name))[0])


def _population_values(people: CountedCells, name: str) -> pa.Array:
    return people.in_use(people.columns.index(name))[0]


def _taxonomy(policy: Policy, name: str, values: pa.Array, others: list[pa.Array]) -> Taxonomy:
    """Make the tree of one attribute from the values of the table and of all populations."""
    builder = policy.attributes[name].taxonomy
    every = values
    if others:
        every = pa.concat_arrays([values, *(_alike(other, values.type, name) for other in others)]).unique()
    try:
        if builder is None:
            sensitive = policy.attributes[name].role == "sensitive"
            builder = FlatTaxonomy() if sensitive else default_builder(values.type, values)
        return builder.build(every)
    except ShoalError as error:
        raise type(error)(f"column {name!r}: {error}") from None


def _check_leaves(policy: Policy, name: str, taxonomy: Taxonomy, counted: CountedCells, values: pa.Array) -> None:
    """Raise if a value of the table is outside its taxonomy, or if sensitive values share a leaf."""
    leaf = taxonomy.encode(values)
    if (leaf < 0).any():
        column = counted.columns.index(name)
        records = np.bincount(counted.codes(column), weights=counted.run.counts).astype(np.int64)
        gap = uncovered(leaf, values, records[1:][records[1:] > 0])
        raise InputError(gap.message(name))
    published_by_leaf = policy.attributes[name].role == "quasi" or policy.method.publishes == "synthetic"
    if not published_by_leaf and len(kernels.occurring(leaf)) < len(leaf):
        raise PolicyError(
            f"column {name!r} is sensitive, so values must stay apart, but its taxonomy has leaves of several values; "
            "give it a taxonomy that ends in single values"
        )


def _alike(values: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """Return a population's values in the type that the table has them in."""
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:  # its message quotes a value
        raise InputError(f"column {name!r} of the population has values that do not read as {kind}") from None


def _leaves(taxonomy: Taxonomy, values: pa.Array, used: BoolArray) -> AnyIntArray:
    """Return (n_codes,) the leaf of each dictionary code; missing is code 0."""
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
    """Append the populations' cells, with a count of zero, and say how many people each cell stands for."""
    n_sensitive = len(cells.codes) - len(quasi)
    columns = [[column] for column in cells.codes]
    counts = [cells.counts]
    offsets = {}
    for path, people in populations.items():
        offsets[path] = sum(len(part) for part in counts)
        for j, attribute in enumerate(quasi):
            column = people.columns.index(attribute.name)
            values, used = people.in_use(column)
            if (attribute.taxonomy.encode(values) < 0).any():
                raise InputError(f"the population {path} has values of {attribute.name!r} outside its taxonomy")
            leaf = _leaves(attribute.taxonomy, people.dictionaries[column].values, used)
            columns[j].append(people.translated(column, leaf))
        for s in range(n_sensitive):
            columns[len(quasi) + s].append(np.zeros(len(people.run.counts), dtype=np.int32))
        counts.append(np.zeros(len(people.run.counts), dtype=np.int64))
    n_cells = sum(len(part) for part in counts)
    joined = Cells(tuple(np.concatenate(parts) for parts in columns), np.concatenate(counts))
    totals = {}
    for path, people in populations.items():
        total = np.zeros(n_cells, dtype=np.int64)
        total[offsets[path] : offsets[path] + len(people.run.counts)] = people.run.counts
        totals[path] = total
    return joined, totals


def _bound(
    model: PrivacyModel,
    number: int,
    sensitive: tuple[Attribute, ...],
    n_quasi: int,
    cells: Cells,
    people: Mapping[str, IntArray],
) -> list[Requirement]:
    """Bind a model to its attribute, to the combination of several, or to every sensitive attribute."""
    if not isinstance(model, PopulationModel | ValueModel):
        return [Requirement(model, number)]
    if isinstance(model, PopulationModel):
        return [Requirement(model, number, population=people[model.population], population_name=model.population)]
    place = {attribute.name: j for j, attribute in enumerate(sensitive)}
    if len(model.attributes) > 1:
        codes, n_values = joint_codes([cells.codes[n_quasi + place[name]] for name in model.attributes])
        return [Requirement(model, number, codes, n_values)]
    names = model.attributes or tuple(place)
    for name in names:
        if getattr(model, "distance", None) == "hierarchical" and not sensitive[place[name]].taxonomy.declared:
            raise PolicyError(f"{model.name}: distance 'hierarchical' needs a declared taxonomy of {name!r}")
    return [
        Requirement(
            model.for_attribute(name),
            number,
            np.asarray(cells.codes[n_quasi + place[name]], dtype=np.int32),  # the same array for every model
            sensitive[place[name]].taxonomy.n_leaves,
            sensitive[place[name]].taxonomy,
            place=place[name],
        )
        for name in names
    ]


def _weighted(requirement: Requirement, counted: CountedCells, sensitive: tuple[Attribute, ...]) -> Requirement:
    """Look up the adversary's weights; a value of the table without one, or one of an unknown value, is refused."""
    given: Mapping[str, float] | None = getattr(requirement.model, "weights", None)
    if given is None:
        return requirement
    if requirement.place is None:
        raise PolicyError(f"{requirement.model.subject}: weights are of one attribute's values, not of joint ones")
    attribute = sensitive[requirement.place]
    values, _ = counted.in_use(counted.columns.index(attribute.name))
    spelled = texts(values).to_pylist()
    without = [text for text in spelled if text not in given]
    if without:
        raise PolicyError(
            f"{requirement.model.subject}: {len(without)} of {len(spelled)} values of {attribute.name!r} have no "
            f"weight ({_some(without)}); give each value of the column one, 0 for those that an adversary rules out"
        )
    known = {*spelled, *(attribute.taxonomy.leaf_labels if attribute.taxonomy.declared else ())}
    foreign = [text for text in given if text not in known]
    if foreign:
        raise PolicyError(
            f"{requirement.model.subject}: weights has {len(foreign)} values that {attribute.name!r} does not have "
            f"({_some(foreign)})"
        )
    weights = [Fraction(0)] * attribute.taxonomy.n_leaves
    if attribute.taxonomy.missing is not None:
        weights[attribute.taxonomy.missing] = Fraction(1)
    for leaf, text in zip(attribute.taxonomy.encode(values).tolist(), spelled, strict=True):
        weights[leaf] = Fraction(str(given[text]))
    if not any(weights):
        raise PolicyError(f"{requirement.model.subject}: all weights are 0")
    return replace(requirement, weights=tuple(weights))


def _some(listed: list[str]) -> str:
    """Name at most five of them."""
    return ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")


def joint_codes(columns: list[AnyIntArray]) -> tuple[CodeArray, int]:
    """Return dense codes of the combinations of several columns, and how many there are."""
    first, codes = same_rows(columns)
    return codes, len(first)
