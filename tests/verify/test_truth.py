"""The witness and what is asked of it: numbers of classes, rows under their labels, sums of contents.

All tests are plain functions: ``tests/mutants/run.py`` calls them again and again on changed code.
"""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.core.arrays import IntArray, KeyArray
from shoal.core.errors import InputError
from shoal.manifest import Attribute
from shoal.sources.opening import open_source
from shoal.verify import truth
from shoal.verify.contents import RowSums
from shoal.verify.covers import read_covers
from shoal.verify.manifest import Manifest, read_manifest
from shoal.verify.truth import ClassNumbers, ProjectedWitness, Witness

KEY = np.array([17, 4], dtype=np.uint64)
AGES = {"young": {"from": 0, "below": 30}, "old": {"from": 30, "below": None}, "*": {"any": True}}
TOWNS = {"north": {"values": ["Kiel", "Emden"]}, "Ulm": {"values": ["Ulm"]}, "ends": {"values": ["Kiel", "Ulm"]}}


def manifest_of(**changes: Any) -> Manifest:
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
    return read_manifest({"parts": [list(written["attributes"])], **written}, with_file=False)


def written(folder: str, columns: dict[str, Any], rows: int = 3) -> Path:
    path = Path(folder) / "witness.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=rows)
    return path


def numbers(found: Any) -> Any:
    return found if isinstance(found, str) else found.tolist()


def test_a_witness_in_memory_tells_any_rows() -> None:
    for given in (np.array([1, 0, 2, 3]), np.array([[1, 0, 2, 3]], dtype=np.int32)):
        witness = Witness(given, "class")
        assert (witness.n_rows, witness.n_columns) == (4, 1)
        for begin in range(5):
            for rows in range(5 - begin):
                assert numbers(witness.read(begin, rows)) == [[1, 0, 2, 3][begin : begin + rows]]
            assert "fewer rows" in str(witness.read(begin, 5 - begin))
    wide = Witness(np.array([[1, 0], [5, 0]]), "class")
    assert (wide.n_rows, wide.n_columns, numbers(wide.read(0, 2))) == (2, 2, [[1, 0], [5, 0]])


def test_a_witness_in_a_file_is_read_by_row_groups() -> None:
    every = list(range(1, 11))
    with tempfile.TemporaryDirectory() as folder:
        witness = Witness(written(folder, {"class": pa.array(every, pa.int32())}), "class")
        assert (witness.n_rows, witness.n_columns) == (10, 1)
        for begin, rows in product(range(11), range(11)):
            if begin + rows <= 10:
                assert numbers(witness.read(begin, rows)) == [every[begin : begin + rows]]
            else:
                assert "fewer rows" in str(witness.read(begin, rows))
        for begin in range(10):  # whichever row group is asked for first
            anew = Witness(written(folder, {"class": every}), "class")
            assert numbers(anew.read(begin, 1)) == [[every[begin]]]
        both = Witness(written(folder, {"class": every, "class 2": every[::-1]}), "class")
        assert (both.n_columns, numbers(both.read(2, 2))) == (2, [[3, 4], [8, 7]])


def test_files_that_are_no_witness_are_refused() -> None:
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
        assert numbers(gap.read(0, 3)) == [[1, 2, 3]]
        assert "cannot be read" in str(gap.read(2, 2))
        path = written(folder, {"class": [1, 2]})
        gone = Witness(path, "class")
        path.unlink()
        assert "cannot be read (FileNotFoundError)" in str(gone.read(0, 1))


def test_class_numbers_say_all_labels() -> None:
    for sizes in ([], [1], [3], [2, 5], [3, 3, 3], [1, 2, 3, 4]):
        of_class = ClassNumbers(sizes)
        every = list(product(*(range(size + 2) for size in sizes)))
        labels = np.array(every, dtype=np.int32).T.reshape(len(sizes), len(every))
        packed = of_class.pack(labels) if sizes else of_class.pack(labels, 1)
        assert of_class.n_columns == 1
        assert packed.tolist() == [list(range(1, packed.shape[1] + 1))]
        for place in range(len(sizes)):
            assert of_class.labels(packed, place).tolist() == labels[place].tolist()
        assert of_class.hold(packed)
        assert of_class.hold(np.zeros((1, 2), dtype=np.int64))
        assert not of_class.hold(np.array([[packed.shape[1] + 1]]))
        assert not of_class.hold(np.array([[-1]]))


