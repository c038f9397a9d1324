"""The scikit-learn transformer: what it publishes, how it shows rows, and scikit-learn's own checks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator
from tests import tables

import shoal
from shoal.core.errors import PolicyError, UnreachableError, UsageError
from shoal.sklearn import ReleaseTransformer

COLUMNS = "name age sex zip cost"
AGES = {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [10]}}}


def policy(columns: str = f"{COLUMNS} illness", k: int = 5, **more: Any) -> dict[str, Any]:
    return {"attributes": tables.attributes(columns), "privacy": [{"k-anonymity": {"k": k}}], **more}


def frame(n_rows: int = 300, seed: int = 1) -> tuple[pd.DataFrame, pd.Series]:
    table = tables.people(n_rows, seed, f"{COLUMNS} illness").to_pandas()
    table.index += 1000
    return table.drop(columns="illness"), table["illness"]


def count(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*table.to_pydict().values(), strict=True))


def test_scikit_learn_finds_nothing_to_complain_of() -> None:
    found = check_estimator(ReleaseTransformer(), on_skip=None)
    assert len(found) > 40


def test_rows_are_shown_as_they_were_published_and_stay_in_order() -> None:
    """Mondrian's classes do not overlap, so that every row is shown as its own."""
    X, y = frame()
    shown = ReleaseTransformer(policy(), target="illness")
    features = shown.fit_transform(X, y)
    assert list(features) == ["age_mid", "sex", "zip", "cost"]  # neither name nor illness
    assert list(features) == shown.get_feature_names_out().tolist()
    assert (features.index == X.index).all()
    assert (features["cost"] == X["cost"]).all()
    assert shown.release_.verification.verified
    assert shown.published_.column_names == [*features, "illness"]
    rows = features.assign(illness=y)
    assert count(shown.published_) == count(pa.Table.from_pandas(rows, preserve_index=False))
    pd.testing.assert_frame_equal(shown.transform(X.iloc[::-1]), features.iloc[::-1])


@pytest.mark.parametrize("method", ["mondrian", "hilbert", "incognito"])
def test_bounds_hold_of_every_row_that_was_published(method: str) -> None:
    table = tables.people(300, columns="age sex day cost", missing={"age": 0.1})
    X = table.to_pandas()
    shown = ReleaseTransformer(policy("age sex day cost", method=method), numbers="bounds").fit(X)
    features = shown.transform(X)
    days = table["day"].cast(pa.date32()).cast(pa.int32()).to_numpy()
    for name, values in (("age", X["age"]), ("day", days)):
        low, high = features[f"{name}_from"], features[f"{name}_below"]
        assert low.notna().any()
        assert ((low <= values) | low.isna() | np.isnan(values)).all()
        assert ((values < high) | high.isna() | np.isnan(values)).all()


def test_the_narrowest_class_comes_first_then_one_that_covers_most_columns() -> None:
    X = pd.DataFrame({"age": [31, 32, 46, 47, 48, 61, 62], "sex": list("ffmmmff")})
    given = {"attributes": {"age": AGES, "sex": {"role": "quasi"}}, "privacy": [{"k-anonymity": {"k": 2}}]}
    shown = ReleaseTransformer(given).fit(X)
    new = pd.DataFrame({"age": [39, 41, 85, 65], "sex": ["f", "m", "m", "x"]})
    assert shown.transform(new).to_numpy().tolist() == [[35, "f"], [45, "m"], [45, "m"], [65, "f"]]


def test_an_open_end_is_the_other_one_and_no_end_is_missing() -> None:
    X = np.array([[1.0], [2.0], [3.0], [60.0], [61.0], [62.0], [np.nan], [np.nan], [np.nan]])
    given = {"attributes": {"x0": {"role": "quasi"}}, "privacy": [{"k-anonymity": {"k": 3}}]}
    shown = ReleaseTransformer(given).fit(X)
    low, high, missing = shown.transform(X)[[0, 3, 6], 0]
    assert low < high
    assert np.isnan(missing)


def test_a_model_learns_in_a_pipeline_from_frames_and_arrays(tmp_path: Path) -> None:
    X = frame(400)[0].drop(columns="zip")
    y = (X["age"] > 50).to_numpy()
    given = policy("name age sex cost")
    given["attributes"]["old"] = {"role": "insensitive"}
    publish = ReleaseTransformer(given, target="old", out=tmp_path / "out").set_output(transform="pandas")
    encode = make_column_transformer((OneHotEncoder(sparse_output=False), ["sex"]), remainder="passthrough")
    model = make_pipeline(publish, encode, DecisionTreeClassifier(max_depth=3)).fit(X, y)
    assert model.score(X, y) > 0.8
    assert shoal.verify(tmp_path / "out").verified
    assert count(publish.published_) == count(
        pa.Table.from_pandas(publish.transform(X).assign(old=y), preserve_index=False)
    )
    numbers = ReleaseTransformer().set_output(transform="pandas").fit_transform(X[["age", "cost"]].to_numpy())
    assert list(numbers) == ["x0_mid", "x1_mid"]


def test_what_cannot_be_shown_is_refused() -> None:
    X, y = frame(60)
    changed = policy()
    changed["attributes"]["cost"]["technique"] = {"rounding": {"base": 5}}
    with pytest.raises(PolicyError, match="column 'cost' has a technique"):
        ReleaseTransformer(changed, target="illness").fit(X, y)
    anatomy = policy() | {"privacy": [{"distinct-l-diversity": {"l": 2}}], "method": "anatomy"}
    with pytest.raises(UsageError, match="the method anatomy publishes no classes"):
        ReleaseTransformer(anatomy, target="illness").fit(X, y)
    with pytest.raises(UsageError, match="must be given as y"):
        ReleaseTransformer(policy(), target="illness").fit(X)
    with pytest.raises(UsageError, match="'mid' or 'bounds'"):
        ReleaseTransformer(numbers="middle").fit(X)
    with pytest.raises(UnreachableError):
        ReleaseTransformer(policy(k=61), target="illness").fit(X, y)
