"""Array types that several modules use."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
CodeArray: TypeAlias = NDArray[np.int32]
KeyArray: TypeAlias = NDArray[np.uint64]
AnyIntArray: TypeAlias = NDArray[np.integer[Any]]