def test_class_numbers_of_many_labels_take_several_columns() -> None:
    rng = np.random.default_rng(1)
    for sizes, columns in (
        ([2**31 - 2] * 2, 2),
        ([2**31 - 2, 2**30 - 2], 1),
        ([2**30 - 2] * 5, 3),
        ([2**20 - 2] * 7, 3),
    ):
        of_class = ClassNumbers(sizes)
        labels = np.array([rng.integers(0, size + 2, 50) for size in sizes], dtype=np.int32)
        labels[:, 0], labels[:, 1] = 0, [size + 1 for size in sizes]
        packed = of_class.pack(labels)
        assert (of_class.n_columns, packed.shape) == (columns, (columns, 50))
        assert packed.min() >= 1
        for place in range(len(sizes)):
            assert of_class.labels(packed, place).tolist() == labels[place].tolist()
        assert of_class.hold(packed)
        if columns > 1:
            partly = packed.copy()
            partly[1, 3] = 0
            assert not of_class.hold(partly)
            partly[:, 3] = 0
            assert of_class.hold(partly)


def test_classes_of_a_manifest_are_numbered_by_its_labels() -> None:
    of_class = ClassNumbers.of(manifest_of())
    assert of_class.pack(np.array([[1], [2]], dtype=np.int32)).tolist() == [[1 + 1 * 5 + 2]]
    assert not of_class.hold(np.array([[26]]))
    assert of_class.hold(np.array([[25]]))


def test_a_witness_is_projected_to_fewer_attributes() -> None:
    manifest = manifest_of()
    other = manifest_of(attributes={name: one for name, one in _written(manifest).items() if name != "age"})
    own, theirs = ClassNumbers.of(manifest), ClassNumbers.of(other)
    labels = np.array([[0, 1, 2], [2, 0, 1]], dtype=np.int32)
    given = own.pack(labels)
    given[:, 1] = 0
    found = ProjectedWitness(Witness(given, "class"), manifest, other)
    wanted = theirs.pack(labels[1:])
    wanted[:, 1] = 0
    assert (found.n_rows, found.n_columns, numbers(found.read(0, 3))) == (3, 1, wanted.tolist())
    assert numbers(found.read(1, 2)) == wanted[:, 1:].tolist()
    for wrong in (np.array([26, 1]), np.array([-1, 1]), np.array([[1, 1], [1, 1]])):
        assert "does not fit" in str(ProjectedWitness(Witness(wrong, "class"), manifest, other).read(0, 2))
    assert "does not fit" in str(found.read(0, 4))


def _written(manifest: Manifest) -> dict[str, Any]:
    return {one.name: one.model_dump(exclude={"name"}, exclude_none=True) for one in manifest.attributes}


def _sum_classes(key: KeyArray, hashes: KeyArray, numbers: IntArray) -> RowSums:
    return RowSums.of(key, truth.hash_classes(key, hashes, numbers))


def test_sums_tell_classes_and_contents() -> None:
    hashes = np.array([5, 6, 5], dtype=np.uint64)
    classes = np.array([[1, 2, 2]])
    sums = _sum_classes(KEY, hashes, classes)
    assert sums.rows == 3
    order = [2, 0, 1]
    assert _sum_classes(KEY, hashes[order], classes[:, order]) == sums
    assert _sum_classes(KEY, hashes, np.array([[2, 1, 2]])) != sums
    assert _sum_classes(KEY, np.array([5, 6, 6], dtype=np.uint64), classes) != sums
    assert _sum_classes(KEY, hashes[:2], classes[:, :2]) != sums
    both = _sum_classes(KEY, hashes, np.array([[1, 2, 2], [1, 1, 1]]))
    assert both != sums
    assert both != _sum_classes(KEY, hashes, np.array([[1, 1, 1], [1, 2, 2]]))
    assert hashes.tolist() == [5, 6, 5]
    parts = _sum_classes(KEY, hashes[:1], classes[:, :1]) + _sum_classes(KEY, hashes[1:], classes[:, 1:])
    assert parts == sums


