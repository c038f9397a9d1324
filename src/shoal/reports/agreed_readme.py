"""What whoever receives a release by an agency's plan must know before counting or linking anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.reports.text import promise_line

CLASS_ROW = "| class | class | number | the number of the record's class in `plan.json` |"
_MEANING = (
    "The column `class` is the number of a class of the plan. What a row says is that somebody of this class has this "
    "sensitive value, and nothing more. The generalized columns are there for people who read the table: they tell the "
    "range around all combinations of quasi values that are in the class. Such ranges overlap, and combinations within "
    "them may be of other classes. Whoever counts or links should go by `class`; `plan.json` tells which class a "
    "combination of quasi values is in (`points` and `runs`)."
)
TITLES = {
    "l-delta-diversity": "every class shows the l sensitive values that the plan names for it (`values`)",
    "k-delta-anonymity": "every class has at least k records",
    "entropy-l-delta-diversity": (
        "the sensitive values of every class are as uncertain as l equally frequent ones (the exponential of their "
        "entropy)"
    ),
}
_WAIT = (
    "Delta is the probability with which an owner who has enough records must wait for more of them. It says nothing "
    "against a release that exists: this one was published because all classes keep the promise."
)
_LINKED = (
    "If several releases by this very plan are linked, somebody who knows the quasi values of a person finds one and "
    "the same class in all of them. "
)
_LINKED_VALUES = (
    "Each shows the same l values there, so l values remain for everybody, however many releases there are."
)
_LINKED_OTHERS = (
    "Each release by itself keeps the promise; how much they leave together is not promised, but `shoal link` tells."
)
_OTHER_PLANS = (
    "Releases by another plan, or by none, have other classes; nothing is promised if these are linked with them."
)


def classes(manifest: Mapping[str, Any]) -> list[str]:
    """Return what the class column and the plan are."""
    return [
        "## Classes",
        "",
        _plan(manifest["agreed"]),
        "",
        _MEANING,
        "",
    ]


def _plan(agreed: Mapping[str, Any]) -> str:
    return (
        "Several data owners publish by one plan, which an agency made before anybody looked at these data. It is in "
        f"`{agreed['file']}` and has {agreed['classes']:,} classes; its digest is `{agreed['digest']}`."
    )


def agreed_promises(manifest: Mapping[str, Any]) -> list[str]:
    """Return what the plan promises of this release, and of several."""
    (promise,) = manifest["guarantees"]
    linked = _LINKED_VALUES if promise["model"] == "l-delta-diversity" else _LINKED_OTHERS
    return [promise_line(promise, TITLES[promise["model"]]), "", _WAIT, "", _LINKED + linked, "", _OTHER_PLANS]
