"""The two reports: one for those who must decide on a release, one for those who use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.reports.frame import whole_page
from shoal.reports.internal.findings import findings
from shoal.reports.internal.frameworks import hipaa, nist, opinion
from shoal.reports.internal.given import Given
from shoal.reports.internal.guarantees import checks, guarantees, limitations, warnings
from shoal.reports.internal.origin import policy, sources
from shoal.reports.internal.published import published, sensitive, usefulness
from shoal.reports.internal.risk import attacked, risk
from shoal.reports.internal.summary import sign_off, summary
from shoal.reports.public.sections import public_sections

_ORDER = (
    summary,
    findings,
    guarantees,
    warnings,
    limitations,
    risk,
    attacked,
    published,
    sensitive,
    usefulness,
    opinion,
    hipaa,
    nist,
    policy,
    sources,
    checks,
    sign_off,
)
_INTERNAL = (
    "Internal: do not publish. This page has exact figures of the original table. It is for those who decide whether "
    "the public folder is shared."
)
_PUBLIC = "For everybody who uses the data. It says what the columns are, what was lost, and how to count."


def internal_report(
    manifest: Mapping[str, Any], evidence: Mapping[str, Any], attacks: Mapping[str, Any] | None = None
) -> str:
    """Return the page for a review board; it needs nothing but itself."""
    given = Given(manifest, evidence, attacks)
    sections = [section for made in _ORDER if (section := made(given)) is not None]
    return whole_page("Release report", _INTERNAL, sections)


def public_report(manifest: Mapping[str, Any]) -> str:
    """Return the page for users of the data; it tells only what the manifest tells, and not all of that."""
    return whole_page("About these data", _PUBLIC, public_sections(manifest))
