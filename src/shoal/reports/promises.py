"""What promises are about where columns were changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.core.wording import code, listed


def of_changed_values(manifest: Mapping[str, Any]) -> list[str]:
    """Return what the promises of a release with changed columns are about; nothing if none is quasi or sensitive."""
    roles = {name: manifest["attributes"][name]["role"] for name in manifest.get("techniques", {})}
    names = [code(name) for name, role in roles.items() if role in ("quasi", "sensitive")]
    if not names or not manifest["guarantees"]:
        return []
    return ["", f"The promises are about values as published. Those of {listed(names)} are not the original ones."]
