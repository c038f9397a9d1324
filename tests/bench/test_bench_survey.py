"""The generated survey, and what generalization keeps of so many quasi-identifiers."""

from __future__ import annotations

import numpy as np
import pytest
from bench.survey import ROWS, survey, survey_policy

from shoal.core.progress import Silent
from shoal.engines.local import LocalEngine
from shoal.methods.mondrian import Mondrian
from shoal.plan.problem import Problem
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source
from shoal.utility.marginals import score_marginals
from shoal.utility.rows import view_plan


def _encode(*, flat: bool) -> Problem:
    policy = Policy.load(survey_policy("mondrian", flat=flat))
    names = (*policy.names("sensitive"), *policy.names("quasi"))
    return encode(LocalEngine(1).count(open_source(survey()), names, Silent()), policy).problem


def test_survey_has_the_shape_of_census_microdata() -> None:
    table = survey()
    assert table.shape == (ROWS, 24)
    assert table.equals(survey())
    roles = [entry["role"] for entry in survey_policy("mondrian")["attributes"].values()]
    assert (roles.count("quasi"), roles.count("sensitive")) == (21, 1)


@pytest.mark.parametrize("flat", [True, False])
def test_cuts_that_save_bits_stay_above_shuffled_columns(flat: bool) -> None:
    problem = _encode(flat=flat)
    found = {}
    for measure in ("ncp", "non-uniform-entropy"):
        plan = Mondrian(measure=measure).plan(problem, np.random.default_rng(0), Silent())
        assert plan.sizes.min() >= 5
        found[measure] = score_marginals(problem, view_plan(problem, plan), most_sets=200)[-1]
    assert found["non-uniform-entropy"].release > found["non-uniform-entropy"].shuffled > found["ncp"].release
