"""What somebody who has not read anything is told: where to fix a failure, and what a kind of release is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from shoal.studio.studio import suggest_fix

COMMAND = "shoal anonymize stays.csv -p policy.yaml -o release"


def failed(exit_code: int, message: str, **others: str) -> SimpleNamespace:
    given = {"state": "failed", "command": COMMAND, "project": SimpleNamespace(id="7"), **others}
    return SimpleNamespace(exit_code=exit_code, message=message, **given)


@pytest.mark.parametrize(
    ("exit_code", "message", "page"),
    [
        (3, "k-anonymity: k = 1000000 but the table has only 20,000 records", "guarantees"),
        (2, "column 'cost' is insensitive; declare it quasi or sensitive with a taxonomy", "columns"),
        (2, "column 'age' is not in stays.csv", "columns"),
        (2, "max_withheld: must be a number", "policy"),
        (-9, "the command ended without a message", "policy"),
    ],
    ids=["unreachable", "role", "column", "policy", "killed"],
)
def test_a_failure_leads_to_the_page_that_mends_it(exit_code: int, message: str, page: str) -> None:
    words, path = suggest_fix(failed(exit_code, message))
    assert path == f"/projects/7/{page}"
    assert words
