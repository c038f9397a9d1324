"""The independent checker: reads a written release as a stranger would and recomputes every promise.

It shares no code with the models, the methods or the engine that made the release; a test holds that.
"""

from __future__ import annotations

from shoal.verify.result import Check, CheckedGuarantee, Verification
from shoal.verify.verifier import verify_folder, verify_table

__all__ = ["Check", "CheckedGuarantee", "Verification", "verify_folder", "verify_table"]
