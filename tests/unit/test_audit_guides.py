"""The examples of the guides to audit and init run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("guide", ["audit.md", "init.md"])
def test_examples_of_the_guide(guide):
    result = doctest.testfile(str(DOCS / guide), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0
