"""The witness and its check: numbers of classes, rows under their labels, fingerprints of classes and contents.

All tests are plain functions: ``tests/mutants/run.py`` calls them again and again on changed code.
"""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.core.arrays import IntArray
from shoal.sources.opening import open_source
from shoal.verify import truth
from shoal.verify.counting import ClassNumbers
from shoal.verify.covers import count_uncovered, put_covers
from shoal.verify.engine import Engine
from shoal.verify.manifest import Manifest, read_manifest
from shoal.verify.result import Check
from shoal.verify.rows import SourceRows, Witness
from shoal.verify.verifier import verify_table

ENGINE = Engine()
ENGINE.run("SET VARIABLE salt = 'a salt'")
AGES = {"young": {"from": 0, "below": 30}, "old": {"from": 30, "below": None}, "*": {"any": True}}
TOWNS = {
    "north": {"values": ["Kiel", "Emden"]},
    "Ulm": {"values": ["Ulm"]},
    "ends": {"values": ["Kiel", "Ulm", "Emden"]},
}


def manifest_of(**changes: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "age": {"role": "quasi", "kind": "number", "labels": AGES},
        "town": {"role": "quasi", "kind": "category", "labels": TOWNS},
        "ill": {"role": "sensitive", "kind": "category"},
        "cost": {"role": "insensitive", "kind": "number"},
    }
    written = {
        "format": 1,
        "shoal_version": "0",
        "method": "mondrian",
        "method_parameters": {},
        "guarantees": [{"model": "k-anonymity", "parameters": {"k": 1}, "achieved": 1.0}],
        "rows": 4,
        "withheld": 0,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": attributes,
        **changes,
    }
    return {"parts": [list(written["attributes"])], **written}


def read(**changes: Any) -> Manifest:
    return read_manifest(manifest_of(**changes), with_file=False)


def written(folder: str, columns: dict[str, Any], rows: int = 3) -> Path:
    path = Path(folder) / "witness.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=rows)
    return path


def test_a_witness_has_the_numbers_of_all_rows() -> None:
    for given in (np.array([1, 0, 2, 3]), np.array([[1, 0, 2, 3]], dtype=np.int32)):
        witness = Witness(given, "class")
        assert (witness.n_rows, witness.n_columns, [one.tolist() for one in witness.read()]) == (4, 1, [[[1, 0, 2, 3]]])
    wide = Witness(np.array([[1, 0], [5, 0]]), "class")
    assert (wide.n_rows, wide.n_columns, next(wide.read()).tolist()) == (2, 2, [[1, 0], [5, 0]])
    every = list(range(1, 11))
    with tempfile.TemporaryDirectory() as folder:
        both = Witness(written(folder, {"class": pa.array(every, pa.int32()), "class 2": every[::-1]}), "class")
        assert (both.n_rows, both.n_columns) == (10, 2)
        assert np.concatenate(list(both.read()), axis=1).tolist() == [every, every[::-1]]


class Uneven:
    """A source of 1,000 rows in batches of several sizes."""

    name, n_rows = "uneven", 1000
    schema = pa.schema([(name, pa.int64()) for name in ("age", "town", "ill", "cost")])

    def batches(self, columns: Sequence[str], *, dictionary: Sequence[str] = ()) -> Any:
        ends = np.cumsum([0, 63, 2, 0, 500, 435])
        for begin, end in pairwise(ends):
            yield pa.record_batch({name: pa.array(range(begin, end)) for name in columns})


def test_numbers_of_a_witness_stay_beside_their_rows() -> None:
    numbers, found = np.arange(1000) % 7, "SELECT t4, w1, row FROM source"
    with tempfile.TemporaryDirectory() as folder:
        in_file = Witness(written(folder, {"class": numbers}, rows=64), "class")
        for witness in (in_file, Witness(numbers, "class")):
            rows = SourceRows(ENGINE, read(), Uneven(), witness)  # type: ignore[arg-type]
            with rows.reading(["cost"]):
                assert sorted(ENGINE.fetch(found)) == [(at, at % 7, at) for at in range(1000)]
        for n, fault in ((999, "fewer rows"), (1001, "more rows")):
            rows = SourceRows(ENGINE, read(), Uneven(), Witness(np.ones(n), "class"))  # type: ignore[arg-type]
            with pytest.raises(ValueError, match=fault), rows.reading(["cost"]):
                ENGINE.fetch(found)


