"""The whole story in a browser: from a table to a verified release, and the same by the command."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import yaml


def unpacked(archive: Path, into: Path) -> Path:
    """Return the one folder of an archive."""
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(into)
    (folder,) = into.iterdir()
    return folder


def has_no_failure_without_internal_files(shoal, folder: Path, *source: object) -> None:
    """A download is verified by itself; with the source, only the checks that need internal/ are left undone."""
    alone = shoal("verify", folder, "--json")
    assert alone.returncode == 0, alone.stdout + alone.stderr
    assert json.loads(alone.stdout)["verdict"] == "verified"
    compared = shoal("verify", folder, *source, "--json")
    stated = json.loads(compared.stdout)
    assert (compared.returncode, stated["verdict"]) == (4, "incomplete"), compared.stdout + compared.stderr
    assert all(one["ok"] for one in (*stated["checks"], *stated["guarantees"]))
    assert {one["name"] for one in stated["checks"] if one.get("required")} == {"recorded", "truth"}


def changes_a_role(person) -> None:
    page = person.page
    assert person.policy()["attributes"]["diagnosis"]["role"] == "sensitive"
    page.get_by_label("Role of insurance").select_option("insensitive")
    person.waits_for_policy(lambda policy: policy["attributes"]["insurance"]["role"] == "insensitive")
    page.get_by_label("Meaning of age").fill("in years, at admission")
    page.keyboard.press("Tab")
    person.waits_for_policy(lambda policy: "admission" in policy["attributes"]["age"].get("description", ""))


def moves_edges(person) -> None:
    """Cut ages by hand: an edge with the mouse, then with the keyboard."""
    page, expect = person.page, person.expect
    person.goes_to("Taxonomies")
    page.get_by_role("link", name="age", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Taxonomy of age")
    page.get_by_role("button", name="Move the edges by hand").click()
    edge = page.get_by_role("slider", name="Edge 2 of")
    expect(edge).to_be_visible()
    start = int(edge.get_attribute("aria-valuenow"))

    def has_edge(number: int) -> None:
        def right(policy: dict) -> bool:
            return number in policy["attributes"]["age"]["taxonomy"]["intervals"].get("edges", [[]])[0]

        person.waits_for_policy(right)

    has_edge(start)
    scale = page.get_by_role("group", name="Intervals over the numbers of the column")
    scale.evaluate("scale => scale.scrollIntoView({block: 'center'})")
    box, knob = scale.bounding_box(), edge.locator("circle").bounding_box()
    low, high = (float(page.locator("[data-scale]").get_attribute(f"data-{end}")) for end in ("low", "high"))
    a_year = box["width"] / (high + 1 - low)
    x, y = knob["x"] + knob["width"] / 2, knob["y"] + knob["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + a_year, y, steps=4)
    page.mouse.move(x + 2 * a_year, y, steps=4)
    page.mouse.up()
    expect(edge).to_have_attribute("aria-valuenow", str(start + 2))
    has_edge(start + 2)

    edge.focus()
    page.keyboard.press("ArrowLeft")
    expect(edge).to_have_attribute("aria-valuenow", str(start + 1))
    has_edge(start + 1)
    expect(edge).to_be_focused()
    expect(page.locator("#completeness")).to_contain_text("complete")
    page.get_by_role("button", name="Undo", exact=True).click()
    has_edge(start + 2)


def asks_for_guarantees(person) -> None:
    """See that an impossible promise is told at once, and end with two that can be kept."""
    page, expect = person.page, person.expect
    person.goes_to("Guarantees")
    hints = page.locator("#feasibility")
    expect(hints).to_contain_text("entropy-l-diversity")
    page.get_by_role("button", name="Remove entropy-l-diversity").click()
    expect(hints).not_to_contain_text("entropy-l-diversity")
    person.waits_for_policy(lambda policy: not any("entropy-l-diversity" in promise for promise in policy["privacy"]))
    page.get_by_text("with their protection and its limits").click()
    page.get_by_role("radio", name="entropy-l-diversity").check()
    page.get_by_role("button", name="Add this guarantee").click()
    person.is_told("Added")
    expect(hints).to_contain_text("entropy-l-diversity")
    entropy = page.locator("[data-model=entropy-l-diversity]")
    entropy.get_by_label("l", exact=True).fill("1000")
    page.keyboard.press("Tab")
    expect(hints.locator("[data-verdict=impossible]")).to_contain_text("entropy-l-diversity")
    entropy.get_by_label("l", exact=True).fill("2")
    page.keyboard.press("Tab")
    expect(hints.locator("[data-verdict=impossible]")).to_have_count(0)
    k = page.locator("[data-model=k-anonymity]").get_by_label("k", exact=True)
    k.fill("11")
    page.keyboard.press("Tab")
    asked = person.waits_for_policy(lambda policy: {"k-anonymity": {"k": 11}} in policy["privacy"])
    assert any("entropy-l-diversity" in promise for promise in asked["privacy"])


def runs_and_looks(person) -> None:
    page, expect = person.page, person.expect
    person.goes_to("Run")
    expect(page.get_by_role("region", name="Command", exact=True).first).to_contain_text("shoal anonymize stays.csv")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("progressbar").first).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Results: Solution 1")
    asked = page.get_by_role("table", name="Required and achieved by all classes")
    expect(asked).to_contain_text("entropy-l-diversity")
    before, after = (page.get_by_role("region", name=name) for name in ("Before:", "After:"))
    expect(before.get_by_role("row")).to_have_count(13)
    assert "[" in after.text_content()
    assert "[" not in before.text_content()
    page.locator("#column-name").select_option("diagnosis")
    expect(page.locator("#column")).to_contain_text("Statistics of diagnosis")
    assert page.locator("main figure svg").count() > 3


def compares(person) -> None:
    page, expect = person.page, person.expect
    person.goes_to("Compare")
    page.get_by_label("k-anonymity.k", exact=True).fill("5, 50")
    page.get_by_text("Weights of the ranking").click()
    page.get_by_label("People that each attack is tried on").fill("200")
    page.get_by_role("button", name="Compare", exact=True).click()
    ranked = page.get_by_role("table", name="Ranked by the stated weights")
    expect(ranked.get_by_role("row")).to_have_count(3)
    expect(page.locator("#frontier svg")).to_be_visible()
    expect(page.get_by_role("table", name="Releases of this session")).to_contain_text("Solution 1")
    ranked.get_by_role("button", name="Use this policy").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Run")
    used = {"k-anonymity": {"k": 5}}, {"k-anonymity": {"k": 50}}
    assert any(promise in person.policy()["privacy"] for promise in used)


def attacks(person) -> None:
    page, expect = person.page, person.expect
    person.goes_to("Attacks")
    page.get_by_label("People that each attack is tried on").fill("200")
    page.get_by_role("button", name="Attack", exact=True).click()
    found = page.get_by_role("table", name="Correct guesses")
    expect(found).to_be_visible()
    assert found.get_by_role("row").count() > 1


def reads_and_takes(person, into: Path) -> Path:
    """Read both reports in their frames; return the archive."""
    page, expect = person.page, person.expect
    person.goes_to("Report & download")
    internal = page.frame_locator("iframe[title='Internal report']")
    expect(internal.get_by_role("heading", level=1)).to_be_visible()
    expect(internal.locator("body")).to_contain_text("attack")
    page.get_by_role("link", name="Public report").click()
    public = page.frame_locator("iframe[title='Public report']")
    expect(public.get_by_role("heading", level=1)).to_be_visible()
    assert page.get_by_role("link", name="Download the release").count() == 0
    page.get_by_role("button", name="Verify and prepare the download").click()
    expect(page.get_by_role("link", name="Download the release")).to_be_visible()
    return person.downloads("Download the release", into)


def test_the_demo_from_opening_to_a_verified_download(person, studio, tmp_path, shoal):
    person.opens_demo()
    changes_a_role(person)
    moves_edges(person)
    asks_for_guarantees(person)
    runs_and_looks(person)
    compares(person)
    attacks(person)
    archive = reads_and_takes(person, tmp_path)
    public = unpacked(archive, tmp_path / "unpacked")
    assert not list(public.rglob("evidence.json"))
    (table,) = studio.rooms()[0].glob("*/stays.csv")
    has_no_failure_without_internal_files(shoal, public, "--source", table)
    promised = {entry["model"] for entry in json.loads((public / "public" / "manifest.json").read_text())["guarantees"]}
    assert {"k-anonymity", "entropy-l-diversity"} <= promised


def builds_a_tree(person) -> None:
    """Make a taxonomy of jobs: groups by name, values by dragging, by the keyboard and by the list."""
    page, expect = person.page, person.expect
    person.goes_to("Taxonomies")
    page.get_by_role("link", name="job", exact=True).first.click()
    page.get_by_label("Kind", exact=True).select_option("tree")
    page.get_by_role("button", name="Start with this kind").click()
    tree = page.get_by_role("tree")
    expect(tree.get_by_role("treeitem", name="nurse")).to_be_visible()
    for group in ("indoors", "outdoors"):
        page.get_by_label("Name", exact=True).fill(group)
        page.get_by_role("button", name="New group").click()
        expect(tree.locator(f"[data-label={group}]")).to_be_visible()
    tree.locator("[data-label=driver] > .line").drag_to(tree.locator("[data-label=outdoors] > .line"))
    expect(tree.locator("[data-label=outdoors] [data-label=driver]")).to_be_attached()

    farmer = tree.locator("[data-label=farmer]")
    farmer.focus()
    page.keyboard.press("Control+x")
    person.is_told("farmer cut; go to a group and press Control V")
    page.keyboard.press("o")
    expect(tree.locator("[data-label=outdoors]")).to_be_focused()
    page.keyboard.press("Control+v")
    expect(tree.locator("[data-label=outdoors] [data-label=farmer]")).to_be_attached()

    for job in ("baker", "clerk", "nurse", "teacher"):
        tree.locator(f"[data-label={job}] > .line").click(modifiers=["Control"])
    expect(page.locator("#tree-selection")).to_contain_text("Selected: 4")
    page.get_by_label("Move to", exact=True).select_option(label="indoors")
    page.get_by_role("button", name="Move", exact=True).click()
    expect(tree.locator("[data-label=indoors] [data-label=nurse]")).to_be_attached()
    groups = {"indoors": {"baker", "clerk", "nurse", "teacher"}, "outdoors": {"driver", "farmer"}}

    def grouped(policy: dict) -> bool:
        made = policy["attributes"]["job"]["taxonomy"]["tree"]["*"]
        return {name: set(jobs) for name, jobs in made.items()} == groups

    person.waits_for_policy(grouped)


def test_an_own_table_and_its_policy_by_the_command(person, visits, tmp_path, shoal):
    person.opens(visits)
    assert person.policy()["attributes"]["person"]["role"] == "identifier"
    builds_a_tree(person)
    person.page.locator("#policy-panel summary").click()
    policy = person.downloads("Download", tmp_path)
    assert policy.name == "policy.yaml"
    assert yaml.safe_load(policy.read_text(encoding="utf-8")) == person.policy()
    person.runs()
    person.page.get_by_role("link", name="Report and download").click()
    person.page.get_by_role("button", name="Verify and prepare the download").click()
    archive = person.downloads("Download the release", tmp_path)
    shown = unpacked(archive, tmp_path / "unpacked")

    made = shoal("anonymize", visits, "-p", policy, "-o", tmp_path / "typed", "--json")
    assert made.returncode == 0, made.stdout + made.stderr
    by_browser, by_command = (
        json.loads((folder / "public" / "manifest.json").read_text(encoding="utf-8"))
        for folder in (shown, tmp_path / "typed")
    )
    for key in ("guarantees", "method", "attributes", "rows", "withheld"):
        assert by_browser[key] == by_command[key], key
    has_no_failure_without_internal_files(shoal, shown, "--source", visits, "-p", policy)
