"""A release whose classes are larger than memory, under a real limit."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SIDE = 1000
N = 1_200_000
LIMIT_MIB = 110  # on top of what the interpreter and the compiled kernels take: too little for all classes at once

# Everything is loaded and compiled first; then the address space may grow by so much.
LIMITED = """
import resource, sys
from pathlib import Path
from shoal.core.errors import ShoalError
from shoal.sources.opening import open_source
from shoal.verify.verifier import verify
from shoal.verify import passes

folder, small, memory, more = sys.argv[1:]

def judge(folder, memory):
    folder = Path(folder)
    return verify(folder / "out", source=open_source(folder / "source.parquet"), memory=memory)

least, passes._LEAST = passes._LEAST, 20_000
for warm in (1, None):
    assert judge(small, warm).verified
passes._LEAST = least
with open("/proc/self/status") as status:
    size = int(status.read().split("VmSize:")[1].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_AS, (size + (int(more) << 20), resource.RLIM_INFINITY))
print(judge(folder, int(memory) or None).verified)
"""


def write(folder: Path, n: int, side: int) -> Path:
    """Write a release whose classes are the cells of a grid, and its source."""
    rng = np.random.default_rng(n)
    x, y = rng.integers(0, side, n), rng.integers(0, side, n)
    rest = {"s": rng.integers(0, 9, n), "c": rng.random(n)}
    pq.write_table(pa.table({"x": x, "y": y, **rest}), folder / "source.parquet")
    texts = pa.array([f"at {place}" for place in range(side)])
    quasi = {name: texts.take(pa.array(codes)) for name, codes in (("x", x), ("y", y))}
    public = folder / "out" / "public"
    public.mkdir(parents=True)
    rows = pa.table({**quasi, **rest}).take(pa.array(rng.permutation(n)))
    with pq.ParquetWriter(
        public / "data.parquet", rows.schema, write_statistics=False, store_schema=False, compression="zstd"
    ) as writer:
        writer.write_table(rows, row_group_size=1 << 18)
    internal = folder / "out" / "internal"
    internal.mkdir()
    pq.write_table(pa.table({"class": 1 + x * (side + 2) + y}), internal / "witness.parquet", row_group_size=1 << 18)
    labels = {f"at {place}": {"from": place, "below": place + 1} for place in range(side)}
    counts = np.bincount(x * side + y)
    values = np.bincount(np.unique((x * side + y) * 9 + rest["s"]) // 9)
    manifest = {
        "format": 1,
        "shoal_version": "0",
        "method": "mondrian",
        "method_parameters": {},
        "guarantees": [
            {"model": "k-anonymity", "parameters": {"k": 1}, "achieved": float(counts[counts > 0].min())},
            {"model": "distinct-l-diversity", "parameters": {"l": 1}, "achieved": float(values[values > 0].min())},
        ],
        "parts": [["x", "y", "s", "c"]],
        "rows": n,
        "withheld": 0,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": {
            **{name: {"role": "quasi", "kind": "number", "labels": labels} for name in ("x", "y")},
            "s": {"role": "sensitive", "kind": "number"},
            "c": {"role": "insensitive", "kind": "number"},
        },
        "data": {
            "file": "data.parquet",
            "format": "parquet",
            "sha256": hashlib.sha256((public / "data.parquet").read_bytes()).hexdigest(),
        },
    }
    (public / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    digest = hashlib.sha256((public / "manifest.json").read_bytes()).hexdigest()
    (internal / "evidence.json").write_text(json.dumps({"manifest": {"sha256": digest}}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = write(tmp_path_factory.mktemp("large"), N, SIDE)
    yield folder
    (folder / "source.parquet").unlink()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("small"), 3000, 10)


def limited(large: Path, small: Path, memory: int) -> subprocess.CompletedProcess[str]:
    quiet = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "ARROW_IO_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(large), str(small), str(memory), str(LIMIT_MIB)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **quiet, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )


def test_under_a_real_limit_only_several_passes_come_through(large: Path, small: Path) -> None:
    """The same release and the same limit of the address space: in one pass it fails, in several it is verified."""
    at_once = limited(large, small, 0)
    assert at_once.returncode != 0
    assert "MemoryError" in at_once.stderr, at_once.stderr
    in_passes = limited(large, small, 512 << 20)
    assert in_passes.returncode == 0, in_passes.stderr
    assert in_passes.stdout == "True\n"