def test_files_that_are_not_a_witness_are_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for columns in (
            {"bucket": [1]},
            {"class": ["1"]},
            {"class": [1.0]},
            {"class": [1], "note": [1]},
            {"class 2": [1]},
        ):
            with pytest.raises(ValueError, match="not columns of whole numbers"):
                Witness(written(folder, columns), "class")
        gap = Witness(written(folder, {"class": [1, 2, 3, None]}), "class")
        with pytest.raises(ValueError, match="lacks numbers"):
            list(gap.read())


def pack(sizes: Sequence[int], labels: IntArray) -> tuple[list[list[int]], list[list[int]]]:
    """Return (n_columns, n) the numbers of classes, and (n_attributes, n) the labels that are read from them again."""
    of_class = ClassNumbers(sizes)
    columns = {f"d{place}": own for place, own in enumerate(labels)}
    ENGINE.put("digits", {"row": np.arange(labels.shape[1]), **columns})
    own = of_class.pack([f"d{place}" for place in range(len(labels))])
    packed = ", ".join(f"({number})::BIGINT AS w{place}" for place, number in enumerate(own))
    ENGINE.make("packed", f"SELECT row, {packed} FROM digits")
    unpacked = [of_class.unpack(place, [f"w{n}" for n in range(len(own))]) for place in range(len(labels))]
    found = ENGINE.fetch(
        f"SELECT {', '.join([*(f'w{n}' for n in range(len(own))), *unpacked])} FROM packed ORDER BY row"
    )
    turned = [list(column) for column in zip(*found, strict=True)]
    assert all(min(numbers) >= 1 and max(numbers) <= top for numbers, top in zip(turned, of_class.bounds, strict=False))
    return turned[: len(own)], turned[len(own) :]


def test_columns_are_compared_in_the_type_that_both_can_have() -> None:
    for types, wanted in (
        (("VARCHAR", "VARCHAR"), "VARCHAR"),
        (("VARCHAR", "BIGINT"), "HUGEINT"),
        (("TINYINT", "UBIGINT"), "HUGEINT"),
        (("BIGINT", "DOUBLE"), "DOUBLE"),
        (("FLOAT", "VARCHAR"), "FLOAT"),
        (("FLOAT", "DOUBLE"), "DOUBLE"),
        (("DATE", "VARCHAR"), "DATE"),
        (("DATE", "TIMESTAMP_S"), "TIMESTAMP"),
        (("TIMESTAMP_NS", "DATE"), "TIMESTAMP_NS"),
        (("BOOLEAN", "VARCHAR"), "BOOLEAN"),
        (("BOOLEAN", "BIGINT"), "VARCHAR"),
        (("DATE", "BIGINT"), "VARCHAR"),
        (("DECIMAL(5,2)", "VARCHAR"), "VARCHAR"),
        (("TIME", "TIME_NS"), "TIME_NS"),
    ):
        assert truth.find_type(*types) == truth.find_type(*types[::-1]) == wanted, types


def test_equal_values_have_the_same_word_however_they_are_stored() -> None:
    def words(values: pa.Array, kind: str, column: int = 1) -> list[int]:
        ENGINE.put("given_values", {"v": values})
        return [word for (word,) in ENGINE.fetch(f"SELECT {truth.write_word(column, 'v', kind)} FROM given_values")]

    day = datetime.date(2024, 2, 29)
    for values, texts, kind in (
        (pa.array([7, -3, 0, None]), ["7", "-3", "0", None], "HUGEINT"),
        (pa.array([0.1, 2.0, 1e20, None]), ["0.1", "2", "1e+20", None], "DOUBLE"),
        (pa.array([0.0, -0.0, 1.5]), ["-0.0", "0", "1.50"], "DOUBLE"),
        (pa.array([0.1, 2.5], pa.float32()), ["0.1", "2.5"], "FLOAT"),
        (pa.array([day, None]), ["2024-02-29", None], "DATE"),
        (pa.array([True, False]), ["true", "false"], "BOOLEAN"),
        (pa.array(["a", ""]), ["a", ""], "VARCHAR"),
        (pa.array([Decimal("1.50")]), ["1.50"], "VARCHAR"),
        (pa.array([2**53 + 1, 2**53]), [str(2**53 + 1), str(2**53)], "HUGEINT"),
    ):
        own = words(values, kind)
        assert own == words(pa.array(texts, pa.string()), kind), kind
        present = [
            word for word, text in zip(own, texts, strict=True) if text is not None and text not in ("-0.0", "0")
        ]
        assert len(set(present)) == len(present)
        assert all((word == 0) == (text is None) for word, text in zip(own, texts, strict=True))
        assert words(values, kind, 2)[0] != own[0]
    assert words(pa.array(["x", "y"]), "HUGEINT") == words(pa.array(["x", "y"]), "VARCHAR")  # of a text, its own


