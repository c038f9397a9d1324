"""Reading the files of a release as an adversary does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray
from shoal.errors import UsageError
from shoal.linkage.agreed import of_agreed, read_agreed
from shoal.linkage.linkable import Linkable
from shoal.release import CLASS
from shoal.sliced.reading import read_published
from shoal.sliced.table import is_sliced
from shoal.sources import SourceOptions, open_source


def agreed_boxes(table: pa.Table, manifest: Mapping[str, Any], folder: Path | None) -> tuple[Linkable, CodeArray]:
    """Return the boxes of the plan that a release was made by, and the class of each of its rows."""
    if folder is None:
        raise UsageError("the release is by a plan, which is in its folder; give the folder")
    agreed = read_agreed("the release", folder, manifest)
    boxes = of_agreed("the release", table, manifest, agreed, set(agreed.quasi), agreed.sensitive)
    return boxes, np.asarray(table.column(CLASS).cast(pa.int32()).combine_chunks()) - np.int32(1)


def published_rows(path: Path, manifest: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a written release."""
    if is_sliced(manifest):
        return read_published(path, manifest)
    source = open_source(path, SourceOptions(delimiter=","))
    return pa.Table.from_batches(list(source.batches()))
