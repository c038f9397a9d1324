"""Identifiers by content: forms, check digits, and what yields to the name of a column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from shoal.policy.drafting import draft_policy
from shoal.policy.identifying import check_iban, check_iso_7064, check_luhn, check_weights, look_at
from shoal.policy.profiling import ColumnProfile

BSN = (9, 8, 7, 6, 5, 4, 3, 2, -1)


def look(values, name="x"):
    column = ColumnProfile(name, pa.array(values).type)
    column.see(pa.array(values))
    return look_at(column)


def shown(values, name="x"):
    found = look(values, name)
    return None if found is None else found.what


def passing(check, n_digits, n=60, seed=1):
    """Whole numbers of so many digits that satisfy a check."""
    drawn = np.random.default_rng(seed).integers(10 ** (n_digits - 1), 10**n_digits, 20_000)
    return [text for text in map(str, drawn) if check(text)][:n]


@pytest.mark.parametrize(
    ("check", "n_digits"),
    [(check_luhn, 16), (check_iso_7064, 11), (lambda text: check_weights(text, BSN, 11), 9)],
    ids=["luhn", "iso-7064", "bsn"],
)
def test_a_changed_digit_is_found(check, n_digits):
    for text in passing(check, n_digits, 20):
        for place in range(n_digits):
            changed = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
            assert not check(changed)


def test_published_examples():
    assert check_iban("DE89370400440532013000")
    assert check_luhn("4111111111111111")
    assert check_iso_7064("86095742719")


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ([f"192.168.{i}.{j}" for i in range(5) for j in range(8)], "IP addresses"),
        ([f"12:{i:02d}:30" for i in range(40)], None),  # times
        ([f"1.{i}.0" for i in range(40)], None),  # versions
        ([f"{i:03d}-45-6789" for i in range(100, 140)], "social security numbers"),
        ([f"{i:03d}-45-6789" for i in range(900, 940)], None),
        ([f"0151 {2345670 + i}" for i in range(40)], "telephone numbers"),
        ([f"{i}.5" for i in range(40)], None),
        ([f"scan_{i}.dcm" for i in range(40)], "file names"),
        ([f"a{i}@example.org" for i in range(40)] + ["none"] * 3, "e-mail addresses"),
        ([f"a{i}@example.org" for i in range(40)] + [f"none {i}" for i in range(20)], None),  # a third is not
        ([f"a{i}@example.org" for i in range(8)], None),  # too few to say
        (["red", "green", "blue", "black", "white", "grey", "pink", "brown", "gold", "teal", "navy", "lime"], None),
        ([f"Class {c}" for c in "ABCDEFGHIJKLMN"], None),
    ],
)
def test_forms(values, what):
    assert shown(values) == what


def test_numbers_without_the_check_digit_are_numbers():
    drawn = np.random.default_rng(2).integers(10**8, 10**9, 300)
    assert shown([str(number) for number in drawn]) is None
    assert shown(passing(lambda text: check_weights(text, BSN, 11), 9)) == "Dutch citizen service numbers (BSN)"


def test_evidence_is_in_the_draft_and_in_json():
    people = pa.table({"c1": [f"a{i}@example.org" for i in range(60)], "age": [20 + i % 40 for i in range(60)]})
    draft = draft_policy(people)
    mail = draft.as_dict()["columns"][0]
    assert mail["role"] == "identifier"
    assert mail["evidence"] == {"looks_like": "e-mail addresses", "share": 1.0, "sampled": 60}
    assert "100% of 60 sampled values look like e-mail addresses" in draft.text
    assert "example.org" not in draft.text
