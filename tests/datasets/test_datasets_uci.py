"""Adult and Nursery: the right tables from a folder, the cache or a publisher on loopback, no others."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.core.errors import InputError
from shoal.core.registry import find
from shoal.datasets import uci
from shoal.datasets import uci as origins
from shoal.datasets.uci import adult, adult_hierarchy, adult_policy, nursery
from shoal.taxonomies.builders import TaxonomyBuilder

MADE_UP = {
    "/adult.data": b"39, State-gov,  7, A, 13, S, Clerk, R, W, Male, 0, 0, 40, Here, <=50K\n\n",
    "/adult.test": b"|comment\n25, ?, 8, B, 7, S, ?, R, W, Female, 0, 0, 30, Here, >50K.\n\n",
}
NORMALISED = (
    ",".join(uci.ADULT_COLUMNS) + "\n"
    "39,State-gov,7,A,13,S,Clerk,R,W,Male,0,0,40,Here,<=50K\n"
    "25,?,8,B,7,S,?,R,W,Female,0,0,30,Here,>50K\n"
).encode()


@pytest.fixture
def files() -> dict[str, bytes]:
    """What the loopback publisher offers; tests may change it."""
    return dict(MADE_UP)


@pytest.fixture
def publisher(files: dict[str, bytes]) -> Iterator[str]:
    """The address of an HTTP server on loopback; a path that ends in ``!`` is cut short."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cut = self.path.endswith("!")
            body = files.get(self.path.rstrip("!"))
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if cut else body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no folder at hand."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SHOAL_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache" / "shoal"


Offer = Callable[..., None]


