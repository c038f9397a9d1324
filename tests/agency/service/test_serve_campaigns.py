"""What the routes of a campaign do for the right callers, and which bodies they refuse."""

from __future__ import annotations

from typing import Any

import pytest


def test_lists_are_paged_and_complete(world: Any) -> None:
    made = [world.campaign().id for _ in range(5)]
    seen, after = [], 0
    while after is not None:
        page = world.agency.call("GET", f"/v1/campaigns?limit=2&after={after}").json
        assert set(page) == {"items", "next"}
        assert len(page["items"]) <= 2
        seen += [entry["id"] for entry in page["items"]]
        after = page["next"]
    assert len(seen) == len(set(seen))
    assert set(made) <= set(seen)
    for query in (
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=100000000",
        "after=-1",
        "after=" + "9" * 40,
        "limit=1&limit=2x",
    ):
        assert world.agency.call("GET", f"/v1/campaigns?{query}").status == 422, query


BAD_CAMPAIGNS = {
    "no name": {"name": None},
    "empty name": {"name": ""},
    "name with NUL": {"name": "a\0b"},
    "lone surrogate": {"name": "a\ud800"},
    "long name": {"name": "x" * 100_000},
    "text for l": {"l": "3"},
    "true for l": {"l": True},
    "fraction for l": {"l": 2.5},
    "l of zero": {"l": 0},
    "no l": {"l": None},
    "k besides l": {"k": 3},
    "k for l-diversity": {"l": None, "k": 3},
    "l for k-anonymity": {"promise": "k-delta-anonymity"},
    "unknown promise": {"promise": "k-anonymity"},
    "entropy from an estimate": {"promise": "entropy-l-delta-diversity", "eta": 0.1},
    "gathered for entropy": {"promise": "entropy-l-delta-diversity", "arrangement": "gathered"},
    "linked records for values": {"records": "linked"},
    "l above the values": {"l": 5},
    "huge l": {"l": 10**30},
    "delta of zero": {"delta": 0},
    "delta of one": {"delta": 1},
    "negative delta": {"delta": -0.1},
    "text for delta": {"delta": "0.01"},
    "negative eta": {"eta": -0.1},
    "eta above one": {"eta": 1.5},
    "unknown order": {"order": "random"},
    "unknown arrangement": {"arrangement": "any"},
    "unknown records": {"records": "few"},
    "unknown key": {"extra": 1},
    "no domain": {"domain": None},
    "no quasi": {"domain": {"quasi": [], "sensitive": {"name": "s", "values": ["a", "b", "c"]}}},
    "same column twice": {
        "domain": {"quasi": [{"name": "s", "values": ["1"]}], "sensitive": {"name": "s", "values": ["a", "b", "c"]}}
    },
    "reserved column": {
        "domain": {"quasi": [{"name": "count", "values": ["1"]}], "sensitive": {"name": "s", "values": ["a", "b", "c"]}}
    },
    "value repeated": {
        "domain": {
            "quasi": [{"name": "q", "values": ["1", "1"]}],
            "sensitive": {"name": "s", "values": ["a", "b", "c"]},
        }
    },
    "no values": {
        "domain": {"quasi": [{"name": "q", "values": []}], "sensitive": {"name": "s", "values": ["a", "b", "c"]}}
    },
    "nested values": {
        "domain": {"quasi": [{"name": "q", "values": [["1"]]}], "sensitive": {"name": "s", "values": ["a", "b", "c"]}}
    },
    "missing value": {
        "domain": {"quasi": [{"name": "q", "values": [None]}], "sensitive": {"name": "s", "values": ["a", "b", "c"]}}
    },
}


@pytest.mark.parametrize("why", BAD_CAMPAIGNS)
def test_campaigns_that_are_refused(why: str, world: Any, agreed_error) -> None:
    body = {"name": "a campaign", "domain": world.domain, "l": 3, "delta": 0.01, **BAD_CAMPAIGNS[why]}
    answer = world.agency.call("POST", "/v1/campaigns", body)
    assert answer.status in (400, 422), answer
    agreed_error(answer)


def columns(world: Any, name: str = "count") -> list[str]:
    return [*(entry["name"] for entry in world.domain["quasi"]), world.domain["sensitive"]["name"], name]


BAD_COUNTS: dict[str, Any] = {
    "unknown age": lambda rows: [["Zaphod", "F", "flu", 3], *rows],
    "unknown illness": lambda rows: [["20", "F", "Zaphod", 3], *rows],
    "number for a text": lambda rows: [[20, "F", "flu", 3], *rows[3:]],
    "negative": lambda rows: [["20", "F", "flu", -3], *rows[3:]],
    "fraction": lambda rows: [["20", "F", "flu", 0.5], *rows[3:]],
    "true": lambda rows: [["20", "F", "flu", True], *rows[3:]],
    "text": lambda rows: [["20", "F", "flu", "3"], *rows[3:]],
    "none": lambda rows: [["20", "F", "flu", None], *rows[3:]],
    "beyond 64 bits": lambda rows: [["20", "F", "flu", 2**63], *rows[3:]],
    "far beyond": lambda rows: [["20", "F", "flu", 10**400], *rows[3:]],
    "sum beyond 64 bits": lambda rows: [[*row[:3], 2**62] for row in rows],
    "twice": lambda rows: [rows[0], *rows],
    "too short": lambda rows: [rows[0][:3], *rows[1:]],
    "too long": lambda rows: [[*rows[0], 1], *rows[1:]],
    "no rows": lambda rows: [],
    "not rows": lambda rows: {"age": "20"},
    "null": lambda rows: None,
    "NUL": lambda rows: [["20\0", "F", "flu", 3], *rows],
    "lone surrogate": lambda rows: [["\udc00", "F", "flu", 3], *rows],
}


