"""One body over both engines: the same classes, the same promises, and nothing of the source but what is published."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.core.errors import InputError, VerificationError
from shoal.engines.spark import rewriting
from shoal.sources.spark.shipping import HeldPieces
from shoal.verify.result import Check, Verification
from shoal.verify.verifier import verify

METHODS = {
    "mondrian": {"method": {"mondrian": {}}},
    "incognito": {"method": {"incognito": {}}},
    "anatomy": {"method": {"anatomy": {}}, "privacy": [{"simple-l-diversity": {"l": 2}}]},
    "microaggregation": {"method": {"microaggregation": {}}, "privacy": [{"k-anonymity": {"k": 5}}]},
    "slicing": {"method": {"slicing": {"columns": 2}}, "privacy": [{"simple-l-diversity": {"l": 2}}]},
    "sweep": {"method": {"sweep": {}}},
    "hilbert": {"method": {"hilbert": {}}},
}
SAME_PLAN = ("mondrian", "incognito", "microaggregation")  # these draw nothing while they plan
LIKE_OTHERS = ("incognito", "hilbert", "slicing")  # they plan otherwise, and workers do the same with the plan
LABELS = ["age", "zip code", "sex"]


def table_of(data: Any) -> pa.Table:
    return data if isinstance(data, pa.Table) else data.toArrow()


def counted_rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize(
    "method",
    [pytest.param(name, marks=pytest.mark.thorough if name in LIKE_OTHERS else ()) for name in METHODS],
)
def test_a_release_comes_back_as_it_was_given_and_keeps_its_promises(
    method: str, people: pa.Table, frame: Any, policy
) -> None:
    release = shoal.anonymize(frame, policy(**METHODS[method]))
    assert isinstance(release.data, type(frame))
    assert release.verification.verified
    table = table_of(release.data)
    assert table.num_rows == release.manifest["rows"]
    assert "person" not in table.column_names
    if method not in ("anatomy", "slicing"):
        assert min(Counter(zip(*(table.column(name).to_pylist() for name in LABELS), strict=True)).values()) >= 5
    if method in SAME_PLAN:
        local = shoal.anonymize(people, policy(**METHODS[method]))
        assert table.schema.equals(local.data.schema)
        assert local.manifest == release.manifest
        assert counted_rows(local.data.select(LABELS)) == counted_rows(table.select(LABELS))
        carried = [name for name in table.column_names if name not in LABELS]
        assert counted_rows(local.data.select(carried)) == counted_rows(table.select(carried))


def test_a_cell_that_splits_over_classes_fills_every_quota(spark: Any, people: pa.Table, policy) -> None:
    alike = pa.concat_tables([people.slice(0, 40)] * 30)
    wanted = policy(method={"sweep": {}})
    release = shoal.anonymize(spark.createDataFrame(alike).repartition(5), wanted)
    assert release.verification.verified
    assert release.data.count() == release.manifest["rows"]


def test_the_rows_are_shuffled_and_a_seed_repeats_them(frame: Any, policy) -> None:
    first, second, other = (table_of(shoal.anonymize(frame, policy(), seed=seed).data) for seed in (1, 1, 2))
    assert first.equals(second)
    assert not first.equals(other)
    assert counted_rows(first.select(["illness"])) == counted_rows(other.select(["illness"]))
    people = table_of(frame).column("seen").to_pylist()
    assert first.column("seen").to_pylist() != people[: first.num_rows]


def test_the_released_frame_remembers_no_source(spark: Any, people: pa.Table, policy, tmp_path) -> None:
    pq.write_table(people, tmp_path / "hospital_of_origin.parquet")
    given = spark.read.parquet(str(tmp_path / "hospital_of_origin.parquet"))
    released = shoal.anonymize(given, policy()).data
    assert given.inputFiles()
    assert not released.inputFiles()
    assert "person" in given._jdf.queryExecution().toString()
    assert "person" not in released._jdf.queryExecution().toString()
    (tmp_path / "hospital_of_origin.parquet").unlink()
    assert released.count() == released.count() > 0


def test_the_command_publishes_files_with_the_digest_of_the_source(
    spark: Any, people: pa.Table, policy, tmp_path
) -> None:
    pq.write_table(people, tmp_path / "people.parquet")
    (tmp_path / "policy.json").write_text(json.dumps(policy()))
    where = [str(tmp_path / "people.parquet"), "-p", str(tmp_path / "policy.json"), "-o", str(tmp_path / "out")]
    answer = CliRunner().invoke(app, ["anonymize", *where, "--engine", "spark", "--json"])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["verified"] is True
    local = shoal.anonymize(where[0], policy(), out=tmp_path / "local")
    evidence, manifest = (
        json.loads((tmp_path / "out" / name).read_text()) for name in ("internal/evidence.json", "public/manifest.json")
    )
    assert evidence["source"] == local.evidence["source"]
    assert manifest["attributes"] == local.manifest["attributes"]
    assert verify(tmp_path / "out", source=shoal.open_source(where[0])).verified
    footer = pq.ParquetFile(tmp_path / "out" / "public" / "data.parquet").metadata
    assert footer.metadata is None
    assert "park" not in footer.created_by
    refused = CliRunner().invoke(app, ["anonymize", *where[:-1], str(tmp_path / "other"), "--master", "local[2]"])
    assert refused.exit_code == 2
    assert "for the Spark engine" in refused.stderr


def test_nothing_comes_back_that_the_verifier_does_not_accept(frame: Any, policy, monkeypatch) -> None:
    from shoal.verify import verifier

    refused = Verification((Check("truth", False, "no"),), ())
    monkeypatch.setattr(verifier, "verify_table", lambda *_, **__: refused)
    with pytest.raises(VerificationError, match="was not published"):
        shoal.anonymize(frame, policy())


def test_rows_that_get_lost_on_the_way_are_noticed(frame: Any, policy, monkeypatch) -> None:
    keep = rewriting.keep
    monkeypatch.setattr(rewriting, "keep", lambda rows: keep(rows.limit(7)))
    with pytest.raises(InputError, match="nothing was published"):
        shoal.anonymize(frame, policy())


def test_cells_that_get_lost_on_the_way_are_noticed(frame: Any, policy, monkeypatch, tmp_path) -> None:
    batches = HeldPieces.batches
    monkeypatch.setattr(HeldPieces, "batches", lambda pieces: list(batches(pieces))[1:])
    with pytest.raises(InputError, match="nothing was published"):
        shoal.anonymize(frame, policy(), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_example_of_the_guide_runs(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    guide = Path(__file__).parents[3] / "docs" / "spark.md"
    (block,) = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "spark.md", "exec"), names)
    assert names["release"].verification.verified
    assert "illness" in capsys.readouterr().out
