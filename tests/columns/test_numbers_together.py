"""Correlated noise and shuffling: what they keep of several columns of numbers, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

import shoal
from shoal.columns.base import Technique, treat
from shoal.columns.correlated_noise import CorrelatedNoise
from shoal.columns.numbers import correlate
from shoal.columns.shuffling import Shuffling, score_ranks
from shoal.core.errors import InputError, PolicyError
from shoal.core.randomness import Chance
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source

N = 20_000


def people() -> pa.Table:
    rng = np.random.default_rng(7)
    x, y, z = rng.normal(size=(3, N))
    wage = np.exp(8 + 0.6 * x + 0.3 * y)
    return pa.table({"age": 50 + 10 * x, "wage": wage, "debt": 1000 * (y - z)})


def changed(techniques: dict[str, Technique], seed: int | None = None) -> dict[str, np.ndarray]:
    source = treat(techniques, open_source(people(), SourceOptions()), Chance.of(seed))
    table = pa.Table.from_batches(source.batches())
    return {name: table[name].to_numpy().astype(float) for name in table.column_names}


def noise(share: float = 0.25, **others: Any) -> dict[str, Technique]:
    names = ["age", "wage", "debt"]
    return {n: CorrelatedNoise(share=share, columns=tuple(o for o in names if o != n), **others) for n in names}


def test_noise_has_the_correlations_of_the_numbers() -> None:
    """Of 20,000 pairs a correlation has a standard error of 0.007 at most: this fails once in millions of runs."""
    before, after = {n: people()[n].to_numpy() for n in people().column_names}, changed(noise())
    added = np.stack([after[name] - before[name] for name in before], axis=1)
    true = correlate(np.stack(list(before.values()), axis=1))
    assert np.abs(correlate(added) - true).max() < 0.04
    assert np.abs(correlate(np.stack(list(after.values()), axis=1)) - true).max() < 0.04
    for place, numbers in enumerate(before.values()):
        assert added[:, place].var() == pytest.approx(0.25 * numbers.var(), rel=0.06)
        assert abs(np.corrcoef(added[:, place], numbers)[0, 1]) < 0.04  # and none with the number itself


def test_shuffled_numbers_are_the_same_and_keep_rank_correlations() -> None:
    from scipy.stats import spearmanr

    before = {name: people()[name].to_numpy() for name in people().column_names}
    after = changed({"wage": Shuffling(given=("age", "debt"))})
    assert np.array_equal(np.sort(before["wage"]), np.sort(after["wage"]))
    for other in ("age", "debt"):
        kept, true = (spearmanr(each["wage"], before[other])[0] for each in (after, before))
        assert kept == pytest.approx(true, abs=0.04)
    # Given the other columns a number tells nothing of what its row gets: partial correlation of ranks.
    columns = (before["wage"], after["wage"], before["age"], before["debt"])
    scores = np.stack([score_ranks(column, Chance.of(1)) for column in columns])
    inverse = np.linalg.inv(np.corrcoef(scores))
    assert abs(inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])) < 0.05


def test_releases_are_verified() -> None:
    together = {"share": 0.1, "edges": None}
    attributes: dict[str, Any] = {
        "age": {"role": "quasi", "technique": {"correlated-noise": {**together, "columns": ["wage"]}}},
        "wage": {"role": "quasi", "technique": {"correlated-noise": {**together, "columns": ["age"]}}},
        "debt": {"role": "sensitive", "technique": {"shuffling": {"given": ["age", "wage"]}}},
    }
    release = shoal.anonymize(people().slice(0, 500), {"attributes": attributes, "privacy": [], "method": "plain"})
    assert release.verification.verified
    assert release.manifest["techniques"]["age"]["columns"] == ["wage"]
    assert release.manifest["techniques"]["debt"] == {
        "technique": "shuffling", "given": ["age", "wage"], "within": [],
    }  # fmt: skip


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(
        PolicyError, match="'age': correlated-noise with 'wage' needs the same technique on that column"
    ):
        changed({"age": CorrelatedNoise(share=0.1, columns=("wage",))})
    with pytest.raises(PolicyError, match="needs the same technique"):
        changed(noise() | {"debt": CorrelatedNoise(share=0.2, columns=("age", "wage"))})
    with pytest.raises(PolicyError, match=r"'age': noise of width .* is less than one step of 0 decimals"):
        changed(noise(share=0.001))
    with pytest.raises(PolicyError, match=r"column 'wgae' is not in .* did you mean 'wage'"):
        changed({"age": Shuffling(given=("wgae",))})
    for wrong in ({"share": 0, "columns": ["age"]}, {"share": 0.1, "columns": []}):
        with pytest.raises(ValidationError):
            CorrelatedNoise(**wrong)
    table = pa.table({"x": [1, 2, 3, 4], "y": ["a", "b", "c", "d"], "z": [5, 5, 5, 5]})
    source = open_source(table, SourceOptions())
    with pytest.raises(InputError, match="column 'y' has 4 values that cannot be read as a number"):
        treat({"x": Shuffling(given=("y",))}, source, Chance.of(1))
    both = {n: CorrelatedNoise(share=0.5, columns=(o,), decimals=2) for n, o in (("x", "z"), ("z", "x"))}
    with pytest.raises(InputError, match="column 'z' has only one number"):
        treat(both, source, Chance.of(1))
