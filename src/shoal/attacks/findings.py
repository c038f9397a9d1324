"""What no promise covers in a release that is attacked, beside what attacks find."""

from __future__ import annotations

from pathlib import Path

from shoal.attacks.reading import published_rows
from shoal.audit.counting import RowCounts
from shoal.audit.findings import PublishedTable, find_all
from shoal.core.errors import InputError
from shoal.core.results import Finding
from shoal.policy.policy import Acceptance
from shoal.release.forms.base import read_form
from shoal.release.release import INTERNAL, PUBLIC, read_internal, received
from shoal.sources.columns import plain


def read_findings(folder: Path, accepted: tuple[Acceptance, ...] = ()) -> tuple[Finding, ...]:
    """Return what the run found, if its evidence is beside the public files; else what these show by themselves."""
    found = received(folder)
    if found is None:
        raise InputError(f"{folder} is not a release: it has no manifest.json")
    public, manifest = found
    evidence = public.parent / INTERNAL / "evidence.json"
    if public.name == PUBLIC and evidence.is_file() and "findings" in (told := read_internal(evidence)):
        return tuple(map(Finding.from_dict, told["findings"]))
    counts = RowCounts.of(manifest)
    for batch in plain(published_rows(public / Path(str(manifest["data"]["file"])).name, manifest)).to_batches():
        counts.add(batch)
    return find_all(PublishedTable.of(manifest, counts, read_form(manifest).promised_models()), accepted)
