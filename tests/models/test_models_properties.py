"""Properties of models on histograms of any kind, small, skewed or larger than 64 bits can multiply."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shoal.models.alpha_k_anonymity import AlphaKAnonymity
from shoal.models.base import ClassHistograms, PrivacyModel, Whole
from shoal.models.beta_likeness import BetaLikeness
from shoal.models.delta_disclosure import DeltaDisclosure
from shoal.models.delta_presence import DeltaPresence
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import LARGEST_EXACT, EntropyLDiversity
from shoal.models.exact import at_most, largest_sums
from shoal.models.k_anonymity import KAnonymity
from shoal.models.k_map import KMap
from shoal.models.profitability import Profitability
from shoal.models.recursive_cl_diversity import RecursiveCLDiversity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.models.t_closeness import TCloseness
from shoal.models.tau_l_diversity import TauLDiversity

counts_of_any_size = st.integers(min_value=0, max_value=2**45)
fractions = st.fractions(min_value=0, max_value=10**6, max_denominator=10**12)
histograms = st.lists(st.integers(min_value=0, max_value=40), min_size=2, max_size=8).filter(any)


@given(st.lists(st.tuples(counts_of_any_size, counts_of_any_size), min_size=1, max_size=5), fractions)
def test_products_are_compared_exactly(pairs: list[tuple[int, int]], share: Fraction) -> None:
    left, right = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    assert at_most(left, share, right).tolist() == [a <= share * b for a, b in pairs]
    assert at_most(left, share, right, strict=True).tolist() == [a < share * b for a, b in pairs]


@given(st.integers(min_value=1, max_value=2**40), st.integers(min_value=2, max_value=10**6))
def test_one_record_too_many_is_noticed_in_the_largest_table(unit: int, parts: int) -> None:
    tie = ClassHistograms.of([unit, unit * (parts - 1)])
    over = ClassHistograms.of([unit * (parts - 1) + 1, unit])
    whole = Whole.of([unit * parts, unit * parts])
    limit = float(Fraction(parts - 1, parts).limit_denominator(10**6))
    exact_limit = Fraction(str(limit))
    model = AlphaKAnonymity(alpha=limit, k=1)
    for classes in (tie, over):
        share = Fraction(int(classes.counts.max()), int(classes.sizes[0]))
        assert bool(model.holds(classes, whole)[0]) == (share <= exact_limit)


@given(histograms, st.integers(min_value=1, max_value=9))
def test_largest_sums_are_those_of_the_sorted_counts(row: list[int], how_many: int) -> None:
    expected = np.cumsum(sorted(row, reverse=True))[:how_many]
    assert largest_sums(np.array([row]), how_many)[0].tolist() == expected.tolist()


@given(histograms)
def test_diversities_are_in_their_known_order(row: list[int]) -> None:
    """n / r1 <= exp(entropy) <= number of values: the orders of one family of entropies."""
    classes, whole = ClassHistograms.of(row), Whole.of(row)
    simple, entropy, distinct = (
        model.reach(classes, whole)[0]
        for model in (SimpleLDiversity(l=1), EntropyLDiversity(l=1), DistinctLDiversity(l=1))
    )
    assert simple <= entropy * (1 + 1e-14)
    assert entropy <= distinct * (1 + 1e-14)


@given(histograms, st.integers(min_value=2, max_value=6))
def test_the_achieved_tau_holds_and_no_smaller_one(row: list[int], l: int) -> None:
    classes, whole = ClassHistograms.of(row), Whole.of(row)
    tau = float(TauLDiversity(tau=1, l=l).reach(classes, whole)[0])
    assert 0 < tau <= 1
    assert TauLDiversity(tau=min(1, tau + 1e-12), l=l).holds(classes, whole).all()
    assert not TauLDiversity(tau=tau - 1e-12, l=l).holds(classes, whole).any()


@given(histograms, st.integers(min_value=2, max_value=4))
def test_the_achieved_c_is_just_too_small(row: list[int], l: int) -> None:
    classes, whole = ClassHistograms.of(row), Whole.of(row)
    c = float(RecursiveCLDiversity(c=1, l=l).reach(classes, whole)[0])
    if np.isinf(c):
        assert len([count for count in row if count]) < l
        assert not RecursiveCLDiversity(c=1e12, l=l).holds(classes, whole).any()
    else:
        assert RecursiveCLDiversity(c=c * (1 + 1e-12), l=l).holds(classes, whole).all()
        assert not RecursiveCLDiversity(c=c * (1 - 1e-12), l=l).holds(classes, whole).any()


def test_a_large_class_on_the_border_of_an_entropy_is_refused() -> None:
    # half in one value, an eighth in each of four, but for one record: the common divisor is 1
    n = 8 * 10**9
    nearly = [n // 2 - 1, n // 8 + 1, n // 8, n // 8, n // 8]
    model, whole = EntropyLDiversity(l=4), Whole.of([n] * 5)
    assert sum(nearly) > LARGEST_EXACT
    classes = ClassHistograms.of([nearly, [n // 2, *[n // 8] * 4]])
    assert model.holds(classes, whole).tolist() == [True, True]
    border = float(model.reach(ClassHistograms.of(nearly), whole)[0])
    assert not EntropyLDiversity(l=border).holds(ClassHistograms.of(nearly), whole).any()
    assert EntropyLDiversity(l=border - 1e-9).holds(ClassHistograms.of(nearly), whole).all()


def test_a_value_that_the_table_lacks_is_never_accepted() -> None:
    classes, whole = ClassHistograms.of([2, 2, 1]), Whole.of([8, 8, 0])
    assert not BetaLikeness(beta=100).holds(classes, whole).any()
    assert BetaLikeness(beta=100).reach(classes, whole)[0] == np.inf
    assert not DeltaDisclosure(delta=100).holds(classes, whole).any()


def test_enhanced_likeness_keeps_a_common_value_from_becoming_certain() -> None:
    classes, whole = ClassHistograms.of([[10, 0], [9, 1], [6, 4]]), Whole.of([60, 40])
    # -ln 0.6 = 0.51 and -ln 0.4 = 0.92: a share of 1 gains 0.67, one of 0.9 gains 0.5
    assert BetaLikeness(beta=1).holds(classes, whole).tolist() == [True, True, True]
    assert BetaLikeness(beta=1, enhanced=True).holds(classes, whole).tolist() == [False, True, True]


REASONS = [
    (KAnonymity(k=50), "k-anonymity: k = 50 but the table has only 12 records; ask for at most that"),
    (
        Profitability(gain=300, cost=20.5),
        "profitability: gain = 300 and cost = 20.5 take at least 15 records; the table has only 12",
    ),
    (
        DistinctLDiversity(l=20, attribute="occupation"),
        "distinct-l-diversity on 'occupation': l = 20, but there are only 4 values; ask for at most 4",
    ),
    (
        SimpleLDiversity(l=3),
        (
            "simple-l-diversity: l = 3 but the most frequent value alone lets the whole table reach only 2; "
            "ask for at most that"
        ),
    ),
    (
        EntropyLDiversity(l=4),  # it reaches 3.316...: the message must not promise 3.32
        "entropy-l-diversity: l = 4 but the whole table reaches 3.31; ask for at most that",
    ),
    (
        RecursiveCLDiversity(c=1, l=5),
        "recursive-cl-diversity: l = 5, but there are only 4 values; ask for at most 4",
    ),
    (
        RecursiveCLDiversity(c=2, l=3),
        "recursive-cl-diversity: c = 2 with l = 3 but the whole table reaches 2; ask for a c above that",
    ),
    (
        TauLDiversity(tau=0.9, l=5),
        (
            "tau-l-diversity: l = 5 but the number of values is only 4; ask for at most that: the nearest that can be "
            "reached is tau = 0.9 with l = 4"
        ),
    ),
    (
        TauLDiversity(tau=0.3, l=2),
        (
            "tau-l-diversity: tau = 0.3 with l = 2 but the most frequent values have too large a share of "
            "the whole table; with this l, ask for a tau of at least 0.5"
        ),
    ),
    (
        AlphaKAnonymity(alpha=1, k=13),
        "alpha-k-anonymity: k = 13 but the number of records is 12; ask for at most that",
    ),
    (
        AlphaKAnonymity(alpha=0.4, k=2),
        (
            "alpha-k-anonymity: alpha = 0.4 but the most frequent value has a share of 0.5 of the whole "
            "table; ask for at least that"
        ),
    ),
    (KMap(k=31, population="p.csv"), "k-map: k = 31 but the population has only 30 records"),
    (
        DeltaPresence(min=0, max=0.3, population="p.csv"),
        "delta-presence: max = 0.3 but the table has 12 of 30 people of the population; ask for at least 0.4",
    ),
    (
        DeltaPresence(min=0.5, max=0.9, population="p.csv"),
        "delta-presence: min = 0.5 but the table has 12 of 30 people of the population; ask for at most 0.4",
    ),
    (TCloseness(t=0), None),
    (BetaLikeness(beta=0.001, enhanced=True), None),
    (DeltaDisclosure(delta=0.001), None),
]


@pytest.mark.parametrize(("model", "reason"), REASONS, ids=lambda case: getattr(case, "name", ""))
def test_reasons_say_what_is_reachable(model: PrivacyModel, reason: str | None) -> None:
    assert model.why_unreachable(Whole.of([6, 3, 2, 1], population=30)) == reason


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (KAnonymity, {"k": 0}),
        (DistinctLDiversity, {"l": 2.5}),
        (SimpleLDiversity, {"l": 0.5}),
        (EntropyLDiversity, {"l": float("inf")}),
        (EntropyLDiversity, {"l": float("nan")}),
        (RecursiveCLDiversity, {"c": 0, "l": 2}),
        (TauLDiversity, {"tau": 0, "l": 2}),
        (TauLDiversity, {"tau": 0.5, "l": 1}),
        (TauLDiversity, {"tau": 0.5, "l": 3, "psi": [0.5, 1]}),
        (TauLDiversity, {"tau": 0.5, "l": 3, "psi": [0.4, 0.7, 1]}),
        (TauLDiversity, {"tau": 0.5, "l": 4, "psi": [0.5, 0.8, 0.7, 1]}),
        (TCloseness, {"t": -0.1}),
        (TCloseness, {"t": 0.1, "distance": "euclid"}),
        (TCloseness, {"t": 0.1, "distance": "ordered", "attribute": ["a", "b"]}),
        (AlphaKAnonymity, {"alpha": 1.5, "k": 2}),
        (BetaLikeness, {"beta": 0}),
        (DeltaDisclosure, {"delta": 0}),
        (KMap, {"k": 3}),
        (DeltaPresence, {"min": 0.5, "max": 0.2, "population": "p.csv"}),
    ],
)
def test_parameters_without_meaning_are_refused(model: type, parameters: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(parameters)
