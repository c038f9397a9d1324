"""Reports and downloads in the studio: reports that run nothing, archives that were verified, nothing internal."""

from __future__ import annotations

import io
import json
import shutil
import zipfile

import pytest

from shoal.studio.pages.run import folder_of, write_archive
from shoal.verify.verifier import verify


@pytest.fixture
def at(solved):
    return solved.at(f"/release/{solved.run.id}")


@pytest.fixture
def unverified(solved):
    """The release as it is before it was verified, whatever other tests did."""
    jobs = solved.browser.studio.jobs
    before = solved.project.jobs_of("verify")
    for job in before:
        job.memory["run"] = f"not {solved.run.id}"
    yield
    for job in solved.project.jobs_of("verify"):
        if job in before:
            job.memory["run"] = solved.run.id
        else:
            jobs.forget(job)


@pytest.mark.usefixtures("unverified")
def test_nothing_is_given_out_before_the_archive_was_verified(solved, at: str) -> None:
    text = solved.browser.get(at).text
    assert "Verify and prepare the download" in text
    assert "archive.zip" not in text
    for path in ("public/archive.zip", "internal/archive.zip", "files/data.csv"):
        assert solved.browser.get(f"{at}/{path}").status_code == 404


@pytest.mark.usefixtures("unverified")
def test_nothing_is_given_out_that_the_verifier_refuses(solved, at: str) -> None:
    readme = folder_of(solved.run) / "public" / "README.md"
    written = readme.read_bytes()
    try:
        readme.write_bytes(written + b"edited")
        assert solved.browser.post(f"{at}/check", {"revision": solved.project.revision}).status_code == 303
        job = solved.project.jobs_of("verify")[0]
        assert job.finished.wait(600)
    finally:
        readme.write_bytes(written)
    assert (job.state, job.exit_code, job.answer["verified"]) == ("failed", 4, False)
    assert "archive.zip" not in solved.browser.get(at).text
    for path in ("public/archive.zip", "internal/archive.zip", "files/data.csv"):
        assert solved.browser.get(f"{at}/{path}").status_code == 404


@pytest.mark.parametrize("audience", ["internal", "public"])
def test_reports_are_shown_where_they_can_do_nothing(solved, at: str, audience: str) -> None:
    page = solved.browser.get(f"{at}/{audience}").text
    assert f'<iframe class="report-frame" sandbox src="{at}/{audience}/report.html"' in page
    answer = solved.browser.get(f"{at}/{audience}/report.html")
    written = (folder_of(solved.run) / audience / "report.html").read_bytes()
    assert answer.content == written
    policy = answer.headers["content-security-policy"]
    for part in ("default-src 'none'", "frame-ancestors 'self'", "sandbox"):
        assert part in policy
    assert "script" not in policy
    assert "x-frame-options" not in answer.headers
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.fixture(scope="module")
def verified(solved):
    """The job that verified the archive."""
    answer = solved.browser.post(solved.at(f"/release/{solved.run.id}/check"), {"revision": solved.project.revision})
    assert answer.status_code == 303
    job = solved.project.jobs_of("verify")[0]
    assert job.finished.wait(600)
    assert job.state == "done", job.message
    return job


def test_the_archive_has_the_public_folder_alone_and_is_accepted(solved, at: str, verified, tmp_path) -> None:
    assert verified.answer["verified"] is True
    assert verified.command == "shoal verify First-try --source patients.csv -p policy.yaml --json".removesuffix(
        " --json"
    )
    text = solved.browser.get(at).text
    assert f'href="{at}/public/archive.zip"' in text
    answer = solved.browser.get(f"{at}/public/archive.zip")
    assert 'filename="First-try-public.zip"' in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path)
    public = {path.name for path in (folder_of(solved.run) / "public").iterdir()}
    assert set(names) == {f"First-try/public/{name}" for name in public}
    assert verify(tmp_path / "First-try").verified
    for name in public:
        assert (tmp_path / "First-try" / "public" / name).read_bytes() == (
            folder_of(solved.run) / "public" / name
        ).read_bytes()


def test_an_archive_holds_no_links_and_is_whole_or_not_there(tmp_path) -> None:
    public = tmp_path / "release" / "public"
    public.mkdir(parents=True)
    (public / "data.csv").write_text("a\n1\n")
    (tmp_path / "secret").write_text("secret")
    (public / "link.csv").symlink_to(tmp_path / "secret")
    write_archive(tmp_path / "release", "public", tmp_path / "made.zip", "one")
    shutil.unpack_archive(tmp_path / "made.zip", tmp_path / "out")
    assert [path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.csv")] == [
        "one/public/data.csv"
    ]
    assert (tmp_path / "made.zip").stat().st_mode & 0o777 == 0o600
    (public / "data.csv").chmod(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.copyfileobj", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
        with pytest.raises(OSError, match="no space"):
            write_archive(tmp_path / "release", "public", tmp_path / "again.zip", "one")
    assert not list(tmp_path.glob(".zip-*"))
    assert not (tmp_path / "again.zip").exists()


@pytest.mark.usefixtures("unverified")
def test_findings_are_a_checklist_before_the_download(solved, at: str) -> None:
    """One is open and one accepted; what is accepted carries its reason."""
    path = folder_of(solved.run) / "internal" / "decision.json"
    before = path.read_text()
    one = {
        "id": "isolating-columns",
        "about": ["cost"],
        "text": "All are <unique>.",
        "fix": "Round it.",
        "accepted": None,
    }
    changed = {
        "findings": [one | {"severity": "high"}, one | {"severity": "high", "accepted": "not known"}],
        "verdict": "not ready",
        "reasons": ["The high finding isolating-columns (cost) is open."],
    }
    path.write_text(json.dumps(json.loads(before) | changed))
    try:
        page = solved.browser.get(at).text
        others = [solved.browser.get(at.partition("/release")[0] + where).text for where in ("/run", "/results")]
    finally:
        path.write_text(before)
    assert all("not ready" in other.lower() for other in others)  # no page is green alone
    page = page[page.index("Checklist: ") :]
    checklist, _, rest = page.partition("</ul>")
    assert "All are &lt;unique&gt;." in checklist
    assert "<strong>What to do:</strong> Round it." in checklist
    assert "Accepted: not known" in checklist
    assert "1 high finding is open." in rest
    assert page.index("isolating-columns") < page.index("/check")
