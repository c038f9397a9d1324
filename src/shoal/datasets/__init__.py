"""Tables to try things on: generated hospital stays, and loaders for Adult and Nursery."""

from shoal.datasets.hospital import diagnosis_tree, hospital_policy, occupation_tree, stays
from shoal.datasets.hospital_files import write_stays
from shoal.datasets.two_hospitals import write_two_hospitals
from shoal.datasets.uci import adult, adult_hierarchy, adult_policy, nursery

__all__ = [
    "adult",
    "adult_hierarchy",
    "adult_policy",
    "diagnosis_tree",
    "hospital_policy",
    "nursery",
    "occupation_tree",
    "stays",
    "write_stays",
    "write_two_hospitals",
]
