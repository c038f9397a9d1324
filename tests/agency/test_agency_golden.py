"""The number of samples of the (l,delta)-diversity paper, for its 3,000 quasi-identifiers and 50 sensitive values."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shoal.agency.samples import class_bound, paper_samples

UNIFORM = [Fraction(1, 50)] * 50
RHO = Fraction("0.95")
GEOMETRIC = [RHO**i * (1 - RHO) / (1 - RHO**50) for i in range(50)]


@pytest.mark.parametrize(
    ("marginal", "beta", "l", "delta", "p", "m", "n"),
    [
        (UNIFORM, "0.01", 10, "0.01", 0.0002, 500, 65_606),
        (UNIFORM, "0.01", 30, "0.001", 0.0002, 166.67, 77_118),
        (UNIFORM, "0.02", 10, "0.01", 0.0004, 250, 31_067),
        (GEOMETRIC, "0.01", 10, "0.01", 0.000341393, 292.917, 36_866),
        (GEOMETRIC, "0.01", 30, "0.01", 0.000122385, 272.365, 111_229),
        (GEOMETRIC, "0.02", 30, "0.001", 0.000244769, 136.183, 62_186),
    ],
)
def test_the_number_of_samples_is_the_papers_rounded_up(marginal, beta, l, delta, p, m, n) -> None:
    chosen = Fraction(beta) * marginal[l - 1]
    bound = class_bound(3000, sum(sorted(marginal, reverse=True)[l - 1 :]), l, chosen)
    assert f"{float(chosen):.6g}" == f"{p:.6g}"  # as the table prints it
    assert float(bound) == pytest.approx(m, rel=2e-5)
    assert paper_samples(bound, l, chosen, Fraction(delta)) == n
