"""``shoal warm``: compile the kernels of common runs once after installation, instead of during the first runs."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from shoal.cli.console import JsonOption, err, reply, reporting

# With each of these, `auto` tries methods or kernels that it does not try with the others.
_MODELS: dict[str, list[dict[str, object]]] = {
    "class sizes and values": [{"k-anonymity": {"k": 5}}, {"entropy-l-diversity": {"l": 2}}],
    "class sizes": [{"k-anonymity": {"k": 5}}],
    "values": [{"simple-l-diversity": {"l": 3}}],
    "general values": [{"tau-l-diversity": {"tau": 0.5, "l": 3}}],
}


def warm(json_output: JsonOption = False) -> None:
    """Compile the kernels of common runs. It takes about a minute, once after installation; first runs then start fast.

    Generated stays are anonymized by every common method and attacked. Only the compiled code is kept.
    """
    with reporting(json_output), TemporaryDirectory() as folder:
        from shoal.anonymize import anonymize
        from shoal.attacks.running import attack
        from shoal.audit.audit import audit
        from shoal.datasets.hospital import hospital_policy
        from shoal.datasets.hospital_files import write_stays

        began, console = time.perf_counter(), err()
        few = write_stays(Path(folder, "few.csv"), 1000, seed=1)
        for number, (protected, models) in enumerate(_MODELS.items(), start=1):
            console.print(f"{number} of {len(_MODELS) + 1}: methods that protect {protected} ...")
            policy = hospital_policy() | {"method": "auto", "privacy": models}
            anonymize(few, policy, out=Path(folder, str(number)))
        console.print(f"{len(_MODELS) + 1} of {len(_MODELS) + 1}: audit and attacks ...")
        audit(few, policy)
        attack(Path(folder, "1"), few, targets=50)
        seconds = time.perf_counter() - began
        reply(json_output, {"seconds": round(seconds, 1)}, f"Compiled in {seconds:.0f} s. Runs now start fast.")