def test_rows_lie_under_the_labels_of_their_classes() -> None:
    """Compared with the covers as they are written, for every value under every label, missing ones included."""
    ages = read_covers(Attribute(name="age", role="quasi", kind="number", labels={**AGES, "none": {"missing": True}}))
    towns = read_covers(Attribute(name="town", role="quasi", kind="category", labels=TOWNS))
    under_age = {"young": {5, 29}, "old": {30, 99}, "*": {5, 29, 30, 99, None}, "none": {None}}
    under_town = {label: set(cover["values"]) for label, cover in TOWNS.items()}
    values = list(product((5, 29, 30, 99, None), ("Kiel", "Emden", "Ulm", "Rom", None)))
    points = np.empty((len(values), 2), dtype=np.int32)
    for row, (age, town) in enumerate(values):
        points[row, 0] = ages.missing if age is None else ages.places(pa.array([age]))[0]
        points[row, 1] = towns.missing if town is None else towns.places(pa.array([town]))[0]
    of_class = ClassNumbers([4, 3])
    for (first, age_label), (second, town_label) in product(enumerate(ages.labels), enumerate(towns.labels)):
        labels = np.repeat(np.array([[first], [second]], dtype=np.int32), len(values), axis=1)
        found = truth.count_uncovered(of_class.pack(labels), of_class, points, [(0, ages), (1, towns)])
        wrong = [a not in under_age[str(age_label)] or t not in under_town[str(town_label)] for a, t in values]
        assert found == sum(wrong), (age_label, town_label)
        alone = truth.count_uncovered(of_class.pack(labels), of_class, points[:, 1:], [(1, towns)])
        assert alone == sum(t not in under_town[str(town_label)] for _, t in values)
        for row, off in enumerate(wrong):
            one = of_class.pack(labels[:, :1])
            assert truth.count_uncovered(one, of_class, points[row : row + 1], [(0, ages), (1, towns)]) == off
    # Texts that are no labels cover nothing, nor do missing values where there is no label for them.
    for strange in (4, 5):
        labels = np.full((2, len(values)), strange, dtype=np.int32)
        labels[1] = 0
        assert truth.count_uncovered(of_class.pack(labels), of_class, points[:, :1], [(0, ages)]) == len(values)


def test_contents_are_the_columns_that_must_be_equal() -> None:
    published = pa.schema([("age", pa.string()), ("town", pa.string()), ("ill", pa.string()), ("cost", pa.float64())])
    table = pa.table({"age": [1], "town": ["Ulm"], "ill": ["flu"], "cost": pa.array([2], pa.int64())})
    found = truth.contents_for(manifest_of(), published, open_source(table))
    assert found.columns == ("ill", "cost")
    assert found.kind_of("cost") == pa.float64()
    with pytest.raises(InputError, match="lacks 2 columns of the release: town, cost"):
        truth.contents_for(manifest_of(), published, open_source(table.drop_columns(["town", "cost"])))
    noisy = manifest_of(techniques={"cost": {"technique": "permutation", "within": []}})
    assert truth.contents_for(noisy, published, open_source(table)).columns == ("ill",)


def test_values_under_sensitive_labels_must_occur() -> None:
    labels = {"germs": {"values": ["flu", "hiv"]}, "gout": {"values": ["gout"]}}
    sensitive = read_covers(Attribute(name="ill", role="sensitive", kind="category", labels=labels))
    quasi = read_covers(Attribute(name="town", role="quasi", kind="category", labels=TOWNS))
    met = np.ones(sensitive.width, dtype=np.bool_)
    (fine,) = truth.check_values([quasi, sensitive], [np.zeros(quasi.width, dtype=np.bool_), met])
    assert (fine.name, fine.ok, fine.detail) == ("values", True, "all values that labels of ill cover occur")
    met[sensitive.places(pa.array(["hiv"]))] = False
    (wrong,) = truth.check_values([sensitive], [met])
    assert (wrong.ok, wrong.detail) == (False, "labels of ill cover 1 value that no source row has")


def test_what_is_said_of_true_and_false_rows() -> None:
    assert truth.judge_truth(manifest_of()).detail == "every published row covers a source row of its own"
    assert truth.judge_truth(manifest_of()).ok
    false = truth.judge_truth(manifest_of(), 3)
    assert (false.name, false.ok) == ("truth", False)
    assert false.detail == "3 published rows cover no source row of their own"
    noisy = manifest_of(techniques={"cost": {"technique": "permutation", "within": []}})
    assert truth.judge_truth(noisy).detail.endswith("of its own, by the 3 columns that follow from the source")
    assert truth.judge_truth(noisy, 1).detail.endswith("of their own, by the 3 columns that follow from the source")
    alone = {"cost": {"role": "insensitive", "kind": "number"}}
    moved = {"cost": {"technique": "permutation", "within": []}}
    nothing = manifest_of(attributes=alone, techniques=moved, method="plain", guarantees=[])
    assert (truth.judge_truth(nothing).ok, "no column follows" in truth.judge_truth(nothing).detail) == (True, True)
