"""Ask anonymeter what published rows disclose; run by the Python of its own environment, which has no shoal.

    python anonymeter_questions.py folder --secret illness --attacks 500 --seed 1

reads ``source.csv``, ``published.csv`` and ``control.csv`` of the folder, and prints one JSON object: of each
attack the risk with its interval at 95%, or null where anonymeter could not make the attack.
"""

from __future__ import annotations

import argparse
import json
import random
import warnings
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer on standard output."""
    import numpy as np  # here, since collecting doctests imports this file where there is no anonymeter
    import pandas as pd
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--secret", required=True)
    parser.add_argument("--attacks", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    random.seed(asked.seed)
    np.random.seed(asked.seed)  # noqa: NPY002  its generators are those of the module
    source, published, control = (
        pd.read_csv(asked.folder / f"{name}.csv") for name in ("source", "published", "control")
    )
    known = [name for name in source.columns if name != asked.secret]
    tables: dict[str, Any] = {"ori": source, "syn": published, "control": control, "n_attacks": asked.attacks}
    halves = known[: len(known) // 2], known[len(known) // 2 :]
    evaluators = {
        "singling-out": SinglingOutEvaluator(**tables, n_cols=min(4, len(known))),
        "linkability": LinkabilityEvaluator(**tables, aux_cols=halves, n_neighbors=1),
        "inference": InferenceEvaluator(**tables, aux_cols=known, secret=asked.secret),
    }
    found: dict[str, dict[str, float] | None] = {}
    for name, evaluator in evaluators.items():
        try:
            risk = (evaluator.evaluate(mode="multivariate") if name == "singling-out" else evaluator.evaluate()).risk()
        except RuntimeError:  # too few predicates, or a main attack that is no better than a blind one
            found[name] = None
        else:
            found[name] = {"value": float(risk.value), "low": float(risk.ci[0]), "high": float(risk.ci[1])}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