@pytest.mark.parametrize("why", BAD_COUNTS)
def test_counts_that_are_refused_change_nothing_and_tell_no_value(why: str, world: Any, agreed_error) -> None:
    campaign = world.campaign("collecting")
    before = world.agency.call("GET", f"{campaign.path}/counts").json
    rows = BAD_COUNTS[why](world.counts()["rows"])
    answer = campaign.owner.call("PUT", f"{campaign.path}/counts", {"columns": columns(world), "rows": rows})
    assert answer.status in (400, 422), answer
    message = agreed_error(answer)["message"]
    assert "Zaphod" not in message
    assert "Zaphod" not in world.service.log.read_text()
    if why.startswith("unknown"):
        assert why.split()[1] in message  # the column is named
    assert world.agency.call("GET", f"{campaign.path}/counts").json == before


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["age", "sex", "illness"],
        ["age", "illness", "count"],
        ["age", "sex", "illness", "count", "count"],
        ["age", "age", "illness", "count"],
        ["age", "sex", "illness", "number"],
        ["age", "sex", "illness", "probability"],  # owners contribute counts
        "age,sex,illness,count",
        [1, 2, 3, 4],
    ],
)
def test_columns_that_are_refused(wrong: object, world: Any, states, agreed_error) -> None:
    owner = world.caller("owner")
    body = {"columns": wrong, "rows": world.counts()["rows"]}
    answer = owner.call("PUT", f"{states['collecting'].path}/counts", body)
    assert answer.status == 422, answer
    agreed_error(answer)


def test_the_agency_sees_who_contributed_and_not_what(world: Any) -> None:
    campaign = world.campaign("collecting")
    second = world.caller("owner")
    assert second.call("PUT", f"{campaign.path}/counts", world.counts(2, ["20", "21"])).status == 200
    assert second.call("PUT", f"{campaign.path}/counts", world.counts(3, ["20"])).status == 200
    seen = world.agency.call("GET", f"{campaign.path}/counts")
    assert "angina" not in seen.body.decode()
    stated = {entry["owner"]: (entry["rows"], entry["records"]) for entry in seen.json["items"]}
    assert stated == {world.name(campaign.owner): (160, 4000), world.name(second): (8, 600)}


def test_distributions_that_are_refused(world: Any, agreed_error) -> None:
    campaign = world.campaign()
    rows = world.counts()["rows"]
    wrong = {
        "sum below one": [[*row[:3], 0.001] for row in rows],
        "sum above one": [[*row[:3], 0.5] for row in rows],
        "negative": [[*rows[0][:3], -1.0], *([*row[:3], 2.0 / 159] for row in rows[1:])],
        "text": [[*row[:3], "0.1"] for row in rows],
    }
    for why, content in wrong.items():
        body = {"columns": columns(world, "probability"), "rows": content}
        answer = world.agency.call("PUT", f"{campaign.path}/distribution", body)
        assert answer.status == 422, (why, answer)
        agreed_error(answer)
    assert campaign.state() == "draft"


def test_what_cannot_be_reached_leaves_the_campaign_as_it_was(world: Any, agreed_error) -> None:
    campaign = world.campaign("collecting")
    for body in (
        {"samples": 3},
        {"p": 0.9},
        {"p": 2},
        {"p": 0},
        {"p": 0.001, "samples": 2000},
        {"samples": -1},
        {"q": 1},
    ):
        answer = world.agency.call("POST", f"{campaign.path}/plan", body)
        assert answer.status == 422, (body, answer)
        agreed_error(answer)
        assert campaign.state() == "collecting"
    campaign.plan()


def test_the_plan_is_what_the_planner_makes_of_the_sum_and_apply_reads_it(world: Any, tmp_path) -> None:
    from fractions import Fraction

    import pyarrow as pa

    from shoal.agency.distribution import read_distribution
    from shoal.agency.planning import make_plan, plan_document
    from shoal.release.forms.agreed import read_plan

    campaign = world.campaign("collecting")
    second = world.caller("owner")
    assert second.call("PUT", f"{campaign.path}/counts", world.counts(2, ["20", "39"])).status == 200
    campaign.plan()
    answer = campaign.owner.call("GET", f"{campaign.path}/plan")
    (tmp_path / "plan.json").write_bytes(answer.body)
    agreed = read_plan(tmp_path / "plan.json")
    assert agreed.digest == campaign.made["digest"]
    assert (agreed.n, agreed.n_tight, agreed.classes) == tuple(
        campaign.made[key] for key in ("n", "n_tight", "classes")
    )
    factor = {age: 3 if age in ("20", "39") else 1 for age in world.domain["quasi"][0]["values"]}
    rows = [[*row[:3], factor[row[0]] * row[3]] for row in world.counts()["rows"]]
    table = pa.table(dict(zip(columns(world), zip(*rows, strict=True), strict=True)))
    made = make_plan(read_distribution(table, "illness"), promise=3, delta=Fraction("0.01"))
    assert plan_document(made)["digest"] == agreed.digest
