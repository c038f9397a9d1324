"""Tables larger than memory under real limits: of memory, of the disk, and of patience."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from shoal.datasets.hospital import hospital_policy
from shoal.datasets.hospital_files import write_stays

N_SMALL = 20_000
N_LARGE = 2_500_000
LIMIT_MIB = 270  # on top of what the interpreter and the compiled kernels take: too little for the plan of all rows

# The command, with a budget so small that the table does not fit.
SMALL = """
import resource, sys
from dataclasses import replace
from shoal.cli import main
from shoal.engines.regions import budget
real = budget.Budget.of
few = dict(cells=6000, sample=3000, region_rows=1500, heap_rows=2000)
budget.Budget.of = lambda memory=None, threads=None: replace(real(memory, threads), **few)
"""
FULL_DISK = (
    SMALL
    + """
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.argv[:2] = ["shoal"]
main()
"""
)
# Stops in the middle of the regions, says so, and waits.
SLOW = (
    SMALL
    + """
import time
from shoal.engines.regions.planning import RegionPlanner
plan = RegionPlanner.plan
left = [3]
def slow(self, *region):
    left[0] -= 1
    if not left[0]:
        print("in the middle", flush=True)
        time.sleep(600)
    return plan(self, *region)
RegionPlanner.plan = slow
sys.argv[:1] = ["shoal"]
main()
"""
)
FAILING = (
    SMALL
    + """
from shoal.engines.regions.planning import RegionPlanner
plan = RegionPlanner.plan
left = [3]
def failing(self, *region):
    left[0] -= 1
    if not left[0]:
        raise ZeroDivisionError
    return plan(self, *region)
RegionPlanner.plan = failing
sys.argv[:1] = ["shoal"]
main()
"""
)
# Everything is loaded and compiled first; then the address space may grow by so much until the verifier begins.
LIMITED = """
import resource, sys
import pyarrow as pa
from shoal.anonymize import anonymize
from shoal.anonymize.opening import Options
from shoal.anonymize.run import run
from shoal.datasets.hospital import hospital_policy, stays
from shoal.core.errors import ShoalError
from shoal.core.progress import Silent
from shoal.engines.regions.budget import Budget
from shoal.verify import verifier

def size():
    with open("/proc/self/status") as status:
        return int(status.read().split("VmSize:")[1].split()[0]) << 10

def limit(n_bytes):
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, resource.RLIM_INFINITY))

def warm():
    table = pa.Table.from_batches(list(stays(4000, seed=2)))
    for budget in (Budget(1 << 30, 3000, 3000, 800, 1000, 1), Budget.of()):
        run(table, hospital_policy(), Options(seed=1, budget=budget), Silent())

def unlimited(*arguments, **options):
    limit(resource.RLIM_INFINITY)
    return verify(*arguments, **options)

data, policy, out, memory, more = sys.argv[1:]
warm()
verify, verifier.verify = verifier.verify, unlimited
limit(size() + (int(more) << 20))
try:
    release = anonymize(data, policy, out=out, memory=memory, threads=1, seed=1)
except ShoalError as error:
    sys.exit(str(error))
print(release.verification.verified, release.evidence["search"].get("regions", 0))
"""


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stays")
    write_stays(folder / "stays.parquet", N_SMALL, seed=4)
    (folder / "policy.yaml").write_text(yaml.safe_dump(hospital_policy(), sort_keys=False), encoding="utf-8")
    return folder


def command(stays: Path, folder: Path, program: str, *before: str) -> tuple[list[str], dict[str, str]]:
    """Return a command whose temporary and public files would be in *folder*, and its environment."""
    arguments = [sys.executable, "-c", program, *before, "anonymize", str(stays / "stays.parquet")]
    arguments += ["-p", str(stays / "policy.yaml"), "-o", str(folder / "out"), "--seed", "1"]
    return arguments, {**os.environ, "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def run(stays: Path, folder: Path, program: str, *before: str) -> subprocess.CompletedProcess[str]:
    arguments, environment = command(stays, folder, program, *before)
    return subprocess.run(arguments, capture_output=True, text=True, timeout=240, env=environment, check=False)


def test_a_table_larger_than_memory_leaves_its_release_and_nothing_else(stays: Path, tmp_path: Path) -> None:
    done = run(stays, tmp_path, SMALL + "sys.argv[:1] = ['shoal']\nmain()\n")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    evidence = yaml.safe_load((tmp_path / "out" / "internal" / "evidence.json").read_text(encoding="utf-8"))
    assert evidence["search"]["regions"] > 5
    assert any("region by region" in warning for warning in evidence["warnings"])


@pytest.mark.parametrize("n_bytes", [2_000, 20_000, 60_000, 120_000])
def test_a_full_disk_is_told_and_nothing_is_left(stays: Path, tmp_path: Path, n_bytes: int) -> None:
    done = run(stays, tmp_path, FULL_DISK, str(n_bytes))
    assert done.returncode == 2, done.stderr
    assert "nothing was published" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_region_that_breaks_leaves_nothing(stays: Path, tmp_path: Path) -> None:
    done = run(stays, tmp_path, FAILING)
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_stopped_in_the_middle_leaves_nothing(stays: Path, tmp_path: Path, number: int) -> None:
    hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    arguments, environment = command(stays, tmp_path, hearing + SLOW)
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in the middle\n"
        held = [str(one.readlink()) for one in Path(f"/proc/{process.pid}/fd").iterdir()]
        assert len([target for target in held if str(tmp_path) in target]) > 5
        process.send_signal(number)
        assert process.wait(timeout=60) != 0
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("large")
    write_stays(folder / "stays.parquet", N_LARGE, seed=5)
    (folder / "policy.yaml").write_text(yaml.safe_dump(hospital_policy(), sort_keys=False), encoding="utf-8")
    yield folder
    (folder / "stays.parquet").unlink()


def limited(large: Path, out: Path, memory: str) -> subprocess.CompletedProcess[str]:
    quiet = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "ARROW_IO_THREADS": "1"}
    arguments = [large / "stays.parquet", large / "policy.yaml", out, memory, LIMIT_MIB]
    return subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, **quiet, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )


@pytest.mark.thorough
def test_under_a_real_limit_only_regions_come_through(large: Path, tmp_path: Path) -> None:
    """The same table and the same limit of the address space: planned at once it fails, by regions it is published."""
    at_once = limited(large, tmp_path / "at once", "64GiB")
    assert at_once.returncode != 0
    assert "memory" in at_once.stderr.lower(), at_once.stderr
    assert list(tmp_path.iterdir()) == []
    by_regions = limited(large, tmp_path / "by regions", "768MiB")
    assert by_regions.returncode == 0, by_regions.stderr
    verified, n_regions = by_regions.stdout.split()
    assert verified == "True"
    assert int(n_regions) >= 4
    assert (tmp_path / "by regions" / "public" / "data.parquet").exists()
