"""Binding models to attributes: requirements on the cells of a table or of a region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.errors import PolicyError
from shoal.core.kernels import pack, same_rows
from shoal.core.wording import count_noun
from shoal.models.base import PopulationModel, PrivacyModel, ValueModel, Whole
from shoal.plan.cells import Cells
from shoal.plan.counted import SeenValues
from shoal.plan.problem import Attribute, People, Requirement
from shoal.taxonomies.parse import texts


@dataclass(frozen=True, slots=True, eq=False)
class Combinations:
    """The combinations of sensitive attributes' leaves that occur in the whole table."""

    place: CodeArray  # (product of n_leaves,) numbers of the occurring combinations, -1 for others
    records: IntArray  # (n_occurring,)
    n_leaves: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class WholeTable:
    """Facts about the whole table that a region's requirements need."""

    n_records: int
    values: Mapping[str, IntArray]  # (n_leaves,) records of each value of a sensitive attribute
    joint: Mapping[tuple[str, ...], Combinations]

    def joint_codes(self, names: tuple[str, ...], leaves: Sequence[AnyIntArray]) -> tuple[CodeArray, int]:
        """Return the codes of the combinations of columns, which are the same in all regions, and their number."""
        known = self.joint[names]
        return known.place[pack(leaves, known.n_leaves)], len(known.records)


def bind_models(
    models: Sequence[PrivacyModel],
    sensitive: tuple[Attribute, ...],
    cells: Cells,
    people: Mapping[str, IntArray],
    seen: SeenValues,
    whole: WholeTable | None = None,
    units: Mapping[str, AnyIntArray] | None = None,
) -> tuple[Requirement, ...]:
    """Bind models to cells whose last columns are the sensitive attributes.

    Parameters
    ----------
    people
        The records of each cell in each population.
    seen, whole
        All values of the table; the counts of the whole table if the cells belong to a region.
    units
        The people of the cells by the policy's key, person or household. Models then count people, not records.
    """
    return tuple(
        counting
        for number, model in enumerate(models)
        for requirement in bind_model(model, number, sensitive, cells, people, whole)
        for counting in _by_people(_in_whole(_look_up_weights(requirement, seen, sensitive), whole), units or {})
    )


def bind_true_values(
    models: Sequence[PrivacyModel],
    sensitive: tuple[Attribute, ...],
    cells: Cells,
    changed: Mapping[str, tuple[Attribute, AnyIntArray]],
) -> tuple[Requirement, ...]:
    """Bind value models to *changed* attributes as they were before techniques; such values have no labels."""
    quasi = cells.codes[: len(cells.codes) - len(sensitive)]
    published = zip(sensitive, cells.codes[len(quasi) :], strict=True)
    true = [changed.get(attribute.name, (attribute, codes)) for attribute, codes in published]
    before = Cells((*quasi, *(codes for _, codes in true)), cells.counts)
    return tuple(
        replace(requirement, place=None, of_true_values=True)
        for number, model in enumerate(models)
        if changed and isinstance(model, ValueModel)
        for requirement in bind_model(model, number, tuple(attribute for attribute, _ in true), before, {}, None)
        if not changed.keys().isdisjoint(requirement.model.attributes)
    )


def _by_people(requirement: Requirement, units: Mapping[str, AnyIntArray]) -> list[Requirement]:
    """Return the requirement for each way of counting people, or the requirement on records if there is none."""
    found = []
    for key, person in units.items():
        people = People.of(person, requirement.values)
        if requirement.model.one_value_each and people.some_have_several_values:
            raise PolicyError(
                f"{requirement.model.subject} compares distributions in which everyone has one value, and by {key!r} "
                f"some have several; take one record of each with sample: {{one_per: {key}}}, or ask for a model that "
                "bounds shares, such as beta-likeness"
            )
        found.append(replace(requirement, counts=key, people=people))
    return found or [requirement]


def bind_model(
    model: PrivacyModel,
    number: int,
    sensitive: tuple[Attribute, ...],
    cells: Cells,
    people: Mapping[str, IntArray],
    whole: WholeTable | None,
) -> list[Requirement]:
    """Bind a model to its attribute, to a combination of attributes, or to every sensitive attribute."""
    if not isinstance(model, PopulationModel | ValueModel):
        return [Requirement(model, number)]
    if isinstance(model, PopulationModel):
        return [Requirement(model, number, population=people[model.population], population_name=model.population)]
    place = {attribute.name: j for j, attribute in enumerate(sensitive)}
    n_quasi = len(cells.codes) - len(sensitive)
    if len(model.attributes) > 1:
        joined = [cells.codes[n_quasi + place[name]] for name in model.attributes]
        if whole is not None:
            return [Requirement(model, number, *whole.joint_codes(model.attributes, joined))]
        first, codes = same_rows(joined)
        return [Requirement(model, number, codes, len(first))]
    names = model.attributes or tuple(place)
    for name in names:
        if getattr(model, "distance", None) == "hierarchical" and not sensitive[place[name]].taxonomy.declared:
            raise PolicyError(f"{model.name}: distance 'hierarchical' needs a declared taxonomy of {name!r}")
    return [
        Requirement(
            model.model_copy(update={"attribute": name}),
            number,
            np.asarray(cells.codes[n_quasi + place[name]], dtype=np.int32),  # the same array for every model
            sensitive[place[name]].taxonomy.n_leaves,
            sensitive[place[name]].taxonomy,
            place=place[name],
        )
        for name in names
    ]


def _in_whole(requirement: Requirement, whole: WholeTable | None) -> Requirement:
    """Add the counts of the whole table to a requirement on a region's cells."""
    if whole is None:
        return requirement
    names = requirement.model.attributes
    counts = None
    if requirement.values is not None:
        counts = whole.values[names[0]] if requirement.place is not None else whole.joint[names].records
    return replace(requirement, table=Whole(whole.n_records, counts, taxonomy=requirement.taxonomy))


def _look_up_weights(requirement: Requirement, seen: SeenValues, sensitive: tuple[Attribute, ...]) -> Requirement:
    """Look up the adversary's weights; raise if a value has no weight or a weight has no value."""
    given: Mapping[str, float] | None = getattr(requirement.model, "weights", None)
    if given is None:
        return requirement
    if requirement.place is None:
        raise PolicyError(f"{requirement.model.subject}: weights are of one attribute's values, not of joint ones")
    attribute = sensitive[requirement.place]
    values, _ = seen.in_use(seen.columns.index(attribute.name))
    spelled = texts(values).to_pylist()
    without = [text for text in spelled if text not in given]
    if without:
        raise PolicyError(
            f"{requirement.model.subject}: {len(without)} of {len(spelled)} values of {attribute.name!r} have no "
            f"weight ({_some(without)}); give each value of the column one, 0 for values that an adversary rules out"
        )
    known = {*spelled, *(attribute.taxonomy.leaf_labels if attribute.taxonomy.declared else ())}
    foreign = [text for text in given if text not in known]
    if foreign:
        raise PolicyError(
            f"{requirement.model.subject}: weights has {count_noun(len(foreign), 'value')} that "
            f"{attribute.name!r} does not have ({_some(foreign)})"
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
    return ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")
