"""Weka's own J48 beside our trees, where Java and Weka are at hand: the program is run, on files, as the paper ran it.

``make .venv-weka/ready`` fetches it: the package python-weka-wrapper3 ships weka.jar; its bridge into Java is not used.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from experiments.slicing_tables import Rows
from shoal.core.arrays import BoolArray, IntArray
from shoal.core.errors import UsageError
from shoal.datasets.uci import ADULT_NUMBERS

_ENVIRONMENT = Path(__file__).parents[1] / ".venv-weka"
_CORRECT = re.compile(r"^Correctly Classified Instances +(\d+) ", re.MULTILINE)
_TOTAL = re.compile(r"^Total Number of Instances +(\d+)", re.MULTILINE)
_SECONDS = 1_800


def find_weka() -> Path | None:
    """Return weka.jar, if it and Java are installed."""
    jar = next(_ENVIRONMENT.glob("lib/*/site-packages/weka/lib/weka.jar"), None)
    return jar if shutil.which("java") else None


def write_arff(rows: Rows, classes: IntArray, chosen: slice | BoolArray, target: str, *, doubled: bool) -> str:
    """Write the chosen rows as Weka reads them: numbers are numeric, categories nominal, and the class stands last."""
    heads, columns = ["@relation rows"], []
    for number, (column, codes) in enumerate(rows.sides(target, doubled=doubled)):
        numeric = column.name in ADULT_NUMBERS
        heads.append(f"@attribute a{number} {'numeric' if numeric else _nominal(column.n_values)}")
        columns.append(column.position[codes].astype(np.int64) if numeric else codes)
    heads.append(f"@attribute class {_nominal(rows.table.columns[rows.table.place(target)].n_values)}")
    data = io.StringIO()
    np.savetxt(data, np.stack([*columns, classes], axis=1)[chosen], fmt="%d", delimiter=",")
    return "\n".join([*heads, "@data", data.getvalue()])


def measure_accuracy(learn_from: str, ask: str) -> float:
    """Let J48, as it is by default, learn from one file, and return the share of the other that it is right for."""
    jar = find_weka()
    if jar is None:
        raise UsageError("J48 needs Java, and Weka in an environment of its own: make .venv-weka/ready")
    with tempfile.TemporaryDirectory() as folder:
        names = [str(Path(folder) / name) for name in ("learn.arff", "ask.arff")]
        for name, text in zip(names, (learn_from, ask), strict=True):
            Path(name).write_text(text, encoding="ascii")
        command = ["java", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-XX:+UseSerialGC", "-cp", str(jar)]
        command += ["weka.classifiers.trees.J48", "-t", names[0], "-T", names[1], "-o", "-v"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603
    correct, total = _CORRECT.search(run.stdout), _TOTAL.search(run.stdout)
    if run.returncode or correct is None or total is None:
        raise UsageError("Weka's J48 did not end with an accuracy; run it by hand to see why")
    return int(correct[1]) / int(total[1])


def _nominal(n_values: int) -> str:
    return "{" + ",".join(map(str, range(n_values))) + "}"
