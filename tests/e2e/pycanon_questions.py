"""Ask pycanon what a published file reaches; run by the Python of its own environment, which has no shoal.

    python pycanon_questions.py release.csv --quasi age sex --sensitive disease [--numeric]

prints one JSON object with ``k``, ``l`` (distinct), ``alpha`` and ``t``. The sensitive column is text, for which
pycanon's t is half the L1 distance, or with ``--numeric`` numbers, for which it is the ordered distance.
"""

from __future__ import annotations

import argparse
import json


def main() -> None:
    """Answer on standard output."""
    import pandas as pd  # here, since collecting doctests imports this file where there is no pycanon
    from pycanon import anonymity

    parser = argparse.ArgumentParser()
    parser.add_argument("release")
    parser.add_argument("--quasi", nargs="+", required=True)
    parser.add_argument("--sensitive", required=True)
    parser.add_argument("--numeric", action="store_true")
    asked = parser.parse_args()
    rows = pd.read_csv(asked.release, dtype=str, keep_default_na=False, usecols=[*asked.quasi, asked.sensitive])
    if asked.numeric:
        rows[asked.sensitive] = rows[asked.sensitive].astype(int)
    question = rows, asked.quasi, [asked.sensitive]
    alpha, k_with_alpha = anonymity.alpha_k_anonymity(*question)
    answer = {
        "rows": len(rows),
        "k": int(anonymity.k_anonymity(rows, asked.quasi)),
        "k_with_alpha": int(k_with_alpha),
        "l": int(anonymity.l_diversity(*question)),
        "alpha": float(alpha),
        "t": float(anonymity.t_closeness(*question)),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
