"""What a careful or a careless caller of HTTP meets: HEAD, ways to write a number, slow connections, odd names."""

from __future__ import annotations

import re
from typing import Any

import pytest


def test_a_number_is_written_in_one_way_so_that_the_audit_log_names_what_was_done(world: Any, agreed_error) -> None:
    caller = world.caller("client")
    number = world.identity(caller)["id"]
    for written in (f"+{number}", f"0{number}", f"%20{number}", f"{number}.0", f"{number}_0", f"{number}e0"):
        answer = world.agency.call("DELETE", f"/v1/tokens/{written}")
        assert answer.status == 422, written
        agreed_error(answer)
        assert world.agency.call("GET", f"/v1/audit?after={written}").status == 422
    assert caller.call("GET", "/v1/campaigns").status == 200
    assert world.agency.call("DELETE", f"/v1/tokens/{number}").status == 204
    done = [line for line in world.audit() if (line["action"], line["outcome"]) == ("revoke_token", 204)]
    assert done[-1]["subject"] == f"/v1/tokens/{number}"


@pytest.mark.parametrize(
    "name", [" clinic", "clinic ", "clinic\u200b", "clinic\u00a0a", "clinic\u2028", "cli\u0301nic", "\u202eclinic", " "]
)
def test_names_of_owners_that_look_like_others_are_refused(name: str, world: Any, agreed_error) -> None:
    answer = world.agency.call("POST", "/v1/tokens", {"name": name, "role": "owner"})
    assert answer.status == 422
    assert "names identify owners" in agreed_error(answer)["message"]
    for good in ("clinic", "Klinik Süd", "clinic of St. Mary (2)", "病院"):
        assert world.agency.call("POST", "/v1/tokens", {"name": good, "role": "owner"}).status == 201


@pytest.mark.parametrize("cell", ["1e-999999999", "1e-99999", "5e-324", "nan", "0x1", "Zaphod", "١"])
def test_texts_that_are_no_probabilities_are_refused_and_break_nothing(cell: str, world: Any, agreed_error) -> None:
    campaign = world.campaign()
    rows = [["20", "F", "flu", cell], ["20", "F", "gout", "0.5"], ["20", "M", "gout", "0.5"]]
    body = {"columns": ["age", "sex", "illness", "probability"], "rows": rows}
    answer = world.agency.call("PUT", f"{campaign.path}/distribution", body)
    assert answer.status == 422
    assert re.match(r"column 'probability' (has 1 texts|of the table)", agreed_error(answer)["message"])
    assert world.service.client().call("GET", "/healthz").status == 200
