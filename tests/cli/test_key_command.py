"""``shoal key``: new keys, and reversible pseudonyms taken back into a private file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from shoal.cli import app
from shoal.columns.base import treat
from shoal.columns.keys import new_key, read_key
from shoal.columns.tokens import Pseudonym, refuse_repeated
from shoal.core.errors import PolicyError
from shoal.core.randomness import Chance
from shoal.sources.opening import open_source

RUNNER = CliRunner(env={"COLUMNS": "200"})
NAMES = ["Ann", "Bob", None, "Zoë, of Ulm", "Ann"]


def typed(*words: object) -> tuple[int, dict[str, object], str]:
    result = RUNNER.invoke(app, ["key", *map(str, words), "--json"])
    return result.exit_code, json.loads(result.stdout), result.stdout


@pytest.fixture
def key(tmp_path: Path) -> Path:
    new_key(tmp_path / "k.key")
    return tmp_path / "k.key"


def released(folder: Path, key: Path, name: str, **parameters: object) -> Path:
    """A released file with pseudonyms in place of names."""
    folder.mkdir(exist_ok=True)
    table = pa.table({"patient": NAMES, "age": [1, 2, 3, 4, 5]})
    technique = Pseudonym(key=str(key), reversible=True, **parameters)
    source = treat({"patient": technique}, open_source(table), Chance.of(None))
    rows = pa.Table.from_batches(source.batches())
    write = pq.write_table if name.endswith("parquet") else pyarrow.csv.write_csv
    write(rows, folder / name)
    return folder / name


def test_a_new_key_is_readable_by_its_owner_alone_and_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "new.key"
    assert typed("new", path)[:2] == (0, {"key": str(path), "bytes": 32})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = read_key(path)
    code, said, _ = typed("new", path)
    assert code == 2
    assert "exists" in str(said["error"])
    assert read_key(path) == key
    said_to_people = RUNNER.invoke(app, ["key", "new", str(tmp_path / "[b].key")])
    assert said_to_people.exit_code == 0
    assert "[b].key is a new key" in said_to_people.stdout


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_values_stand_again_where_their_tokens_were(tmp_path: Path, key: Path, name: str) -> None:
    file, out = released(tmp_path / "public", key, name), tmp_path / f"opened-{name}"
    assert "Ann" not in file.read_bytes().decode("latin-1")
    code, said, _ = typed("open", file, "--key", key, "--column", "patient", "-o", out)
    assert (code, said) == (0, {"out": str(out), "rows": 5, "column": "patient", "domain": "patient"})
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    opened = pa.Table.from_batches(open_source(out).batches())
    assert opened["patient"].to_pylist() == NAMES
    assert [int(age) for age in opened["age"].to_pylist()] == [1, 2, 3, 4, 5]


def test_the_domain_is_the_manifests_unless_given(tmp_path: Path, key: Path) -> None:
    file = released(tmp_path / "public", key, "data.csv", domain="person")
    ask = ("open", file, "--key", key, "--column", "patient", "-o")
    code, said, _ = typed(*ask, tmp_path / "a.csv")
    assert code == 2
    assert "3 of 3 tokens" in str(said["error"])
    assert "'patient'" in str(said["error"])
    assert not (tmp_path / "a.csv").exists()
    assert typed(*ask, tmp_path / "b.csv", "--domain", "person")[0] == 0
    manifest = {"techniques": {"patient": {"technique": "pseudonym", "reversible": True, "domain": "person"}}}
    (tmp_path / "public" / "manifest.json").write_text(json.dumps(manifest))
    code, said, _ = typed(*ask, tmp_path / "a.csv")
    assert (code, said["domain"]) == (0, "person")


def test_tokens_that_no_key_takes_back_are_said_to_be_so(tmp_path: Path, key: Path) -> None:
    file = released(tmp_path / "public", key, "data.csv")
    manifest = {"techniques": {"patient": {"technique": "pseudonym", "reversible": False, "domain": "patient"}}}
    (tmp_path / "public" / "manifest.json").write_text(json.dumps(manifest))
    code, said, _ = typed("open", file, "--key", key, "--column", "patient", "-o", tmp_path / "a.csv")
    assert code == 2
    assert "not reversible" in str(said["error"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"-o": "public/a.csv"}, "a folder named 'public'"),
        ({"-o": "public/deep/a.csv"}, "a folder named 'public'"),
        ({"-o": "link/a.csv"}, "a folder named 'public'"),
        ({"-o": "k.key"}, "exists"),
        ({"-o": "a.parquet"}, "the format of data.csv"),
        ({"-o": "nowhere/a.csv"}, "cannot write"),
        ({"--column": "patiet"}, "did you mean 'patient'"),
        ({"--column": "age"}, "tokens"),
        ({"--key": "none.key"}, "cannot read the key"),
        ({"--key": "other.key"}, "3 of 3 tokens"),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else "",
)
def test_what_is_refused_leaves_no_file_and_shows_no_value(
    tmp_path: Path, key: Path, change: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    released(tmp_path / "public", key, "data.csv")
    (tmp_path / "public" / "deep").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "public")
    new_key(tmp_path / "other.key")
    before = sorted(tmp_path.rglob("*"))
    given = {"--key": "k.key", "--column": "patient", "-o": "a.csv"} | change
    code, said, text = typed("open", "public/data.csv", *(word for pair in given.items() for word in pair))
    assert code == 2
    assert says in str(said["error"])
    assert not any(name in text for name in ("Ann", "Bob", "Zoë"))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_token_that_was_changed_is_noticed(tmp_path: Path, key: Path) -> None:
    file = released(tmp_path / "public", key, "data.csv")
    text = file.read_text()
    token = pyarrow.csv.read_csv(file)["patient"][1].as_py()
    file.write_text(text.replace(token, ("B" if token[0] == "A" else "A") + token[1:]))
    code, said, _ = typed("open", file, "--key", key, "--column", "patient", "-o", tmp_path / "a.csv")
    assert code == 2
    assert "1 of 3 tokens" in str(said["error"])
    assert not (tmp_path / "a.csv").exists()


def test_a_key_is_not_made_in_a_public_folder(tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    code, said, _ = typed("new", tmp_path / "public" / "k.key")
    assert code == 2
    assert "public" in str(said["error"])
    assert not list((tmp_path / "public").iterdir())


def test_persons_with_several_records_are_refused() -> None:
    table = pa.table({"patient": ["Ann", "Bob", "Ann", "Cleo", "Bob", None, None], "visit": [1, 2, 3, 4, 5, 6, 7]})
    with pytest.raises(PolicyError, match="column 'patient': 2 of its 3 values are in several records") as caught:
        refuse_repeated(open_source(table), ["visit", "patient"])
    assert not any(name in str(caught.value) for name in ("Ann", "Bob"))
    refuse_repeated(open_source(table), ["visit"])
    refuse_repeated(open_source(table), [])
    refuse_repeated(open_source(table.slice(3)), ["patient"])
