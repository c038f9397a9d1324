"""The verification of a written release, including its pages, which are rendered again from the manifest."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import shoal
from shoal.core.errors import ShoalError, UsageError
from shoal.core.progress import Progress
from shoal.manifest import PAGES, parse_json, unpack_labels
from shoal.verify import verifier
from shoal.verify.result import Check, Verification
from shoal.verify.verifier import Populations

if TYPE_CHECKING:
    from shoal.release.release import Release

SAME_PAGES = "the README and the report agree with the manifest"
# Scripts, embedded documents, event handlers, and references to other files or addresses.
_ACTIVE = re.compile(
    r"<\s*(script|iframe|object|embed|link|base|form)\b|<[^>]*\s(on\w+|src|href)\s*=(?!\s*[\"']?#)", re.IGNORECASE
)


def verify(
    folder: str | Path | Release,
    *,
    source: object = None,
    populations: Populations | None = None,
    progress: Progress | None = None,
    memory: int | None = None,
    public_key: bytes | None = None,
) -> Verification:
    """Check a written release with independent code, from its bytes alone.

    >>> import pyarrow as pa, shoal
    >>> people = pa.table({"age": [31, 32, 46, 47], "illness": ["flu", "cold", "flu", "cold"]})
    >>> policy = {"attributes": {"age": {"role": "quasi"}, "illness": {"role": "sensitive"}},
    ...           "privacy": [{"k-anonymity": {"k": 2}}]}
    >>> folder = getfixture("tmp_path") / "out"
    >>> _ = shoal.anonymize(people, policy, out=folder)
    >>> shoal.verify(folder, source=people).verdict
    'verified'
    >>> _ = (folder / "internal").rename(folder / "elsewhere")
    >>> shoal.verify(folder, source=people).verdict
    'incomplete'

    Parameters
    ----------
    folder
        The folder that ``shoal anonymize`` wrote, or the public folder in it, or the release that it returned.
    source
        The original table, in any form that ``shoal.open_source`` opens: every row is compared with it. This needs
        ``internal/`` next to the public folder; without it the verdict is *incomplete*.
    populations
        The tables that k-map and delta-presence name in their parameters.
    memory
        The bytes that the process may use; counts that need more are written to temporary files.
    public_key
        The PEM of the data holder's public key, with which the statements about the release must be signed.

    Returns
    -------
    Verification
        The verdict (*verified*, *failed* or *incomplete*), and every check and guarantee.
    """
    if not isinstance(folder, str | Path) and getattr(folder, "folder", None) is None:
        import pyarrow as pa

        from shoal.release.release import Release
        from shoal.sources.opening import open_source

        if not isinstance(folder, Release):
            raise UsageError(f"give a release or its folder, not something of type {type(folder).__name__}")
        rows, given = open_source(folder.data), None if source is None else open_source(source)
        table = pa.Table.from_batches(rows.batches(), rows.schema)
        return verifier.verify_table(table, folder.manifest, source=given, populations=populations, progress=progress)
    folder = Path(folder if isinstance(folder, str | Path) else str(folder.folder))
    found = verifier.verify(
        folder,
        source=source,
        populations=populations,
        progress=progress,
        memory=memory,
        public_key=public_key,
    )
    if found.failures:
        return found
    recorded = any(check.name == "recorded" and check.done for check in found.checks)
    return replace(found, checks=(*found.checks, check_pages(verifier.find_public(folder), recorded=recorded)))


def check_pages(public: Path, *, recorded: bool = False) -> Check:
    """Compare the README and the report with pages rendered from the manifest.

    Other versions of shoal render other pages; then the pages are only checked for active content. If the manifest is
    *recorded* as the one written by the run, the digests in it suffice.
    """
    manifest = unpack_labels(parse_json((public / "manifest.json").read_text(encoding="utf-8")))
    if recorded and all(key in manifest for key in PAGES):
        return Check("pages", True, SAME_PAGES)
    pages = {name: (public / name).read_bytes() if (public / name).is_file() else b"" for name in PAGES.values()}
    if manifest["shoal_version"] != shoal.__version__:
        active = [name for name, page in pages.items() if _ACTIVE.search(page.decode("utf-8", "replace"))]
        if active:
            return Check("pages", False, f"scripts or references to other files in {' and '.join(active)}")
        return Check("pages", True, "not checked: another version of shoal made them", done=False)
    from shoal.reports.pages import public_readme, public_report

    described = {key: entry for key, entry in manifest.items() if key not in PAGES}
    try:
        made = {PAGES["readme"]: public_readme(described), PAGES["report"]: public_report(described)}
    except (ShoalError, LookupError, TypeError, ValueError) as error:
        return Check("pages", False, f"no pages can be made from this manifest ({type(error).__name__})")
    other = [name for name, text in made.items() if pages[name] != text.encode()]
    fault = other and f"not made from this manifest: {' and '.join(other)}"
    return Check.of("pages", fault, SAME_PAGES)
