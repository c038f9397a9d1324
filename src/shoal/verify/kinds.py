"""What a method may publish: which keys, labels and promises its manifest can have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.verify.attributes import Attribute, Labels
from shoal.verify.fields import ManifestError, check_keys, mapping, number, sequence
from shoal.verify.techniques.numbers import decimals_of

SLICED_KEYS = ("buckets", "tables")  # of sliced releases only
AVERAGED, PLAIN, SYNTHETIC = "microaggregation", "plain", "synthetic"
_SLICED, _FULL_DOMAIN, _LIFTING = ("slicing", "anatomy"), "incognito", "sweep"
_METHODS = (*_SLICED, _FULL_DOMAIN, _LIFTING, AVERAGED, PLAIN, SYNTHETIC, "mondrian", "hilbert", "agreed")


@dataclass(frozen=True, slots=True)
class Averaging:
    """How the centres of groups were written."""

    numbers: str  # mean or median
    decimals: int


def labels_of(method: str, *, sliced: bool) -> Labels:
    """Return which attributes have labels in releases by a method."""
    if method in (PLAIN, AVERAGED):
        return "none"
    if method == SYNTHETIC:
        return "all"
    return "some" if sliced else "own"


def may_promise_nothing(method: str) -> bool:
    """Whether a release by this method may have no guarantees: its values are as they are, or nobody's."""
    return method in (PLAIN, SYNTHETIC)


def read_averaging(method: str, parameters: Mapping[str, Any]) -> Averaging | None:
    """Return how averages were written, None for methods that average nothing, or raise a ManifestError."""
    if method != AVERAGED:
        return None
    check_keys(parameters, "method_parameters", ("numbers", "decimals"), tuple(parameters))
    decimals = decimals_of(parameters["decimals"], "method_parameters.decimals")
    if parameters["numbers"] not in ("mean", "median"):
        raise ManifestError("method_parameters.numbers is neither mean nor median")
    return Averaging(parameters["numbers"], decimals)


def read_sample(raw: object) -> tuple[float | None, str | None]:
    """Return the share of the source's rows that were drawn, or of whom one each was, or raise a ManifestError."""
    entry = mapping(raw, "sample")
    if "one_per" in entry:
        check_keys(entry, "sample", ("one_per",), ())
        if entry["one_per"] not in ("unit", "household"):
            raise ManifestError("sample.one_per is neither 'unit' nor 'household'")
        return None, str(entry["one_per"])
    check_keys(entry, "sample", ("share",), ())
    share = number(entry["share"], "sample.share")
    if not 0 < share < 1:
        raise ManifestError("sample.share is not between 0 and 1")
    return share, None


def check_parts(parts: Sequence[Sequence[str]], attributes: Sequence[Attribute], *, overlapping: bool) -> None:
    """Parts overlap only where that is declared, in quasi attributes published as they are or the sensitive one."""
    by_name = {attribute.name: attribute for attribute in attributes}
    named = [name for part in parts for name in part]
    repeated = sorted({name for name in named if named.count(name) > 1})
    if repeated and not overlapping:
        raise ManifestError("its parts overlap, and method_parameters does not say 'overlapping'")
    sensitive = [attribute.name for attribute in attributes if attribute.role == "sensitive"]
    for name in repeated:
        if by_name[name].role == "insensitive" or by_name[name].boxed:
            raise ManifestError(f"several parts have {name!r}, which is insensitive or published as labels")
        if name in sensitive and len(sensitive) > 1:
            raise ManifestError(f"several parts have {name!r}, which is not the only sensitive attribute")
    for place, part in enumerate(parts):
        if len({by_name[name].boxed for name in part if by_name[name].role == "quasi"}) > 1:
            raise ManifestError(f"parts[{place}] has quasi attributes with labels and others without")
    for attribute in attributes:
        if attribute.role == "sensitive" and attribute.boxed:
            raise ManifestError(f"attributes.{attribute.name} is sensitive and has labels in a sliced release")


def check_method(method: str, top: Mapping[str, Any], attributes: Sequence[Attribute]) -> None:
    """The method is known, and publishes what is there: levels, and labels of sensitive values, are of one method."""
    if method not in _METHODS:
        raise ManifestError("its method is unknown")
    if "levels" in top and method != _FULL_DOMAIN:
        raise ManifestError("it has levels, which its method does not make")
    if method not in (_LIFTING, SYNTHETIC, "agreed") and any(a.boxed and a.role == "sensitive" for a in attributes):
        raise ManifestError("it has labels of sensitive values, which its method does not make")


def check_sliced_keys(top: Mapping[str, Any], *, sliced: bool) -> None:
    """Only releases in several parts have buckets, and all of them."""
    if not sliced and any(key in top for key in SLICED_KEYS):
        raise ManifestError("it has buckets or tables, and yet all attributes are in one part")
    if sliced and "buckets" not in top:
        raise ManifestError("it has several parts and does not say how many buckets")
    if sliced != (top["method"] in _SLICED):
        raise ManifestError("its method does not make so many parts")
    if sliced and "levels" in top:
        raise ManifestError("it has several parts and yet levels, which only classes have")
    if "levels" in top and labels_of(top["method"], sliced=sliced) != "own":
        raise ManifestError("it has levels, and yet its method makes no classes of labels")


def check_agreed(top: Mapping[str, Any], *, with_file: bool) -> None:
    """A release by a plan has all records of its source, whole, and one promise: the plan's."""
    if ("agreed" in top) != (top["method"] == "agreed"):
        raise ManifestError("its method is 'agreed' and it names no plan, or the other way round")
    if "agreed" not in top:
        return
    if not with_file:
        raise ManifestError("it names a plan, which is checked in the folder of the release only")
    others = (*SLICED_KEYS, "levels", "items", "populations", "techniques", "sample")
    if any(key in top for key in others):
        raise ManifestError("it names a plan and yet has what only other releases have")
    if top["withheld"] != 0 or top["missing"] != {"policy": "category", "tokens": [""], "dropped": 0}:
        raise ManifestError("it names a plan and yet left records out, or reads values as missing")
    if len(sequence(top["guarantees"], "guarantees")) != 1:
        raise ManifestError("it names a plan and does not promise just what that does")


def check_synthetic(top: Mapping[str, Any]) -> None:
    """A synthetic table tells nothing that was looked up without noise, and other releases have no account."""
    synthetic = top["method"] == SYNTHETIC
    if synthetic != ("synthetic" in top):
        raise ManifestError("its method is 'synthetic' and it has no account, or the other way round")
    if not synthetic:
        return
    if any(key in top for key in ("techniques", "sample", "items", "populations")):
        raise ManifestError("it is synthetic and yet has what only tables of people have")
    if top.get("utility", {}) != {} or sequence(top["guarantees"], "guarantees"):
        raise ManifestError("it is synthetic and yet tells how near it is to its source, or promises what classes do")
    if top["withheld"] != 0 or mapping(top["missing"], "missing").get("dropped") != 0:
        raise ManifestError("it is synthetic and yet tells how many records were left out")
