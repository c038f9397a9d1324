"""What each promise does not protect against, in a sentence: a promise without its limits is advertising."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SIZES = (
    "It says nothing about sensitive values: if all records of a class agree in one, everybody who is known to be "
    "there is known to have it."
)
_SKEWNESS = (
    "It does not compare classes with the table: a value that is rare in the table may be frequent in a class, so the "
    "chance of somebody having it can rise a lot."
)
_MEANING = "It tells values apart by their names only: different values of a class may mean much the same."
_RULED_OUT = "Somebody who can rule some values out has fewer left than promised."
_PRESENCE = "It does not hide that somebody is in the table."

LIMITS: Mapping[str, str] = {
    "k-anonymity": _SIZES,
    "column-frequency": (
        "It looks at each part by itself: all quasi values of a person together may fit one record only, so that it "
        "hides neither who is in the table nor, by itself, what they have."
    ),
    "k-map": f"{_SIZES} It also rests on the population table being complete and of the same time.",
    "delta-presence": (
        "It is about who is in the table, not about what they have, and rests on the population table being what "
        "others know."
    ),
    "distinct-l-diversity": (
        "It counts values, not how often they occur: one of them may have nearly all records of a class. " + _RULED_OUT
    ),
    "simple-l-diversity": f"{_RULED_OUT} {_SKEWNESS}",
    "entropy-l-diversity": f"It bounds uncertainty as a whole, not the share of each value. {_SKEWNESS}",
    "recursive-cl-diversity": f"{_MEANING} {_SKEWNESS}",
    "alpha-k-anonymity": f"It bounds the most frequent value only. {_MEANING}",
    "confidence-bounding": "Values that the policy does not call harmful are not bounded at all.",
    "tau-l-diversity": f"{_MEANING} {_SKEWNESS}",
    "t-closeness": (
        "It bounds a distance of whole distributions: the chance of one rare value can still rise within it. "
        + _PRESENCE
    ),
    "beta-likeness": f"It bounds how much more likely a value becomes, not how much less likely. {_PRESENCE}",
    "delta-disclosure": f"It bounds ratios to the published table, which itself is told. {_PRESENCE}",
    "l-delta-diversity": (
        "It holds among releases by the same plan. It says which values a class shows, not how often each of them."
    ),
    "k-delta-anonymity": _SIZES,
    "entropy-l-delta-diversity": f"It bounds uncertainty as a whole, not the share of each value. {_SKEWNESS}",
    "differential-privacy": (
        "It bounds what one record changes, not what is true of many: whatever the table teaches about people in "
        "general can be concluded about anybody. It rests on noise having been drawn as declared, which no file shows."
    ),
}
_QUASI = (
    "Promises are about somebody who knows the attributes that the policy calls quasi. A sensitive or insensitive "
    "attribute that others can look up is as good as a quasi one, and nothing here knows that."
)
_RECORDS = "Promises are about records. A person with several of them is in several classes, which can be compared."
_TOGETHER = "The claim is about records. Of a person with several of them, all together are protected less."
_SEVERAL = (
    "Promises are about this release alone. Another one about the same people can leave less together than each by "
    "itself: shoal link and the ledger measure that, if they are told of it."
)
_OTHER_PLANS = (
    "Promises are about this release and others by the same plan. One by another plan, or by none, about the same "
    "people can leave less together: shoal link and the ledger measure that, if they are told of it."
)
_BACKGROUND = (
    "Who knows more than quasi values, such as the order of rows in another file or how the method decides, may "
    "conclude more. The attacks try some of that, not all."
)
_MEASURED = "Figures of risk and attacks are measured on these data and these adversaries. They bound no other ones."
_TRUE = "What is true of most people in a class is learned about all of them, in it or not: that is what data are for."


def limits_of(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each promised or claimed model with what it does not protect against."""
    told = [*manifest["guarantees"], *manifest.get("claims", ())]
    return [(name, LIMITS[name]) for name in dict.fromkeys(str(promise["model"]) for promise in told)]


def general_limits(manifest: Mapping[str, Any]) -> list[str]:
    """Return what no promise of this kind of release covers."""
    if "synthetic" in manifest:
        return [_TOGETHER, _SEVERAL, _TRUE]
    if not manifest["guarantees"]:
        return ["This release promises nothing about people: all that is below is what was measured.", _MEASURED]
    several = _OTHER_PLANS if "agreed" in manifest else _SEVERAL
    return [_QUASI, _RECORDS, several, _BACKGROUND, _TRUE, _MEASURED]
