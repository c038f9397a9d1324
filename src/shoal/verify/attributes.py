"""What a manifest declares of one published column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from shoal.verify.fields import ManifestError, check_keys, mapping, number, sequence, text_of, texts_of, whole

ROLES = ("quasi", "sensitive", "insensitive")
KINDS = ("category", "number", "date", "prefix")
_KEYS = ("role", "kind", "labels", "domain", "order", "taxonomy", "length", "format", "description", "defended")
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Domain:
    """How much of an attribute's taxonomy each label covers."""

    leaves: int  # of the whole taxonomy
    labels: Mapping[str, tuple[int, float]]  # leaves under each label, and how far they reach: 0 is one value, 1 all


@dataclass(frozen=True, slots=True)
class Attribute:
    """One published column as the manifest declares it."""

    name: str
    role: str
    kind: str
    labels: Mapping[str, Mapping[str, Any]] | None
    order: tuple[str, ...] | None = None
    taxonomy: Mapping[str, Any] | None = None
    length: int | None = None  # prefixes: integer source values are filled up with zeros to this length
    format: str | None = None  # dates: how source texts write them, if not as ISO dates
    defended: bool = False  # whether no label of a class tells more of its records than tau or the base rate
    domain: Domain | None = None  # of labels from a declared taxonomy

    @property
    def boxed(self) -> bool:
        """Whether what is published is a label that covers source values."""
        return self.labels is not None

    @property
    def may_keep_missing(self) -> bool:
        """Whether rows without a label are legal: a missing sensitive value that is kept has none."""
        return self.boxed and self.role == "sensitive"


Labels: TypeAlias = Literal["all", "own", "some", "none"]


def read_attribute(name: str, raw: object, *, labels: Labels) -> Attribute:
    """Return what is declared of a column, or raise a ManifestError.

    *labels* tells which attributes have some: all of them, quasi attributes of their own and perhaps sensitive ones,
    perhaps quasi attributes, or none.
    """
    where = f"attributes.{name}"
    entry = mapping(raw, where)
    check_keys(entry, where, ("role", "kind"), _KEYS)
    role, kind = entry["role"], entry["kind"]
    if role not in ROLES:
        raise ManifestError(f"{where}.role is none of {', '.join(ROLES)}")
    if kind not in KINDS:
        raise ManifestError(f"{where}.kind is none of {', '.join(KINDS)}")
    covers = None
    if "labels" in entry:
        if role == "insensitive":
            raise ManifestError(f"{where} is insensitive and yet has labels")
        if labels == "none":
            raise ManifestError(f"{where} has labels, which its method does not publish")
        covers = _covers(mapping(entry["labels"], f"{where}.labels"), f"a cover in {where}.labels")
        if role == "sensitive" and kind != "category" and labels != "all":
            raise ManifestError(f"{where} is sensitive and has labels, and yet its kind is not 'category'")
    elif labels == "all" or (role == "quasi" and labels == "own"):
        raise ManifestError(f"{where} is {role} and has no labels")
    taxonomy = None
    if "taxonomy" in entry:
        taxonomy = mapping(entry["taxonomy"], f"{where}.taxonomy")
        _tree(taxonomy, where)
    if entry.get("defended", True) is not True or ("defended" in entry and (covers is None or role != "sensitive")):
        raise ManifestError(f"{where}.defended is not true, or it has no labels of sensitive values")
    if "description" in entry:
        text_of(entry["description"], f"{where}.description")
    length = whole(entry["length"], f"{where}.length") if "length" in entry else None
    return Attribute(
        name=name,
        role=role,
        kind=kind,
        labels=covers,
        order=texts_of(entry["order"], f"{where}.order") if "order" in entry else None,
        taxonomy=taxonomy,
        length=length,
        format=text_of(entry["format"], f"{where}.format") if "format" in entry else None,
        defended="defended" in entry,
        domain=_domain(entry["domain"], covers or {}, f"{where}.domain") if "domain" in entry else None,
    )


def _domain(raw: object, covers: Mapping[str, Mapping[str, Any]], where: str) -> Domain:
    entry = mapping(raw, where)
    check_keys(entry, where, ("leaves", "labels"), ())
    leaves = whole(entry["leaves"], f"{where}.leaves")
    labels = mapping(entry["labels"], f"{where}.labels")
    if set(labels) != set(covers):
        raise ManifestError(f"{where}.labels are not the attribute's")
    found = {}
    for label, pair in labels.items():
        if len(sequence(pair, f"an entry of {where}.labels")) != 2:
            raise ManifestError(f"an entry of {where}.labels is not a pair")
        under, width = whole(pair[0], f"{where}.labels"), number(pair[1], f"{where}.labels")
        listed = len(covers[label].get("values", ()))
        if not max(listed, 1) <= under <= leaves or not 0 <= width <= 1 or (under == 1 and width):
            raise ManifestError(f"{where}.labels has a number that cannot be")
        if "any" in covers[label] and (under, width) != (leaves, float(leaves > 1)):
            raise ManifestError(f"{where}.labels does not count all leaves under a label of all values")
        found[label] = (under, width)
    return Domain(leaves, found)


def _covers(covers: Mapping[str, Any], what: str) -> dict[str, Mapping[str, Any]]:
    if not all(isinstance(cover, Mapping) for cover in covers.values()):
        raise ManifestError(f"{what} is not an object")
    # There are many covers of very few shapes.
    for keys in {tuple(cover) for cover in covers.values()}:
        mapping(dict.fromkeys(keys), what)
    return dict(covers)


def _tree(taxonomy: Mapping[str, Any], where: str) -> None:
    if len(taxonomy) != 1:
        raise ManifestError(f"{where}.taxonomy has not exactly one root")
    level: list[Mapping[str, Any]] = [taxonomy]
    leaves: list[str] = []
    for _ in range(_MAX_DEPTH):
        following: list[Mapping[str, Any]] = []
        for node in level:
            for label, children in node.items():
                if mapping(children, f"a node in {where}.taxonomy"):
                    following.append(children)
                else:
                    leaves.append(label)
        if not following:
            break
        level = following
    else:
        raise ManifestError(f"{where}.taxonomy is nested too deeply")
    if len(set(leaves)) != len(leaves):
        raise ManifestError(f"{where}.taxonomy has the same leaf twice")
