"""What an owner tells an agency of a release: its manifest and the digests of its files, never its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.core.errors import InputError, UsageError, VerificationError
from shoal.core.progress import Progress
from shoal.core.strict_json import read_json
from shoal.sources.digests import file_digest
from shoal.verify.reading import public_folder
from shoal.verify.verifier import verify_folder


def registration(folder: Path, *, progress: Progress | None = None) -> dict[str, Any]:
    """Verify a release by a plan and return what registers it; one that does not hold is refused."""
    public = public_folder(folder)
    verification = verify_folder(public, progress=progress)
    if not verification.verified:
        raise VerificationError(f"{folder} does not hold what it promises: {'; '.join(verification.failures)}")
    try:
        manifest = read_json((public / "manifest.json").read_bytes())
        files = {path.name: file_digest(path) for path in sorted(public.iterdir())}
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror or 'input or output error'}") from None
    if not isinstance(manifest.get("agreed"), dict):
        raise UsageError(f"{folder} was not made by an agency's plan; make it with shoal agency apply")
    return {"manifest": manifest, "files": files}
