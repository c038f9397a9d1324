"""Spoiled public reports: the verifier refuses a page that is not the one the manifest was written for."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.verify.verifier import verify


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    table = pa.table({"age": rng.integers(20, 60, 60), "illness": rng.choice(["ague", "gout"], 60)})
    attributes = {"age": {"role": "quasi"}, "illness": {"role": "sensitive"}}
    policy = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 3}}], "method": "mondrian"}
    place = tmp_path_factory.mktemp("released") / "out"
    shoal.anonymize(table, policy, out=place, format="csv")
    return place


def _manifest(public: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = public / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    (public.parent / "internal" / "evidence.json").unlink(missing_ok=True)  # with it every change would be noticed


def _edited(public: Path) -> None:
    page = public / "report.html"
    page.write_text(page.read_text().replace("k = 3", "k = 9"))


def _deleted(public: Path) -> None:
    (public / "report.html").unlink()


def _without_key(public: Path) -> None:
    _manifest(public, lambda manifest: manifest.pop("report"))


def _a_link(public: Path) -> None:
    (public / "report.html").rename(public.parent / "elsewhere.html")
    (public / "report.html").symlink_to(public.parent / "elsewhere.html")


def _a_pipe(public: Path) -> None:
    (public / "report.html").unlink()
    os.mkfifo(public / "report.html")


def _swapped(public: Path) -> None:
    readme, report = public / "README.md", public / "report.html"
    both = readme.read_bytes(), report.read_bytes()
    readme.write_bytes(both[1])
    report.write_bytes(both[0])


def _beside(public: Path) -> None:
    (public / "report.html.bak").write_text("x")


SPOILED = (_edited, _deleted, _without_key, _a_link, _a_pipe, _swapped, _beside)


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__.strip("_"))
def test_a_spoiled_report_is_refused(released: Path, tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    copy = shutil.copytree(released, tmp_path / "out")
    assert verify(copy).verified
    spoil(copy / "public")
    found = verify(copy)
    assert [check.name for check in found.checks if not check.ok] == ["folder"]


@pytest.mark.parametrize("entry", [{"sha256": "x"}, {}, "0" * 64, {"sha256": "0" * 64, "more": 1}], ids=str)
def test_a_malformed_entry_is_refused(released: Path, tmp_path: Path, entry: Any) -> None:
    copy = shutil.copytree(released, tmp_path / "out")
    _manifest(copy / "public", lambda manifest: manifest.update(report=entry))
    found = verify(copy)
    assert [check.name for check in found.checks if not check.ok] == ["manifest"]
