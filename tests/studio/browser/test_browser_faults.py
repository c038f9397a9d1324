"""What goes wrong in a browser: broken uploads, cancelled runs, two tabs, an ended studio, other people's pages."""

from __future__ import annotations

import http.client
import http.server
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

REFUSED = "status of 422"
STALE = "status of 409"


def projects(studio) -> set[Path]:
    """The folders of open tables."""
    (room,) = studio.rooms()
    return {path for path in room.iterdir() if path.is_dir()}


def test_broken_uploads_are_told_and_leave_nothing(person, studio, watch, tmp_path, until):
    page, expect = person.page, person.expect
    before = projects(studio)
    chooser = page.locator("#file")
    picture = tmp_path / "holiday.png"
    picture.write_bytes(b"\x89PNG no table")
    chooser.set_input_files(picture)
    expect(person.notices).to_contain_text("does not recognize holiday.png")
    late = tmp_path / "late.csv"
    late.write_text("age,sex\n" + "40,F\n" * 30_000 + "41\n", encoding="utf-8")
    chooser.set_input_files(late)
    expect(person.notices).to_contain_text("late.csv")
    expect(person.notices).to_contain_text("30002")
    lying = tmp_path / "lying.parquet"
    lying.write_bytes(b"age,sex\n40,F\n")
    chooser.set_input_files(lying)
    expect(person.notices).to_contain_text("lying.parquet")
    assert page.get_by_role("progressbar").count() == 0
    assert projects(studio) == before
    watch.forgive(REFUSED)

    cookie = studio.enter()
    with socket.create_connection(tuple(studio.address.split(":")), timeout=30) as cut:
        head = (
            f"PUT /upload HTTP/1.1\r\nHost: {studio.address}\r\nOrigin: {studio.origin}\r\nShoal-Name: cut.csv\r\n"
            f"Cookie: {cookie['name']}={cookie['value']}\r\nContent-Length: 1000000\r\n\r\n"
        )
        cut.sendall(head.encode() + b"age,sex\n" + b"40,F\n" * 1000)
        until(lambda: projects(studio) != before)
    until(lambda: projects(studio) == before)
    page.reload()
    expect(page.get_by_role("button", name="Try the demo data")).to_be_visible()


def test_a_cancelled_run_leaves_nothing_and_another_one_works(person, studio, visits):
    page, expect = person.page, person.expect
    known = projects(studio)
    person.opens(visits)
    (folder,) = projects(studio) - known
    person.goes_to("Run")
    page.get_by_role("button", name="Start the run").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("main")).to_contain_text("cancelled; nothing was published")
    assert not [path for path in folder.iterdir() if path.name.startswith("run-")]
    page.reload()
    expect(page.locator("[data-run-state=cancelled]")).to_be_visible()
    person.runs()
    assert [path.name for path in folder.glob("run-*/*")] == ["release"]


