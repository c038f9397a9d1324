"""Tables that turn out bad late: a CSV file after nearly two million rows, a Parquet file in one of its last pages.

Each goes through the command. What the user reads is checked in full, and that nothing is left behind.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from shoal.cli import app

N_ROWS = 1_800_000
LATE = N_ROWS + 2  # the line after them, for there is a header
SECRET = "Zaphod-4711"
BLOCK = b"".join(b"%d,%c\n" % (i % 9, b"abc"[i % 7 % 3]) for i in range(900))
POLICY = """\
attributes:
  age: {role: quasi, taxonomy: {intervals: {min: 0, max: 10, widths: [5]}}}
  ward: {role: sensitive}
privacy:
  - k-anonymity: {k: 3}
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file of many good rows, to which tests add bad ones."""
    path = tmp_path_factory.mktemp("rows") / "people.csv"
    path.write_bytes(b"age,ward\n" + BLOCK * (N_ROWS // 900))
    yield path
    path.unlink()


@pytest.fixture
def broken(rows: Path) -> Iterator[Callable[[bytes], Path]]:
    """Add bytes at the end of the good rows; they are taken away again."""
    size = rows.stat().st_size

    def add(more: bytes) -> Path:
        with rows.open("ab") as file:
            file.write(more)
        return rows

    yield add
    with rows.open("r+b") as file:
        file.truncate(size)


@pytest.fixture
def refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Anonymize what cannot be; return what was said, after the checks that hold for every refusal."""

    def run(path: Path, *switches: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
        before = set(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as stopped:
            app(["anonymize", str(path), "-p", "policy.yaml", "-o", "out", *switches])
        answered, said = capfd.readouterr()
        assert stopped.value.code == 2, answered + said
        assert set(tmp_path.rglob("*")) == before, "nothing is published, nothing is left behind"
        if "--json" in switches:
            assert said == ""
            return str(json.loads(answered)["error"])
        assert answered == ""
        return said.removeprefix("shoal: ").removesuffix("\n")

    return run


@pytest.mark.parametrize(
    ("more", "switches", "stated"),
    [
        (
            f"3,{SECRET},a\n".encode() + BLOCK,
            ("--memory", "768MiB"),
            (
                f"people.csv: line {LATE} has 3 fields where the table has 2; correct the line, or set `delimiter` or "
                "`quote`"
            ),
        ),
        (
            f'3,"{SECRET}\n'.encode() + BLOCK,
            (),
            (
                f"people.csv: the quotes of the record that starts in line {LATE} do not close, or a field of it is "
                "too long; correct that line, or set `quote`"
            ),
        ),
        (
            f"3,{SECRET}\xf6\n".encode("latin-1") + BLOCK,
            ("--memory", "768MiB"),
            (
                f"people.csv is not utf-8: byte {9 + 4 * N_ROWS + 2 + len(SECRET)} (line {LATE}) does not fit; set "
                "`encoding`, for example to cp1252 or latin-1"
            ),
        ),
        (
            f"3,{SECRET}\0\n".encode() + BLOCK,
            ("--json",),
            (
                f"people.csv has a NUL byte in line {LATE}: it is not delimited text, or its encoding is not utf-8; "
                "set `encoding`"
            ),
        ),
        (
            b"3",
            (),
            (
                f"people.csv: line {LATE} has 1 field where the table has 2; it is the last line: correct it, or fetch "
                "the file again if it breaks off there"
            ),
        ),
        (
            b"old,a\n",
            ("--memory", "768MiB"),
            "column 'age': 1 value in 1 record outside the taxonomy: 'old'; add to the taxonomy or correct the data",
        ),
    ],
    ids=["too many fields", "open quote", "no UTF-8", "NUL", "cut off", "text for a number"],
)
def test_a_csv_file_that_breaks_late(broken, refusal, more, switches, stated) -> None:
    said = refusal(broken(more), *switches)
    assert said == stated
    assert SECRET not in said


@pytest.mark.parametrize("damage", ["cut off", "a byte", "the end"])
def test_a_packed_csv_file_that_is_damaged_late(tmp_path, refusal, damage) -> None:
    noise = np.random.default_rng(1).integers(0, 9, 800_000)
    text = np.column_stack([noise + ord("0"), np.full_like(noise, ord(",")), noise % 3 + ord("a"), noise * 0 + 10])
    packed = bytearray(gzip.compress(b"age,ward\n" + text.astype(np.uint8).tobytes(), compresslevel=1, mtime=0))
    if damage == "cut off":
        del packed[len(packed) * 9 // 10 :]
    elif damage == "the end":
        packed[-6] ^= 1  # of the checksum
    else:
        packed[len(packed) * 9 // 10] ^= 0x55
    path = tmp_path / "people.csv.gz"
    path.write_bytes(packed)
    said = refusal(path)
    if damage == "a byte" and "gzip" not in said:  # it unpacks to something else, which is no table
        assert said.startswith("people.csv.gz")
        return
    at = int(said.partition("damaged after ")[2].partition(" ")[0])
    assert said == (
        f"people.csv.gz is not a whole gzip file: it breaks off or is damaged after {at} unpacked bytes; fetch it again"
    )
    assert at > 2_700_000


def test_what_can_be_read_only_once(tmp_path, refusal) -> None:
    stated = "can be read only once, and shoal reads a table several times; write it to a file first, and name that"
    assert refusal(Path("-")) == f"- {stated}"
    assert refusal(Path("/dev/null")) == f"/dev/null {stated}"
