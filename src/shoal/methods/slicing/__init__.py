"""Slicing: attributes stay together in parts, records share buckets, and the links between parts are hidden."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from shoal.core.progress import Progress
from shoal.core.registry import discover
from shoal.methods.base import Labels, Method
from shoal.models.base import PrivacyModel, ValueModel
from shoal.plan.problem import Problem
from shoal.plan.slices import SlicedPlan


class Slicing(Method):
    """The models hold for an adversary's beliefs about a person, given all of the person's quasi values.

    Li, Li, Zhang and Molloy, "Slicing: A New Approach for Privacy Preserving Data Publishing", TKDE 2012.
    """

    name = "slicing"
    title = "keep attributes that go together in parts of a row, and permute the parts within buckets of records"
    form = "slices"
    makes_parts = True

    columns: int | Literal["each"] | None = Field(
        default=None,
        description="number of parts that attributes are clustered into by correlation; each: one for every attribute. "
        "Without it and alpha, parts are chosen that can meet the models and keep marginals best",
    )
    alpha: int | None = Field(
        default=None,
        ge=1,
        description="number of attributes in the part with the sensitive ones, which the most correlated join; 1 is "
        "bucketization; by default the clustering decides",
    )
    parts: tuple[tuple[str, ...], ...] | None = Field(
        default=None, description="the parts by hand, each a list of attributes; instead of columns and alpha"
    )
    overlapping: bool = Field(default=False, description="attributes may be in several of the parts by hand")
    labels: Labels = "levels"
    grouping: Literal["mondrian", "random"] = Field(
        default="mondrian", description="how records are put into buckets: similar ones together, or at random"
    )
    bucket_size: int | None = Field(
        default=None,
        ge=2,
        description="minimum number of records in a bucket, 2 by default; in random buckets about their number, 100 by "
        "default: rare groups are merged if the models require it",
    )

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> Self:
        if self.overlapping and self.parts is None:
            raise ValueError("overlapping parts must be given by hand: parts: [[...], [...]]")
        if self.parts is not None and (self.columns, self.alpha) != (None, None):
            raise ValueError("columns and alpha have no effect on parts by hand; give the parts or these")
        if self.columns == "each" and self.alpha is not None:
            raise ValueError("alpha has no effect if every attribute is a part; leave it out")
        return self

    def refuses(self, problem: Problem) -> str | None:
        """Refuse models that do not apply to a sliced table, and parts that cannot be made."""
        for model in (requirement.model for requirement in problem.requirements):
            if model.name == "k-anonymity":
                return (
                    "k-anonymity would promise that at least k records share all quasi values of a person, which a "
                    "sliced table does not show; use column-frequency instead, which promises at least k records per "
                    "bucket, and per combination of quasi values within a part"
                )
            if not model.of_parts and not (isinstance(model, ValueModel) and model.judges_beliefs):
                known = discover("shoal.models", PrivacyModel).items()
                names = [name for name, kind in known if issubclass(kind, ValueModel) and kind.judges_beliefs]
                return f"{model.name} says nothing about a sliced table; use column-frequency, {', '.join(names)}"
        from shoal.methods.slicing.attributes import check_columns, places_by_hand

        if self.parts is not None:
            places_by_hand(problem, self.parts, self.overlapping)
        elif isinstance(self.columns, int):
            check_columns(len(problem.quasi), len(problem.sensitive), self.columns, self.alpha)
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> SlicedPlan:
        """Return the parts and buckets as a plan."""
        from shoal.methods.slicing.planning import plan_slices

        return plan_slices(self, problem, rng, progress)
