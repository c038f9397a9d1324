"""How easily records, persons with many records, and households are found by the sizes of classes and buckets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, FloatArray, IntArray
from shoal.core.errors import InputError
from shoal.core.results import Figures

MISSING = 0  # the code of a missing person or household


@dataclass(frozen=True, slots=True, eq=False)
class Appearances:
    """The person and household of records in each class; entries may be equal."""

    class_of: AnyIntArray  # (n_entries,)
    person: AnyIntArray | None  # (n_entries,) 0 is missing; None: every record is a person
    household: AnyIntArray | None  # (n_entries,) 0 is missing; None: households are not known
    records: IntArray  # (n_entries,)
    n_classes: int

    def class_sizes(self) -> IntArray:
        """Return (n_classes,) the people of each class.

        Records without a person may all be the same person's, and count as one.
        """
        if self.person is None:
            return np.bincount(self.class_of, weights=self.records, minlength=self.n_classes).astype(np.int64)
        return _distinct_of_class(self.class_of, self.person, self.n_classes)


@dataclass(frozen=True, slots=True)
class PersonRisk(Figures):
    """The risk of people who may have many records: an attacker with the values of one record finds the class."""

    unit: str
    persons: int
    records_without_person: int
    most_records: int  # of one person
    mean_records: float
    smallest_class: int  # people: the k that counts
    lone_persons: int  # who are alone in a class with at least one of their records
    lone_records: int  # of classes with one person
    unseen_classes: int  # of one person and several records: counting records hides them
    persons_in_several_classes: int

    def as_dict(self) -> dict[str, object]:
        return {
            "unit": self.unit,
            "persons": self.persons,
            "records_without_person": self.records_without_person,
            "records_of_a_person": {"highest": self.most_records, "mean": self.mean_records},
            "k": self.smallest_class,
            "lone_persons": self.lone_persons,
            "lone_records": self.lone_records,
            "classes_of_one_person_and_several_records": self.unseen_classes,
            "persons_in_several_classes": self.persons_in_several_classes,
        }


@dataclass(frozen=True, slots=True)
class HouseholdRisk(Figures):
    """The probability that an attacker finds any member of a household, and thereby the household."""

    column: str
    households: int
    records_without_household: int
    largest: int  # members
    households_of_a_class: int  # in the class with the smallest number
    highest: float
    mean: float  # over households
    mean_of_members: float  # of members alone, for comparison
    with_lone_member: int  # households with a member who is alone in a class


def person_risk(unit: str, found: Appearances) -> PersonRisk:
    """Measure people by the classes of their records."""
    if found.person is None:
        raise TypeError("persons are not known")
    sizes = found.class_sizes()
    named = found.person != MISSING
    if not named.any():
        raise InputError(f"column {unit!r} names no person: every record is missing a value")
    person, records = found.person[named], found.records[named]
    of_person = np.bincount(person, weights=records).astype(np.int64)
    of_class = np.bincount(found.class_of, weights=found.records, minlength=found.n_classes).astype(np.int64)
    there = of_person > 0
    lone = sizes[found.class_of[named]] == 1
    pairs = np.unique(_pairs(person, found.class_of[named], found.n_classes)) // found.n_classes
    return PersonRisk(
        unit=unit,
        persons=int(there.sum()),
        records_without_person=int(found.records[~named].sum()),
        most_records=int(of_person.max()),
        mean_records=float(of_person[there].mean()),
        smallest_class=int(sizes.min()),
        lone_persons=len(np.unique(person[lone])),
        lone_records=int(of_class[sizes == 1].sum()),
        unseen_classes=int(((sizes == 1) & (of_class > 1)).sum()),
        persons_in_several_classes=int((np.bincount(pairs) > 1).sum()),
    )


def people_risks(counts: str, class_of: AnyIntArray, person: AnyIntArray, records: IntArray) -> dict[str, object]:
    """Return how easily people are found by the classes of their records, with the keys of ``class_risks``.

    All figures are of people, whom *counts* names; a person who is alone in several classes is counted once.
    """
    found = Appearances(class_of, person, None, records, int(class_of.max()) + 1)
    risk = person_risk(counts, found)
    own = {"counts": counts, "records": risk.persons, "unique_records": risk.lone_persons}
    return class_risks(found.class_sizes()) | own


def household_risk(column: str, found: Appearances) -> HouseholdRisk:
    """Measure households by the classes of their members' records.

    Members are found independently: 1 minus the product of the probabilities that each is missed. A member's
    probability is given by the smallest class with one of the member's records.
    """
    if found.household is None:
        raise TypeError("households are not known")
    homes = _distinct_of_class(found.class_of, found.household, found.n_classes)  # records without one count as one
    named = found.household != MISSING
    if not named.any():
        raise InputError(f"column {column!r} names no household: every record is missing a value")
    household, missed, times = _members(found, named)
    with np.errstate(divide="ignore"):
        # A member who is certainly found has the logarithm minus infinity, and so has the household.
        logarithms = np.log(missed) * times
    members = np.bincount(household, weights=times)
    there = members > 0
    risk = 1 - np.exp(np.bincount(household, weights=logarithms)[there])
    return HouseholdRisk(
        column=column,
        households=int(there.sum()),
        records_without_household=int(found.records[~named].sum()),
        largest=int(members.max()),
        households_of_a_class=int(homes.min()),
        highest=float(risk.max()),
        mean=float(risk.mean()),
        mean_of_members=float(((1 - missed) * times).sum() / times.sum()),
        with_lone_member=int((risk == 1).sum()),
    )


def _members(found: Appearances, named: BoolArray) -> tuple[IntArray, FloatArray, IntArray]:
    """Return the household of each member, the probability of missing the member, and the number of equal members."""
    if found.household is None:
        raise TypeError("households are not known")
    missed = 1 - 1 / found.class_sizes()[found.class_of[named]]
    household, records = found.household[named].astype(np.int64), found.records[named]
    if found.person is None:
        return household, missed, records
    person = found.person[named].astype(np.int64)
    # Records of a household without a person are one member, as in classes.
    key = _pairs(household, person, int(person.max()) + 1)
    distinct, member = np.unique(key, return_inverse=True)
    least = np.ones(len(distinct))
    np.minimum.at(least, member, missed)
    return distinct // (int(person.max()) + 1), least, np.ones(len(distinct), dtype=np.int64)


def _distinct_of_class(class_of: AnyIntArray, code: AnyIntArray, n_classes: int) -> IntArray:
    """Return (n_classes,) the number of distinct codes in each class."""
    width = int(code.max()) + 1
    return np.bincount(np.unique(_pairs(class_of, code, width)) // width, minlength=n_classes)


def _pairs(major: AnyIntArray, minor: AnyIntArray, width: int) -> IntArray:
    return np.asarray(major, dtype=np.int64) * width + np.asarray(minor, dtype=np.int64)


def class_risks(sizes: IntArray, times: IntArray | None = None) -> dict[str, object]:
    """Return how easily records are found by their class, for two kinds of attackers.

    With *times*, several classes have each of the *sizes*. The prosecutor is sure that the target is in the table: 1 /
    class size. The marketer wants to find as many people as possible: the expected share is the number of classes
    divided by the number of records.
    """
    if times is None:
        every = np.bincount(sizes)
        sizes = np.flatnonzero(every)
        times = every[sizes]
    n_records, n_classes = int((sizes * times).sum()), int(times.sum())
    return {
        "records": n_records,
        "classes": n_classes,
        "smallest_class": int(sizes.min()),
        "unique_records": int(times[sizes == 1].sum()),
        "prosecutor_highest": 1.0 / int(sizes.min()),
        "prosecutor_mean": n_classes / n_records,
        "marketer": n_classes / n_records,
        "class_sizes": size_histogram(sizes, times=times),
    }


def bucket_risks(sizes: IntArray) -> dict[str, object]:
    """Return among how many records the parts of a record hide.

    >>> found = bucket_risks(np.array([4, 6]))
    >>> found["smallest_bucket"], found["mean_bucket"]
    (4, 5.0)
    """
    n_records = int(sizes.sum())
    return {
        "records": n_records,
        "buckets": len(sizes),
        "smallest_bucket": int(sizes.min()),
        "mean_bucket": n_records / len(sizes),
        "bucket_sizes": size_histogram(sizes, "buckets"),
    }


def size_histogram(sizes: IntArray, groups: str = "classes", times: IntArray | None = None) -> list[dict[str, int]]:
    """Return *groups* and their records by size, in ranges that double.

    >>> size_histogram(np.array([1, 1, 3, 9]))[1]
    {'from': 2, 'to': 3, 'classes': 1, 'records': 3}
    """
    bins = []
    low = 1
    while low <= int(sizes.max()):
        high = 2 * low - 1
        inside = (sizes >= low) & (sizes <= high)
        n_groups = int(inside.sum() if times is None else times[inside].sum())
        n_records = int((sizes[inside] * (1 if times is None else times[inside])).sum())
        bins.append({"from": low, "to": high, groups: n_groups, "records": n_records})
        low = high + 1
    return bins
