"""Inner parts of the agency's service: limits, bodies, tokens, settings, tables of counts, the sum of contributions."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from shoal.agency.domain import Domain
from shoal.agency.service.administration import render_reference
from shoal.agency.service.guard import parse
from shoal.agency.service.refusals import Refusal, of_validation
from shoal.agency.service.settings import Settings, settings
from shoal.agency.service.tokens import read_digest
from shoal.agency.tables import deserialize, pool, read_rows, serialize, sum_records
from shoal.core.errors import InputError, UsageError

DOMAIN = Domain.model_validate(
    {
        "quasi": [{"name": "age", "values": ["9", "40", "41"]}, {"name": "sex", "values": ["F", "M"]}],
        "sensitive": {"name": "illness", "values": ["flu", "gout", "zoster"]},
    }
)
COLUMNS = ["age", "sex", "illness", "count"]


def counted(*rows: list[object]):
    return read_rows(COLUMNS, list(rows), DOMAIN, probabilities=False, most=100)


def test_serving_is_not_loaded_with_the_command_line() -> None:
    program = (
        "import sys, shoal.cli; print(*[name for name in sys.modules if name in ('fastapi', 'sqlalchemy', 'httpx')])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"NaN",
        b"[Infinity]",
        b'{"a": "\\ud800"}',
        b'{"a": "x\\u0000y"}',
        b'{"a\\u0000": 1}',
        b"[" * 5000,
        b"9" * 10_000,
        b"\xef\xbb\xbf{}",
        '{"a": "é"}'.encode("latin-1"),
        '{"a": 1}'.encode("utf-16"),
    ],
)
def test_what_is_no_plain_json_is_refused_without_being_quoted(content: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        parse(content)
    assert refused.value.status == 422
    assert "999" not in refused.value.message


def test_a_refusal_names_places_of_the_schema_and_no_word_of_the_caller() -> None:
    error = {"type": "extra_forbidden", "loc": ("body", "Zaphod"), "msg": "Extra inputs are not permitted", "input": 1}
    assert "Zaphod" not in of_validation([error]).message
    error = {"type": "int_type", "loc": ("body", "l"), "msg": "Input should be a valid integer", "input": "Zaphod"}
    assert of_validation([error]).message == "body.l is wrong: input should be a valid integer"


def test_only_tokens_of_our_form_are_looked_up() -> None:
    token = "shoal_" + "a" * 43
    assert read_digest(f"Bearer {token}") == hashlib.sha256(token.encode()).hexdigest()
    assert read_digest(f"bearer  {token}") == read_digest(f"Bearer {token}")
    for wrong in ("", token, f"Basic {token}", f"Bearer {token}a", f"Bearer {token} ", f"Bearer {token}\n", "Bearer é"):
        assert read_digest(wrong) is None


def test_settings_come_from_options_then_the_environment_then_defaults() -> None:
    known = {"SHOAL_AGENCY_PORT": "9", "SHOAL_AGENCY_ROWS": "25", "SHOAL_AGENCY_TOKENS": ""}
    assert settings(known, port=None) == Settings(port=9, rows=25)
    assert settings(known, port=0).port == 0
    for wrong in ({"SHOAL_AGENCY_PORT": "x"}, {"SHOAL_AGENCY_ROWS": "0"}, {"SHOAL_AGENCY_TOKENS": "-1"}):
        with pytest.raises(UsageError):
            settings(wrong)


@pytest.mark.parametrize(
    "rows",
    [
        [["40", "M", "gout"]],
        [["40", "M", "gout", 1, 2]],
        ["40MG1"],
        [{"a": 1}],
        [[40, "M", "gout", 1]],
        [["40", "M", "gout", True]],
        [["40", "M", "gout", 1.0]],
        [["40", "M", "gout", -1]],
        [["40", "M", "gout", 2**62]],
        [["40", "M", "gout", 10**30]],
        [["42", "M", "gout", 1]],
        [["40", "M", "gout", 1], ["40", "M", "gout", 1]],
        [["40", "M", "gout", 1]] * 101,
    ],
)
def test_rows_that_are_no_counts_of_the_domain_are_refused(rows: list[object]) -> None:
    with pytest.raises(InputError) as refused:
        read_rows(COLUMNS, rows, DOMAIN, probabilities=False, most=100)
    assert "42" not in str(refused.value)


def test_contributions_are_added_exactly_and_the_small_domain_is_whole() -> None:
    first = counted(["40", "M", "gout", 2**60], ["9", "F", "flu", 1])
    second = counted(["40", "M", "gout", 2**60 + 1], ["40", "M", "flu", 3])
    known = pool(DOMAIN, [first, second], "lexicographic", 6)
    assert known.n_points == 6
    assert known.sensitive_values == ("flu", "gout", "zoster")
    assert known.quasi_values == (("9", "40", "41"), ("F", "M"))
    assert known.total == 2**61 + 1 + 4
    assert known.point_weights().tolist() == [1, 0, 0, 2**61 + 4, 0, 0]
    only = pool(DOMAIN, [first, second], "lexicographic", 5)
    assert only.n_points == 2
    assert only.sensitive_values == ("flu", "gout", "zoster")
    with pytest.raises(InputError):
        pool(DOMAIN, [counted(["9", "F", "flu", 2**61])] * 2, "lexicographic", 6)


def test_probabilities_are_numbers_or_decimal_texts() -> None:
    columns = ["age", "sex", "illness", "probability"]
    cells = ["9", "F", "flu"], ["9", "M", "gout"]
    for shares in ((0.25, 0.75), (0, 1), ("0.1", "0.9")):
        rows = [[*cell, share] for cell, share in zip(cells, shares, strict=True)]
        table = deserialize(serialize(read_rows(columns, rows, DOMAIN, probabilities=True, most=9)))
        assert sum_records(table) is None
        known = pool(DOMAIN, [table], "lexicographic", 100)
        assert float(known.probability(int(known.point_weights()[0]))) == pytest.approx(float(shares[0]))
    for shares in (("0.1", 0.9), (0.5, True), (-0.5, 1.5), (float("inf"), 0.1), ("x" * 200, "1"), (None, 1.0)):
        rows = [[*cell, share] for cell, share in zip(cells, shares, strict=True)]
        with pytest.raises(InputError):
            read_rows(columns, rows, DOMAIN, probabilities=True, most=9)


def test_the_page_about_routes_escapes_everything() -> None:
    answers = {"200": {"description": "<i>fine</i>"}}
    operation = {"operationId": "x", "description": "<script>", "responses": answers}
    schemas = {"Y": {"description": "<script>"}}
    page = render_reference(
        {
            "info": {"title": "a & b", "version": "1"},
            "paths": {"/<x>": {"get": operation}},
            "components": {"schemas": schemas},
        }
    )
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<i>" not in page