def test_a_page_that_is_loaded_again_in_the_middle_of_a_run_still_shows_it(person, visits):
    page, expect = person.page, person.expect
    person.opens(visits)
    person.goes_to("Run")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("region", name="Run in progress")).to_be_visible()
    page.reload()
    expect(page.get_by_role("region", name="Run in progress")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Results: Solution 1")
    page.go_back()
    expect(page.locator("[data-run-state=done]")).to_have_count(1)


def test_two_tabs_lose_nothing_silently_and_two_tables_do_not_mix(person, somebody, context, studio, visits, watch):
    person.opens(visits)
    other = somebody(context.new_page())
    other.page.goto(person.page.url)
    person.page.get_by_label("Role of sex").select_option("insensitive")
    person.waits_for_policy(lambda policy: policy["attributes"]["sex"]["role"] == "insensitive")
    other.page.get_by_label("Role of zip").select_option("insensitive")
    other.expect(other.notices).to_contain_text("changed in another tab")
    watch.forgive(STALE)
    other.page.get_by_role("link", name="Reload").click()
    other.expect(other.page.get_by_label("Role of sex")).to_have_value("insensitive")
    other.expect(other.page.get_by_label("Role of zip")).to_have_value("quasi")
    other.page.get_by_label("Role of zip").select_option("insensitive")
    both = other.waits_for_policy(lambda policy: policy["attributes"]["zip"]["role"] == "insensitive")
    assert both["attributes"]["sex"]["role"] == "insensitive"

    here = person.page.url.rsplit("/", 1)[0]
    person.page.goto(f"{here}/policy")
    mine = person.page.get_by_label("Policy", exact=True)
    text = mine.input_value()
    other.page.get_by_label("Meaning of sex").fill("as in the register")
    other.page.keyboard.press("Tab")
    other.waits_for_policy(lambda policy: policy["attributes"]["sex"].get("description") == "as in the register")
    mine.fill(f"# my own remark\n{text}")
    person.page.get_by_role("button", name="Save", exact=True).click()
    person.expect(person.page.get_by_role("alert").filter(has_text="changed in another tab")).to_be_visible()
    assert "my own remark" in mine.input_value()
    watch.forgive(STALE)

    other.page.goto(studio.origin)
    other.opens(visits)
    assert other.page.url.rsplit("/", 1)[0] != here
    assert other.policy()["attributes"]["sex"]["role"] == "quasi"
    person.page.goto(f"{here}/columns")
    assert person.policy()["attributes"]["sex"]["role"] == "insensitive"


def test_a_studio_that_is_ended_takes_everything_along_and_its_pages_say_so(chromium, another_studio, somebody, visits):
    studio = another_studio(visits)
    context = chromium.new_context()
    page = context.new_page()
    page.goto(studio.url)
    reader = somebody(page)
    reader.sees_columns()
    assert "token" not in page.url
    assert studio.rooms()[0].stat().st_mode & 0o777 == 0o700
    again = chromium.new_context().new_page()
    answer = again.goto(studio.url)
    assert answer.status == 403
    reader.expect(again.locator("main")).to_contain_text("The link works once")
    again.context.close()

    studio.process.send_signal(signal.SIGTERM)
    studio.process.communicate(timeout=60)
    assert studio.rooms() == []
    assert visits.is_file()
    page.get_by_label("Role of sex").select_option("insensitive")
    reader.expect(reader.notices).to_contain_text("The studio does not respond")
    context.close()


def test_a_reading_that_is_cancelled_stops_and_leaves_nothing(person, studio, until, tmp_path):
    table, before = tmp_path / "long.csv", projects(studio)
    head = ",".join(f"column{number}" for number in range(30))
    table.write_text(head + "\n" + "".join(f"{n}.5,2024-01-05,text {n}{',7' * 27}\n" for n in range(200_000)))
    person.page.locator("#file").set_input_files(table)
    person.expect(person.page.locator("#upload-says")).to_have_text("Looking at long.csv")
    person.page.locator("#upload-cancel").focus()
    person.page.keyboard.press("Enter")
    until(lambda: projects(studio) == before)
    until(lambda: not [link for link in Path("/proc").glob("[0-9]*/fd/*") if _leads_to(link, "long.csv")])


def _leads_to(link: Path, name: str) -> bool:
    try:
        return link.readlink().name == name
    except OSError:  # of a process that has ended, or of somebody else
        return False


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The address of another server on this machine, whose pages are nobody's friend."""

    class Silent(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>Elsewhere</title>")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        serving.join()


def test_a_page_of_another_origin_can_neither_read_nor_change(person, context, studio, visits, watch, elsewhere):
    person.opens(visits)
    revision = person.page.locator("input[name=revision]").first.input_value()
    target = person.page.url
    foreign = context.new_page()
    foreign.goto(elsewhere)
    read = """async (url) => {
        try { return await (await fetch(url, {credentials: 'include'})).text(); } catch { return 'refused'; }
    }"""
    assert foreign.evaluate(read, target) == "refused"
    blind = """async ([url, body]) => {
        try {
            await fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include',
                headers: {'Content-Type': 'application/x-www-form-urlencoded'}, body});
            return 'sent';
        } catch { return 'refused'; }
    }"""
    body = f"revision={revision}&role=insensitive"
    assert foreign.evaluate(blind, [f"{target}/2", body]) == "refused"
    framed = """(url) => new Promise((done) => {
        const frame = document.createElement('iframe');
        frame.onload = () => done(frame.contentDocument === null);
        frame.src = url;
        document.body.append(frame);
    })"""
    assert foreign.evaluate(framed, target)
    foreign.evaluate(
        "(url) => { const form = document.createElement('form'); form.method = 'post'; form.action = url; "
        "document.body.append(form); form.submit(); }",
        f"{studio.origin}/demo",
    )
    person.expect(foreign.locator("main")).to_contain_text("Another page sent this request")
    person.page.reload()
    assert person.policy()["attributes"]["sex"]["role"] == "quasi"
    assert person.page.locator("input[name=revision]").first.input_value() == revision
    watch.foreign.clear()
    watch.complaints.clear()
