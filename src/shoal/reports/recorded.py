"""What attacks found, beside the release that they were tried on: a file, and the page that tells of it."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.core.errors import InputError, UsageError
from shoal.core.progress import register
from shoal.release.release import INTERNAL, PUBLIC, Release, find_release, read_internal
from shoal.reports.internal import internal_report
from shoal.reports.pages import public_report

ATTACKS = "attacks.json"


@dataclass(frozen=True, slots=True)
class Recorder:
    """The internal folder of a release, ready to take what attacks find."""

    folder: Path
    manifest: Mapping[str, Any]
    evidence: Mapping[str, Any]

    @classmethod
    def of(cls, folder: Path) -> Recorder:
        """Open the internal folder beside a public one; refuse where there is none, or nothing to add to."""
        found = find_release(folder)
        if found is None:
            raise InputError(f"{folder} is not a release: it has no manifest.json")
        public, manifest = found
        internal = public.parent / INTERNAL
        if public.name != PUBLIC or not (internal / "evidence.json").is_file():
            raise UsageError(
                f"findings are recorded in the folder {INTERNAL} beside public, and there is none at {folder}; record "
                "them where the release was made"
            )
        return cls(internal, manifest, read_internal(internal / "evidence.json"))

    def write(self, found: Mapping[str, Any], source: Mapping[str, str]) -> None:
        """Write what was found and make the report anew: each appears whole, or what was there before stays.

        *source* tells the name and the SHA-256 of the table by which answers were judged.
        """
        record = {"release": self.manifest["data"]["sha256"], "source": dict(source), **found}
        page = internal_report(self.manifest, self.evidence, record)
        mark = secrets.token_hex(8)
        attacks, report = (self.folder / f".{name}.{mark}" for name in (ATTACKS, "report.html"))
        outcome = "nothing was recorded"
        try:
            _write(attacks, json.dumps(record, ensure_ascii=False, allow_nan=False, indent=1) + "\n")
            _write(report, page)
            attacks.replace(self.folder / ATTACKS)
            outcome = f"{ATTACKS} is written, but report.html is the one from before"
            report.replace(self.folder / "report.html")
        except OSError as error:
            raise UsageError(f"cannot write to {self.folder}: {error.strerror}; {outcome}") from None
        finally:
            attacks.unlink(missing_ok=True)
            report.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    """Write a new file, seen onto the disk."""
    with path.open("xb") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def read_attacks(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what was recorded of attacks on a release, given its folder; None if nothing was."""
    path = folder / INTERNAL / ATTACKS
    if not path.is_file():
        return None
    found = read_internal(path)
    if found.get("release") != manifest["data"]["sha256"]:
        raise InputError(f"{path} tells of attacks on another release; run `shoal attack --record` anew")
    return found


@register("report")
def report(release: Release, audience: str) -> str:
    """Return the page of a release for an audience; the board's tells what attacks found, once that was recorded."""
    if audience == "public":
        return public_report(release.manifest)
    if audience != "internal":
        raise UsageError(f"a report is for the audience 'internal' or 'public', not {audience!r}")
    attacks = None if release.folder is None else read_attacks(release.folder, release.manifest)
    return internal_report(release.manifest, release.evidence, attacks)
