"""``shoal warm`` compiles everything that a first run needs, and a run that compiles for long says so."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import event
from rich.console import Console
from rich.progress import Progress

from shoal.cli import bars

PROGRAM = """
import sys
from numba.core.dispatcher import Dispatcher
from typer.testing import CliRunner
from shoal.cli import app

def list_compiled():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("shoal")]
    kernels = {one for module in modules for one in vars(module).values() if isinstance(one, Dispatcher)}
    return {(kernel.py_func.__qualname__, signature) for kernel in kernels for signature in kernel.overloads}

done = CliRunner().invoke(app, ["warm", "--json"])
assert done.exit_code == 0, done.output
before = list_compiled()
assert len(before) > 50
for arguments in (
    ["init", "people.csv"],
    ["anonymize", "people.csv", "-p", "policy.yaml", "-o", "out"],
    ["attack", "out", "--source", "people.csv", "--targets", "50"],
):
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
print(sorted(name for name, _ in list_compiled() - before))
"""


def test_the_first_run_on_another_table_uses_compiled_kernels_only(tmp_path: Path) -> None:
    sexes, towns, illnesses = "fm", ["Aalen", "Berlin", "Celle"], ["flu", "asthma", "gout", "none", "cold"]
    rows = [
        f"P{n},{16 + 7 * n % 70},{sexes[n % 2]},{towns[n % 3]},{1.5 + n % 9},{illnesses[n // 3 % 5]}"
        for n in range(1000)
    ]
    (tmp_path / "people.csv").write_text("\n".join(["person,age,sex,town,height,illness", *rows]))
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
    assert "method: {auto: {}}" in (tmp_path / "policy.yaml").read_text()


def test_a_run_that_compiles_for_long_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, said in ((60.0, 0), (0.0, 1)):
        monkeypatch.setattr(bars, "_PATIENCE", seconds)
        shown = io.StringIO()
        listener = bars._Compiling(Progress(console=Console(file=shown)))
        with event.install_listener("numba:compile", listener):
            for _ in range(3):
                with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
                    pass
        assert shown.getvalue().count("`shoal warm`") == said
