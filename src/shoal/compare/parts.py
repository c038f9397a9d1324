"""What a row of a comparison is measured by."""

from __future__ import annotations

RISKS = ("singling-out", "linkability", "inference")
HEADS = {risk: risk.replace("-", " ") for risk in RISKS}  # of tables and pictures
MEASURES = ("counts", "association", "learning")
PARTS = (*RISKS, *MEASURES)