def test_fingerprints_differ_by_class_and_contents() -> None:
    rows = {"a": [1, 1, 2, 1], "b": [1, 2, 1, 1], "x": [5, 5, 5, 6]}
    ENGINE.put("given_rows", rows)
    for numbers in (["a"], ["a", "b"]):
        found = ENGINE.fetch(f"SELECT {truth.write_print(numbers, ['x'])} FROM given_rows")
        assert len(set(found)) == len({tuple(rows[name][n] for name in [*numbers, "x"]) for n in range(4)})
    turned = [
        ENGINE.fetch(f"SELECT {truth.write_print(names, [])} FROM given_rows")[1] for names in (["a", "b"], ["b", "a"])
    ]
    assert turned[0] != turned[1]
    before = ENGINE.fetch(f"SELECT {truth.write_print(['a'], ['x'])} FROM given_rows")
    ENGINE.run("SET VARIABLE salt = 'another salt'")
    assert before != ENGINE.fetch(f"SELECT {truth.write_print(['a'], ['x'])} FROM given_rows")
    ENGINE.run("SET VARIABLE salt = 'a salt'")


def test_rows_are_under_the_labels_of_their_classes() -> None:
    """Compared with the covers as they are written, for every value under every label, missing ones included."""
    ages = {**AGES, "none": {"missing": True}}
    under = {
        "age": [{5, 29}, {30, 99}, {5, 29, 30, 99, None}, {None}],
        "town": [set(c["values"]) for c in TOWNS.values()],
    }
    manifest = read(
        attributes={**manifest_of()["attributes"], "age": {**manifest_of()["attributes"]["age"], "labels": ages}}
    )
    values: dict[str, list[Any]] = {"age": [5, 29, 30, 99, None], "town": ["Kiel", "Emden", "Ulm", "Rom", None]}
    kinds = {"age": pa.int64(), "town": pa.string()}
    with Engine() as engine:
        put_covers(engine, manifest)
        for name, own in under.items():
            total = 0
            for number, value in product(range(len(own) + 1), values[name]):
                engine.put("pair_rows", {"number": [number], "v": pa.array([value], kinds[name])})
                wrong = number == len(own) or value not in own[number]
                found = count_uncovered(engine, manifest, {name: "pair_rows"}, kinds)
                assert found == ({name: 1} if wrong else {}), (name, number, value)
                total += wrong
            pairs = list(product(range(len(own) + 1), values[name]))
            given = {"number": [n for n, _ in pairs] * 2, "v": pa.array([v for _, v in pairs] * 2, kinds[name])}
            engine.put("pair_rows", given)
            assert count_uncovered(engine, manifest, {name: "pair_rows"}, kinds) == {name: total}
        assert count_uncovered(engine, manifest, {}, kinds) == {}


SOURCE = pa.table(
    {
        "age": [5, 40, 29, 31],
        "town": ["Kiel", "Ulm", "Ulm", "Emden"],
        "ill": ["flu", "gout", "", "flu"],
        "cost": [1, 2, 3, 4],
    }
)
PUBLISHED = pa.table(
    {
        "age": ["young", "old", "*", "old"],
        "town": ["north", "ends", "Ulm", "north"],
        "ill": ["flu", "gout", None, "flu"],
        "cost": [1.0, 2.0, 3.0, 4.0],
    }
)
WITNESS = np.array([1 + 0 * 5 + 0, 1 + 1 * 5 + 2, 1 + 2 * 5 + 1, 1 + 1 * 5 + 0])


def compare(
    published: pa.Table = PUBLISHED, witness: Any = WITNESS, source: pa.Table = SOURCE, **changes: Any
) -> dict[str, Check]:
    """Return the failed and the undone checks, and truth."""
    found = verify_table(published, manifest_of(**changes), source=open_source(source), witness=witness)
    return {check.name: check for check in found.checks if not (check.ok and check.done) or check.name == "truth"}


def test_true_rows_in_any_order() -> None:
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        found = compare(PUBLISHED.take(pa.array(order)))
        assert found["truth"].ok
        assert found["truth"].detail == "every published row covers its own source row"
        assert all(check.ok for check in found.values())


