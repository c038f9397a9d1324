"""Releases of Adult and Nursery, measured by pycanon where it is right: k, distinct l, alpha and t.

pycanon lives in an environment of its own, ``.venv-pycanon``, which ``make test`` builds.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from shoal.anonymize import anonymize
from shoal.datasets.uci import adult, adult_policy, nursery

ROOT = Path(__file__).parent.parent.parent
PYTHON = ROOT / ".venv-pycanon" / "bin" / "python"
QUESTIONS = ROOT / "tests" / "e2e" / "pycanon_questions.py"


@pytest.fixture(scope="module")
def ask():
    """Return a function that has pycanon measure a written release."""
    if not PYTHON.exists():
        pytest.skip("pycanon is not here: make .venv-pycanon/ready")

    def measure(data, quasi, sensitive, *switches):
        arguments = [PYTHON, QUESTIONS, data, "--sensitive", sensitive, *switches, "--quasi", *quasi]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return measure


def achieved(release):
    return {entry["model"]: entry["achieved"] for entry in release.guarantees}


ALL_FOUR = [
    {"k-anonymity": {"k": 10}},
    {"distinct-l-diversity": {"l": 3}},
    {"alpha-k-anonymity": {"alpha": 0.6, "k": 10}},
    {"t-closeness": {"t": 0.45}},
]


def test_adult_occupation(ask, shared_data, tmp_path):
    quasi = ("age", "workclass", "education", "marital-status", "race", "sex")
    policy = adult_policy(quasi, "occupation", ALL_FOUR, folder=shared_data)
    table = adult(shared_data, columns=list(policy["attributes"]))
    release = anonymize(table, policy, out=tmp_path / "out", format="csv")
    found, theirs = achieved(release), ask(release.data_file, quasi, "occupation")
    assert theirs["rows"] == 45_222
    assert (found["k-anonymity"], found["distinct-l-diversity"]) == (theirs["k"], theirs["l"])
    assert theirs["k_with_alpha"] == theirs["k"] >= 10
    assert found["alpha-k-anonymity"] == pytest.approx(theirs["alpha"], rel=1e-9)
    assert found["t-closeness"] == pytest.approx(theirs["t"], rel=1e-9)
    assert 0 < theirs["t"] <= 0.45


@pytest.mark.parametrize("labels", ["levels", pytest.param("ranges", marks=pytest.mark.thorough)])
def test_nursery(ask, shared_data, tmp_path, labels):
    quasi = ("parents", "has_nurs", "form", "children", "housing", "finance", "social", "health")
    policy = {
        "attributes": {name: {"role": "quasi"} for name in quasi} | {"class": {"role": "sensitive"}},
        "privacy": [
            {"k-anonymity": {"k": 5}},
            {"distinct-l-diversity": {"l": 2}},
            {"alpha-k-anonymity": {"alpha": 0.9, "k": 5}},
            {"t-closeness": {"t": 0.6}},
        ],
        "method": {"mondrian": {"labels": labels}},
        "max_withheld": 0.01,
    }
    release = anonymize(nursery(shared_data), policy, out=tmp_path / "out", format="csv", seed=7)
    found, theirs = achieved(release), ask(release.data_file, quasi, "class")
    assert theirs["rows"] == release.manifest["rows"]
    assert (found["k-anonymity"], found["distinct-l-diversity"]) == (theirs["k"], theirs["l"])
    assert found["alpha-k-anonymity"] == pytest.approx(theirs["alpha"], rel=1e-9)
    assert found["t-closeness"] == pytest.approx(theirs["t"], rel=1e-9)
