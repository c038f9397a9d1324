"""Parts of the verifier on their own: combinations, hashes, covers, boxes and matchings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.manifest import Attribute
from shoal.verify.boxes import NOBODY, SEVERAL, BoxTree, Spans
from shoal.verify.contents import Contents, common_type, fold_values, hash_texts
from shoal.verify.covers import CoverError, read_covers
from shoal.verify.numbering import Numbering, Tally


def attribute(kind: str, labels: dict[str, Any], **more: Any) -> Attribute:
    return Attribute(name="a", role="quasi", kind=kind, labels=labels, **more)


def covered(values: pa.Array, kind: str, cover: dict[str, Any], **more: Any) -> list[bool]:
    """Whether each value lies in the only label of an attribute; nulls are not asked for here."""
    covers = read_covers(attribute(kind, {"x": cover}, **more))
    codes = covers.places(values)
    return [any(low <= code < high for low, high in zip(covers.low, covers.high, strict=True)) for code in codes]


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=5, max_size=5), min_size=1, max_size=20))
def test_combinations_beyond_64_bits(rows: list[list[int]]):
    columns = list(np.array(rows, dtype=np.int64).T)
    numbering = Numbering(5)
    ids = numbering.ids(columns)
    assert numbering.tuples()[ids].tolist() == rows
    assert numbering.count == len({tuple(row) for row in rows})
    assert numbering.ids(columns).tolist() == ids.tolist()


def test_keys_keep_their_numbers_while_more_come():
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 2**64, size=30_000, dtype=np.uint64)
    numbering = Numbering(1)
    first = np.concatenate([numbering.ids([part]) for part in np.array_split(keys, 7)])
    distinct, expected = np.unique(keys, return_inverse=True)
    assert numbering.count == len(distinct)
    assert len(set(zip(first.tolist(), expected.tolist(), strict=True))) == len(distinct)
    assert (numbering.ids([keys]) == first).all()


def test_tally_over_several_batches():
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 40, size=1000).astype(np.uint64)
    tally = Tally()
    for part in np.array_split(keys, 33):
        tally.add(part)
    found, counts = tally.result()
    expected, expected_counts = np.unique(keys, return_counts=True)
    assert found.tolist() == expected.tolist()
    assert counts.tolist() == expected_counts.tolist()


def test_siphash_reference_vector():
    """SipHash-1-3 of the bytes 0..14 under the key 0..15, as computed step by step with Python integers."""
    message, key = bytes(range(15)), np.frombuffer(bytes(range(16)), dtype=np.uint64).copy()
    data = np.frombuffer(message, dtype=np.uint8).copy()
    found = np.empty(1, dtype=np.uint64)
    hash_texts(key, np.array([0, 15]), data, found)
    assert int(found[0]) == siphash(message, bytes(range(16)))


def siphash(message: bytes, key: bytes) -> int:
    mask = 2**64 - 1
    k0, k1 = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def turn(x: int, bits: int) -> int:
        return ((x << bits) | (x >> (64 - bits))) & mask

    def rounds(times: int) -> None:
        for _ in range(times):
            v[0] = (v[0] + v[1]) & mask
            v[1] = turn(v[1], 13) ^ v[0]
            v[0] = turn(v[0], 32)
            v[2] = (v[2] + v[3]) & mask
            v[3] = turn(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & mask
            v[3] = turn(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & mask
            v[1] = turn(v[1], 17) ^ v[2]
            v[2] = turn(v[2], 32)

    whole = len(message) // 8 * 8
    words = [int.from_bytes(message[i : i + 8], "little") for i in range(0, whole, 8)]
    words.append(int.from_bytes(message[whole:], "little") | (len(message) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        rounds(1)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(3)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_combining_words_depends_on_both_and_on_the_key():
    keys = [np.array([1, 2], dtype=np.uint64), np.array([1, 3], dtype=np.uint64)]
    words = [np.uint64(5), np.uint64(6)]
    found = set()
    for key in keys:
        for first in words:
            for second in words:
                rows = np.array([first], dtype=np.uint64)
                fold_values(key, rows, np.array([second], dtype=np.uint64))
                found.add(int(rows[0]))
    assert len(found) == 8


@pytest.mark.parametrize(
    ("cover", "expected"),
    [
        ({"from": 20, "below": 30}, [False, True, True, False, False]),
        ({"from": None, "below": 29.5}, [True, True, False, False, False]),
        ({"from": 29.5, "below": None}, [False, False, True, True, True]),
        ({"values": ["30", "19.0"]}, [True, False, False, True, False]),
        ({"missing": True}, [False] * 5),
        ({"any": True}, [True] * 5),
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_numbers(cover, expected, text):
    values = pa.array([19, 20, 29.5, 30, 1e9])
    if text:
        values = pa.array(["19", "20.0", " 29.50", "3e1", "1000000000"])
    assert covered(values, "number", cover) == expected


def test_texts_that_are_no_numbers_are_covered_by_any_only():
    texts = pa.array(["nan", "inf", "1_0", "ten", "0x10"])
    assert not any(covered(texts, "number", {"from": None, "below": None}))
    assert all(covered(texts, "number", {"any": True}))


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["2024-02-29", "2024-03-01", "2024-03-31T23:59:59", "2024-04-01", "soon"]),
        pa.array([19782, 19783, 19813, 19814, 0], type=pa.int32()).cast(pa.date32()),
        pa.array([19782, 19783, 19813, 19814, 0], type=pa.int32()).cast(pa.date32()).cast(pa.timestamp("ns")),
    ],
)
def test_dates(values):
    cover = {"from": "2024-03-01", "below": "2024-04-01"}
    assert covered(values, "date", cover) == [False, True, True, False, False]


def test_dates_in_another_format():
    values = pa.array(["31.03.2024", "01.04.2024", "2024-03-31"])
    cover = {"from": "2024-03-01", "below": "2024-04-01"}
    assert covered(values, "date", cover, format="%d.%m.%Y") == [True, False, False]


def test_prefixes():
    values = pa.array(["471", "47110", "4720", "470", "48", "", "471é"])
    assert covered(values, "prefix", {"prefixes": ["471"]}) == [True, True, False, False, False, False, True]
    assert covered(values, "prefix", {"values": ["471"]}) == [True, False, False, False, False, False, False]
    numbers = pa.array([47110, 7110, 7])
    assert covered(numbers, "prefix", {"prefixes": ["07", "00007"]}, length=5) == [False, True, True]


def test_categories_compare_numbers_and_truth_values_as_text():
    assert covered(pa.array([1, 2]), "category", {"values": ["2"]}) == [False, True]
    assert covered(pa.array([True, False]), "category", {"values": ["true"]}) == [True, False]


def test_an_end_that_is_no_date():
    with pytest.raises(CoverError, match="no date"):
        read_covers(attribute("date", {"x": {"from": "soon", "below": None}}))


@given(seed=st.integers(0, 2**32 - 1), n_classes=st.sampled_from([1, 3, 40, 400]), wide=st.booleans())
def test_boxes_against_brute_force(seed: int, n_classes: int, wide: bool):
    rng = np.random.default_rng(seed)
    values = [str(v) for v in range(30)]
    number_labels: dict[str, Any] = {"*": {"any": True}}
    text_labels: dict[str, Any] = {"*": {"any": True}, "?": {"missing": True}}
    for place in range(60):
        low = int(rng.integers(0, 50))
        number_labels[f"n{place}"] = {"from": low, "below": low + int(rng.integers(1, 40 if wide else 5))}
        some = rng.choice(values, size=int(rng.integers(1, 20 if wide else 3)), replace=False)
        text_labels[f"t{place}"] = {"values": some.tolist()} | ({"missing": True} if place % 7 == 0 else {})
    covers = [
        read_covers(Attribute(name="a", role="quasi", kind="number", labels=number_labels)),
        read_covers(Attribute(name="b", role="quasi", kind="category", labels=text_labels)),
    ]
    labels = np.stack([rng.integers(0, len(c.labels) + 1, size=n_classes) for c in covers], axis=1).astype(np.int32)
    tree = BoxTree.of(Spans.of(covers, labels))
    points = np.stack([rng.integers(0, c.width, size=300) for c in covers], axis=1).astype(np.int32)

    def inside(cover: Any, label: int, code: int) -> bool:
        if label == len(cover.labels):
            return False
        ranges = range(cover.start[label], cover.start[label + 1])
        return any(cover.low[r] <= code < cover.high[r] for r in ranges)

    table = [
        [[inside(cover, label, code) for code in range(cover.width)] for label in range(len(cover.labels) + 1)]
        for cover in covers
    ]
    truth = np.array([[table[0][a][x] and table[1][b][y] for a, b in labels] for x, y in points])
    found = tree.find(points)
    expected = np.where(truth.sum(axis=1) > 1, SEVERAL, np.where(truth.any(axis=1), truth.argmax(axis=1), NOBODY))
    assert found.tolist() == expected.tolist()
    totals = np.zeros(n_classes, dtype=np.int64)
    assert tree.count(points, totals).tolist() == truth.any(axis=1).tolist()
    assert totals.tolist() == truth.sum(axis=0).tolist()


def test_contents_compare_values_not_spelling():
    numbers = pa.record_batch({"x": pa.array([1.5, -0.0, None, 7.0])})
    texts = pa.record_batch({"x": pa.array(["1.50", "0", "", "7"])})
    others = pa.record_batch({"x": pa.array(["1.51", "1", "0", "seven"])})
    contents = Contents(["x"], [common_type(pa.string(), pa.float64())], [""])
    assert contents.hashes(numbers).tolist() == contents.hashes(texts).tolist()
    assert not (contents.hashes(numbers) == contents.hashes(others)).any()


def test_contents_of_text_are_spelling():
    contents = Contents(["x"], [common_type(pa.string(), pa.string())], ["", "?"])
    plain = contents.hashes(pa.record_batch({"x": pa.array(["1.5", "a", "?", None])}))
    coded = contents.hashes(pa.record_batch({"x": pa.array(["1.50", "a", None, ""]).dictionary_encode()}))
    assert (plain == coded).tolist() == [False, True, True, True]
    assert plain[2] == plain[3]


@pytest.mark.parametrize(
    ("published", "source", "expected"),
    [
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.date32(), pa.timestamp("ms"), pa.timestamp("us")),
        (pa.string(), pa.bool_(), pa.bool_()),
        (pa.dictionary(pa.int32(), pa.string()), pa.large_string(), pa.large_string()),
        (pa.bool_(), pa.float64(), pa.large_string()),
    ],
)
def test_common_types(published, source, expected):
    assert common_type(published, source) == expected