def test_rows_that_are_not_those_of_their_classes() -> None:
    swapped = PUBLISHED.set_column(3, "cost", pa.array([2.0, 1.0, 3.0, 4.0]))
    wrong = "the 4 published rows are not the 4 source rows of their classes, by their values of ill, cost"
    assert compare(swapped)["truth"].detail == wrong
    assert not compare(swapped)["truth"].ok
    assert not compare(PUBLISHED.set_column(2, "ill", pa.array(["flu", "gout", "flu", None])))["truth"].ok
    assert not compare(PUBLISHED.set_column(0, "age", pa.array(["young", "old", "young", "*"])))["truth"].ok
    noisy = {"cost": {"technique": "permutation", "within": []}}
    assert truth.report_truth(read(techniques=noisy)).detail.endswith("by the 3 columns that follow from the source")
    fewer = compare(PUBLISHED.slice(1), np.append(0, WITNESS[1:]), rows=3)
    assert fewer["source counts"].detail == "3 published + 0 withheld + 0 dropped is not the source's 4 rows"
    assert fewer["truth"].ok
    assert "truth" in compare(PUBLISHED.slice(1), np.append(0, WITNESS[1:]), rows=3, withheld=1)


def test_values_outside_their_labels() -> None:
    wrong = WITNESS.copy()
    wrong[0] = 1 + 1 * 5 + 0  # 5 is not old
    old = PUBLISHED.set_column(0, "age", pa.array(["old", "old", "*", "old"]))
    labels = {"age": {"role": "quasi", "kind": "number", "labels": {"old": AGES["old"], "*": AGES["*"]}}}
    shifted = np.array([1 + 0 * 5 + 0, 1 + 0 * 5 + 2, 1 + 1 * 5 + 1, 1 + 0 * 5 + 0])
    attributes = {**manifest_of()["attributes"], **labels}
    found = compare(old, shifted, attributes=attributes)["truth"]
    assert found.detail == "1 pair of source value and label do not fit, in age, by the witness"
    assert not found.ok
    assert not compare(witness=wrong)["truth"].ok


def test_a_witness_that_does_not_fit() -> None:
    for wrong, why in (
        (WITNESS[:3], "the witness has fewer rows than the source"),
        (np.append(WITNESS, 1), "the witness has more rows than the source"),
        (np.stack([WITNESS, WITNESS]), "the witness has classes that the release cannot have"),
        (np.append(WITNESS[:3], 26), "the witness has classes that the release cannot have"),
        (np.append(WITNESS[:3], -1), "the witness has classes that the release cannot have"),
    ):
        found = compare(witness=wrong)
        assert not found["witness"].ok
        assert found["witness"].detail.startswith(why)
        assert not found["truth"].ok


def test_rows_that_lack_a_value_are_in_no_class() -> None:
    dropping = {"policy": "drop", "tokens": [""], "dropped": 1}
    ill = pa.array(["flu", "gout", "flu"])
    kept = PUBLISHED.take(pa.array([0, 1, 3])).set_column(2, "ill", ill)
    labels = {**manifest_of()["attributes"]}
    labels["age"] = {**labels["age"], "labels": {name: AGES[name] for name in ("young", "old")}}
    labels["town"] = {**labels["town"], "labels": {name: TOWNS[name] for name in ("north", "ends")}}
    witness = np.array([1, 1 + 1 * 4 + 1, 0, 1 + 1 * 4])
    given = {"rows": 3, "missing": dropping, "attributes": labels}
    assert compare(kept, witness, **given)["truth"].ok
    inside = compare(kept, np.append(witness[:2], [1, 0]), **given)["truth"]
    assert inside.detail == "the witness puts 1 source row that lack a value and were dropped into classes"


def test_values_under_sensitive_labels_must_occur() -> None:
    attributes = {**manifest_of()["attributes"]}
    attributes["ill"] = {
        **attributes["ill"],
        "labels": {"germs": {"values": ["flu", "hiv"]}, "gout": {"values": ["gout"]}},
    }
    table = PUBLISHED.set_column(2, "ill", pa.array(["germs", "gout", None, "germs"]))
    every = ClassNumbers([3, 3, 2])
    digits = [(0, 0, 0), (1, 2, 1), (2, 1, 2), (1, 0, 0)]
    witness = np.array([eval(every.pack([str(digit) for digit in own])[0]) for own in digits])
    found = compare(table, witness, method="sweep", attributes=attributes)
    assert found["truth"].ok
    assert found["values"].detail == "labels of ill cover 1 value that no source row has"
    attributes["ill"]["labels"]["germs"]["values"] = ["flu"]
    assert "values" not in compare(table, witness, method="sweep", attributes=attributes)
