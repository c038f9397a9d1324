"""Key files, and tokens made with them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import stat
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import ValidationError

from shoal.columns.base import treat
from shoal.columns.keys import new_key, read_key
from shoal.columns.tokens import Hash, Pseudonym, Token
from shoal.core.errors import InputError, UsageError
from shoal.core.randomness import Chance
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source

KEY = bytes.fromhex("8f1c6ad0e33b97425d08fe71b2c4996055aa10ef7b3dc8e6219f048263d7beac")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(KEY)
    path.chmod(0o600)
    return path


def tokens(technique: Pseudonym | Token | Hash, values: object, column: str = "name") -> list[str | None]:
    source = open_source(pa.table({column: values}), SourceOptions())
    table = pa.Table.from_batches(treat({column: technique}, source, Chance.of(None)).batches())
    return table[column].to_pylist()


def test_new_keys_are_32_bytes_for_their_owner_only(tmp_path: Path) -> None:
    new_key(tmp_path / "a")
    new_key(tmp_path / "b")
    one, other = read_key(tmp_path / "a"), read_key(tmp_path / "b")
    assert len(one) == 32
    assert one != other
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_key_that_leaves_the_house_with_a_release_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out" / "public").mkdir(parents=True)
    inside = tmp_path / "out" / "public" / "key"
    new_key(inside)
    (tmp_path / "link").symlink_to(inside)
    for path in (inside, tmp_path / "link"):
        with pytest.raises(InputError, match="in a folder named 'public', which is shared; move it"):
            read_key(path)


def test_keys_are_never_written_over(tmp_path: Path) -> None:
    new_key(tmp_path / "a")
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(UsageError, match="exists"):
        new_key(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == before
    with pytest.raises(UsageError, match="cannot write"):
        new_key(tmp_path / "no" / "folder")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"", "has 0 bytes"),
        pytest.param(os.urandom(31), "has 31 bytes", id="31 bytes"),
        pytest.param(os.urandom(5000), "more than 4096", id="5000 bytes"),
        (bytes(32), "different bytes .1"),
        (bytes([7, 200] * 16), "different bytes .2"),
        (b"the quick brown fox jumps over the lazy dog", "is text"),
        (("пароль " * 8).encode() + b"abcdefgh", "is text"),
        (hashlib.sha256(b"x").hexdigest().encode(), "is text"),
        (bytes(range(128, 192)), "pattern"),
        (bytes(i * 7 % 256 for i in range(64)), "pattern"),
        (KEY[:20] * 4, "pattern"),
    ],
)
def test_keys_that_could_be_guessed_are_refused(tmp_path: Path, key: bytes, reason: str) -> None:
    path = tmp_path / "weak"
    path.write_bytes(key)
    path.chmod(0o600)
    with pytest.raises(InputError, match=reason) as refusal:
        read_key(path)
    assert not key or key.hex() not in str(refusal.value)


@pytest.mark.skipif(os.name != "posix", reason="file modes are those of POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602])
def test_keys_that_others_may_read_are_refused(key: Path, mode: int) -> None:
    key.chmod(mode)
    with pytest.raises(InputError, match="chmod 600"):
        read_key(key)


def test_pseudonyms_are_hmacs_of_domain_and_value(key: Path) -> None:
    wanted = hmac.digest(KEY, (4).to_bytes(8) + b"name" + "Zoë".encode(), "sha256")
    assert tokens(Pseudonym(key=str(key), length=51), ["Zoë"]) == [base64.b32encode(wanted).decode()[:51]]


def test_pseudonyms_agree_across_tables_and_types(key: Path) -> None:
    technique = Pseudonym(key=str(key))
    one = tokens(technique, ["7", "8", None, "7"])
    assert one[0] == one[3] != one[1]
    assert one[2] is None
    assert len(one[0] or "") == 26
    assert tokens(technique, pa.array([8, 7]))[::-1] == one[:2]


def test_reversible_pseudonyms_come_back(key: Path) -> None:
    pytest.importorskip("cryptography")
    from shoal.columns.keys import open_tokens

    values = ["Ann", " ", "Ann", None, "x" * 15, "x" * 16, "Zoë\0", "end\x80"]
    sealed = tokens(Pseudonym(key=str(key), reversible=True), values)
    assert sealed[0] == sealed[2]
    assert len({token for token in sealed if token is not None}) == 6
    assert len(sealed[0] or "") == len(sealed[1] or "")  # short values are padded
    assert open_tokens(pa.array(sealed), KEY, "name").to_pylist() == values


def test_reversible_pseudonyms_are_authenticated(key: Path) -> None:
    pytest.importorskip("cryptography")
    from shoal.columns.keys import open_tokens

    (token,) = tokens(Pseudonym(key=str(key), reversible=True), ["Ann"])
    assert token is not None
    changed = ("A" if token[0] != "A" else "B") + token[1:]
    for given, with_key, domain in (
        (changed, KEY, "name"),
        (token, KEY[::-1], "name"),
        (token, KEY, "other"),
        ("not a token", KEY, "name"),
        ("", KEY, "name"),
    ):
        with pytest.raises(InputError, match="1 of 1 tokens"):
            open_tokens(pa.array([given]), with_key, domain)


def test_bare_hashes_must_be_asked_for_twice() -> None:
    with pytest.raises(ValidationError, match="dictionary-attacks"):
        Hash(salt="none")
    bare = Hash(salt="none", accept="dictionary-attacks")
    assert tokens(bare, ["Ann"]) == [hashlib.sha256(b"Ann").hexdigest()]


def test_salted_hashes_differ_by_run_and_by_column() -> None:
    one = tokens(Hash(), ["Ann", "Bob", "Ann"])
    assert one[0] == one[2] != one[1]
    assert one != tokens(Hash(), ["Ann", "Bob", "Ann"])
    source = open_source(pa.table({"a": ["Ann"], "b": ["Ann"]}), SourceOptions())
    (batch,) = treat({"a": Hash(), "b": Hash()}, source, Chance.of(7)).batches()
    assert batch["a"] != batch["b"]
