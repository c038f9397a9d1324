"""Reading the files of a release as an adversary does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray
from shoal.core.errors import UsageError
from shoal.linking.agreed import of_agreed, read_agreed
from shoal.linking.linkable import Linkable
from shoal.release.forms.base import read_form
from shoal.release.release import CLASS


def agreed_boxes(table: pa.Table, manifest: Mapping[str, Any], folder: Path | None) -> tuple[Linkable, CodeArray]:
    """Return the boxes of the plan that a release was made by, and the class of each of its rows."""
    if folder is None:
        raise UsageError("the release is by a plan, which is in its folder; give the folder")
    agreed = read_agreed("the release", folder, manifest)
    boxes = of_agreed("the release", table, manifest, agreed, set(agreed.quasi), agreed.sensitive)
    return boxes, np.asarray(table.column(CLASS).cast(pa.int32()).combine_chunks()) - np.int32(1)


def published_rows(path: Path, manifest: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a written release."""
    return read_form(manifest).read_rows(path)
