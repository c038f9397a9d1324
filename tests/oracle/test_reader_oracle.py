"""The transparent reader on every table of a few people: no method may break its models against the resolving one."""

from __future__ import annotations

from fractions import Fraction

import pytest
from experiments.adversaries import REGISTERS, Oracle, list_cases, list_models

from shoal.methods.base import Method
from shoal.methods.incognito import Incognito
from shoal.methods.sweep import SequentialSweep
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.models.tau_l_diversity import TauLDiversity

CASES = {title: method for title, method, _ in list_cases() if "false" not in title}


@pytest.mark.parametrize("method", CASES.values(), ids=CASES.keys())
def test_no_method_breaks_its_models_against_the_resolving_reader(method: Method) -> None:
    n_releases = 0
    for _, models in list_models():
        for register in REGISTERS.values():
            oracle = Oracle(method, models, register, n_values=2, stride=7)
            assert oracle.find_broken() == []
            n_releases += len(oracle.releases)
    assert n_releases > 20


def test_withheld_people_satisfy_the_models_too() -> None:
    for method in (CASES["mondrian"], CASES["incognito"], CASES["anatomy"]):
        oracle = Oracle(method, (SimpleLDiversity(l=1.5),), REGISTERS["crowd"], n_values=2, max_withheld=3)
        assert oracle.find_broken() == []
        assert oracle.releases


@pytest.mark.parametrize("model", [TauLDiversity(tau=0.6, l=2), SimpleLDiversity(l=1.5)])
def test_the_papers_sweep_is_caught(model: TauLDiversity | SimpleLDiversity) -> None:
    """Records that leave a class because of their values break the model together with those that stayed."""
    register = ((0, 0),) * 5 + ((1, 0),) + ((2, 1),) * 2
    plain = SequentialSweep(defend=False, improve=False)
    assert Oracle(plain, (model,), register, n_values=2, stride=5).find_broken()
    assert Oracle(SequentialSweep(), (model,), register, n_values=2, stride=5).find_broken() == []


def test_posteriors_count_the_tables_with_the_same_output() -> None:
    """Two pairs under distinct 2: mixed pairs are classes, so a pair that is not a class has one value.

    With two colds and two flus in one class, either pair has the colds. With three colds, one of four people has the
    flu, and it may be any of them.
    """
    oracle = Oracle(Incognito(), (DistinctLDiversity(l=2),), ((0, 0),) * 2 + ((1, 0),) * 2, n_values=2)
    half, quarter = Fraction(1, 2), Fraction(1, 4)
    tables = {values: oracle.posteriors[output] for values, _, _, output in oracle.releases}
    assert tables[0, 0, 1, 1] == [[half, half]] * 4
    assert tables[0, 1, 0, 0] == [[1 - quarter, quarter]] * 4
    assert tables[0, 1, 1, 0] == [[half, half]] * 4
    assert oracle.find_excess().broken == 0
    assert len(oracle.releases) == 14