@pytest.fixture
def offer(publisher: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Make the made-up publisher that of Adult, with its true digests unless told otherwise."""

    def make(sha256: str | None = None, md5: str | None = None, ending: str = "") -> None:
        sources = {publisher + path + ending: md5 or hashlib.md5(body).hexdigest() for path, body in MADE_UP.items()}
        digest = sha256 or hashlib.sha256(NORMALISED).hexdigest()
        monkeypatch.setattr(uci, "ADULT", dataclasses.replace(uci.ADULT, sources=sources, sha256=digest))

    return make


def nothing_left(cache: Path) -> bool:
    return not cache.exists() or not list(cache.iterdir())


class TestDownload:
    def test_right_digests_are_accepted_and_kept(
        self, offer: Offer, cache: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        offer()
        table = adult(complete=False)
        assert table["age"].to_pylist() == [39, 25]
        assert table["occupation"].to_pylist() == ["Clerk", None]
        assert [file.name for file in cache.iterdir()] == ["adult.csv.gz"]
        assert gzip.decompress((cache / "adult.csv.gz").read_bytes()) == NORMALISED
        files.clear()  # the second time nothing is fetched
        assert adult(complete=False).equals(table)
        assert adult().num_rows == 1

    def test_a_source_that_changed_is_refused(self, offer: Offer, cache: Path) -> None:
        offer(md5="0" * 32)
        with pytest.raises(InputError, match=r"adult\.data has changed.*SHOAL_DATA"):
            adult()
        assert nothing_left(cache)

    def test_a_table_that_is_another_is_refused(self, offer: Offer, cache: Path) -> None:
        offer(sha256="1" * 64)
        with pytest.raises(InputError, match="is not the Adult table"):
            adult()
        assert nothing_left(cache)

    def test_a_partial_download_leaves_nothing(self, offer: Offer, cache: Path) -> None:
        offer(ending="!")
        with pytest.raises(InputError, match="bytes arrived"):
            adult()
        assert nothing_left(cache)

    def test_a_second_file_that_is_missing_leaves_nothing(
        self, offer: Offer, cache: Path, files: dict[str, bytes]
    ) -> None:
        offer()
        del files["/adult.test"]
        with pytest.raises(InputError, match=r"cannot download .*adult\.test: Not Found; put adult\.csv\.gz"):
            adult()
        assert nothing_left(cache)

    def test_nobody_answers(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
        address = f"http://127.0.0.1:{server.server_address[1]}/nursery.data"
        server.server_close()
        sources = {address: None}
        monkeypatch.setattr(uci, "NURSERY", dataclasses.replace(uci.NURSERY, sources=sources))
        with pytest.raises(InputError, match="cannot download"):
            nursery()
        assert nothing_left(cache)

    def test_too_long_is_refused(self, publisher: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(origins, "LONGEST", 10)
        with pytest.raises(OSError, match="more than 10 bytes"):
            origins.fetch(publisher + "/adult.data")

    def test_only_the_web(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="not a web address"):
            origins.fetch((tmp_path / "file").as_uri())

    @pytest.mark.parametrize(
        "spoiled", [gzip.compress(NORMALISED + b"x", mtime=0), gzip.compress(NORMALISED, mtime=0)[:-9], b"text"]
    )
    def test_a_spoiled_cache_is_removed_and_filled_again(self, offer: Offer, cache: Path, spoiled: bytes) -> None:
        offer()
        cache.mkdir(parents=True)
        (cache / "adult.csv.gz").write_bytes(spoiled)
        with pytest.raises(InputError):
            adult()
        assert nothing_left(cache)
        assert adult().num_rows == 1

    def test_the_published_files_give_the_published_digest(
        self,
        shared_data: Path,
        publisher: str,
        cache: Path,
        files: dict[str, bytes],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The repository's own files, rebuilt byte by byte (their MD5 proves it), pass with real digests."""
        rows = gzip.decompress((shared_data / "adult.csv.gz").read_bytes()).replace(b",", b", ").splitlines()[1:]
        files["/adult/adult.data"] = b"\n".join([*rows[:32_561], b"", b""])
        files["/adult/adult.test"] = b"\n".join(
            [b"|1x3 Cross validator", *(row + b"." for row in rows[32_561:]), b"", b""]
        )
        files["/nursery/nursery.data"] = (shared_data / "nursery.csv").read_bytes().split(b"\n", 1)[1] + b"\n"
        for name in ("ADULT", "NURSERY"):
            origin = getattr(uci, name)
            moved = {address.replace(uci.REPOSITORY, publisher): md5 for address, md5 in origin.sources.items()}
            monkeypatch.setattr(uci, name, dataclasses.replace(origin, sources=moved))
        assert adult().equals(adult(shared_data))
        assert nursery().equals(nursery(shared_data))
        assert sorted(file.name for file in cache.iterdir()) == ["adult.csv.gz", "nursery.csv"]


class TestFolders:
    def test_a_folder_without_the_file_is_an_error_and_not_a_download(self, tmp_path: Path, offer: Offer) -> None:
        offer()
        with pytest.raises(InputError, match=r"cannot read .*adult\.csv\.gz: No such file"):
            adult(tmp_path)

    def test_another_table_of_that_name_is_refused_and_stays(self, tmp_path: Path, cache: Path) -> None:
        (tmp_path / "nursery.csv").write_text("parents\nusual\n")
        with pytest.raises(InputError, match="is not the Nursery table"):
            nursery(tmp_path)
        assert (tmp_path / "nursery.csv").exists()


class TestAdult:
    def test_digest_and_rows(self, shared_data: Path) -> None:
        text = gzip.decompress((shared_data / "adult.csv.gz").read_bytes())
        assert hashlib.sha256(text).hexdigest() == uci.ADULT.sha256
        assert adult(shared_data, complete=False).num_rows == 48_842
        assert adult(shared_data).num_rows == 45_222
        assert adult(shared_data).column_names == list(uci.ADULT_COLUMNS)

    def test_values(self, shared_data: Path) -> None:
        whole, complete = adult(shared_data, complete=False), adult(shared_data)
        distinct = {name: len(whole[name].drop_null().unique()) for name in whole.column_names}
        assert list(distinct.values()) == [74, 8, 28_523, 16, 16, 7, 14, 6, 5, 2, 123, 99, 96, 41, 2]
        distinct = {name: len(complete[name].unique()) for name in complete.column_names}
        assert list(distinct.values()) == [74, 7, 26_741, 16, 16, 7, 14, 6, 5, 2, 121, 97, 96, 41, 2]
        assert {name for name in whole.column_names if whole[name].null_count} == {
            "workclass",
            "occupation",
            "native-country",
        }
        salaries = [
            {pair["values"]: pair["counts"] for pair in table["salary-class"].value_counts().to_pylist()}
            for table in (whole, complete)
        ]
        assert salaries == [{"<=50K": 37_155, ">50K": 11_687}, {"<=50K": 34_014, ">50K": 11_208}]

    def test_hierarchies_cover_the_complete_rows(self, shared_data: Path) -> None:
        table = adult(shared_data)
        for name in (
            "workclass",
            "education",
            "marital-status",
            "race",
            "sex",
            "occupation",
            "native-country",
        ):
            lines = adult_hierarchy(name, shared_data).read_text(encoding="utf-8").splitlines()
            assert set(table[name].to_pylist()) <= {line.split(";")[0] for line in lines}

    def test_policy(self, shared_data: Path) -> None:
        policy = adult_policy(folder=shared_data)
        roles = {name: attribute["role"] for name, attribute in policy["attributes"].items()}
        assert list(roles) == [*uci.ADULT_QUASI, "occupation"]
        assert list(roles.values()) == ["quasi"] * 6 + ["sensitive"]
        assert json.loads(json.dumps(policy)) == policy
        files = [attribute["taxonomy"].get("file") for attribute in policy["attributes"].values()]
        assert all(Path(file).is_file() for file in files if file)
        assert adult(shared_data, columns=list(roles)).shape == (45_222, 7)
        other = adult_policy(["sex"], "salary-class", [{"k-anonymity": {"k": 2}}], shared_data)
        assert list(other["attributes"]) == ["sex", "salary-class"]
        assert other["privacy"] == [{"k-anonymity": {"k": 2}}]

    def test_policy_taxonomies_cover_every_value(self, shared_data: Path) -> None:
        table = adult(shared_data)
        quasi = [*uci.ADULT_QUASI, "education-num", "hours-per-week", "native-country", "relationship"]
        for column, attribute in adult_policy(quasi, folder=shared_data)["attributes"].items():
            ((name, declaration),) = attribute["taxonomy"].items()
            kind = find("shoal.taxonomies.builders", TaxonomyBuilder, name, what="taxonomy")
            builder = kind.model_validate(declaration)
            values = table[column].unique()
            assert builder.build(values).encode(values).min() >= 0, column


def test_nursery(shared_data: Path) -> None:
    table = nursery(shared_data)
    assert table.shape == (12_960, 9)
    assert [len(table[name].unique()) for name in table.column_names] == [3, 5, 4, 4, 3, 2, 3, 3, 5]
    counts = {pair["values"]: pair["counts"] for pair in table["class"].value_counts().to_pylist()}
    assert counts == {
        "not_recom": 4_320,
        "priority": 4_266,
        "spec_prior": 4_044,
        "very_recom": 328,
        "recommend": 2,
    }
    assert all(column.type == pa.string() and column.null_count == 0 for column in table.columns)
    assert nursery(shared_data, columns=["class"]).column_names == ["class"]
    assert len(table.drop_columns("class").group_by(table.column_names[:8]).aggregate([])) == 12_960
