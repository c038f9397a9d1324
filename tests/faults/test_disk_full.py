"""A disk that is full or must not be written to: a message, exit code 2, and nothing is left.

The size of every file is limited, which fails writes as a full disk does, at whichever file is the first too large.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("shoal")
SECRET = "Zaphod-4711"
N_ROWS = 4_000
POLICY = """\
attributes:
  patient: {role: identifier}
  age: {role: quasi, taxonomy: {intervals: {min: 0, max: 120, widths: [5, 10]}}}
  disease: {role: sensitive}
  note: {role: insensitive}
privacy:
  - k-anonymity: {k: 3}
"""
# Byte code and compiled kernels are written nowhere, so that only the release meets the limit.
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""
# The same, with heaps of few rows, so that they wait in temporary files.
SMALL_HEAPS = """
import resource, sys
import shoal.core.randomness
from shoal.cli import main
shoal.core.randomness.ROWS_PER_HEAP = 500
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.argv[:2] = ["shoal"]
main()
"""


def run(folder, *before, out="out", switches=()):
    arguments = [*before, "anonymize", "people.csv", "-p", "policy.yaml", "-o", out, *switches]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [str(part) for part in arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    """Publish with room enough, also so that all kernels are compiled; return how large the files are."""
    folder = tmp_path_factory.mktemp("roomy")
    _write(folder)
    done = run(folder, COMMAND)
    assert (done.returncode, done.stderr) == (0, "")
    done = run(folder, COMMAND, out="out-parquet", switches=["--format", "parquet"])
    assert (done.returncode, done.stderr) == (0, "")
    files = [path for out in ("out", "out-parquet") for path in (folder / out).rglob("*") if path.is_file()]
    return {path.name: path.stat().st_size for path in files}


@pytest.fixture
def people(tmp_path, sizes):
    _write(tmp_path)
    return tmp_path


def _write(folder):
    rows = [f"{SECRET},{20 + i % 60},{('flu', 'cold', 'gout')[i % 3]},{i} {SECRET * 6}" for i in range(N_ROWS)]
    (folder / "people.csv").write_text("\n".join(["patient,age,disease,note", *rows]) + "\n", encoding="utf-8")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")


def check_refusal(done, folder, message):
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("shoal: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr
    assert {path.name for path in folder.iterdir()} == {"people.csv", "policy.yaml"}


@pytest.mark.parametrize("room", ["none", "half"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_no_room_for_the_data(people, sizes, kind, room):
    limit = 0 if room == "none" else sizes[f"data.{kind}"] // 2
    done = run(people, sys.executable, "-c", LIMITED, limit, COMMAND, switches=["--format", kind])
    check_refusal(done, people, f"no space left on the disk while writing data.{kind}; nothing was published")


@pytest.mark.parametrize(
    ("limit", "files"), [(1_000, {"README.md", "manifest.json"}), (25_000, {"evidence.json", "report.html"})]
)
def test_no_room_for_another_file(people, limit, files):
    """A table so small that other files are the first too large: before the verifier has agreed, and after."""
    rows = [f"{SECRET},{20 + i},flu,x" for i in range(40)]
    (people / "people.csv").write_text("\n".join(["patient,age,disease,note", *rows]) + "\n", encoding="utf-8")
    done = run(people, sys.executable, "-c", LIMITED, limit, COMMAND)
    check_refusal(done, people, "nothing was published")
    assert done.stderr.split()[3].rstrip(":") in files


@pytest.mark.parametrize("limit", [0, 40_000])
def test_no_room_for_rows_that_wait(people, limit):
    done = run(people, sys.executable, "-c", SMALL_HEAPS, limit)
    check_refusal(done, people, "cannot keep rows in a temporary file: ")
