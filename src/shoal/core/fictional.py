"""Lists of common names from which the names of fictional people are drawn."""

from __future__ import annotations

GIVEN_NAMES = (
    *("Adam", "Alice", "Anna", "Antonio", "Benjamin", "Camille", "Charlotte", "Daniel", "Emma", "Felix", "Hannah"),
    *("Henry", "Isabella", "Jonas", "Julien", "Laura", "Leon", "Lucy", "Manuel", "Marie", "Noah", "Oscar", "Paula"),
    *("Peter", "Rachel", "Samuel", "Sophie", "Thomas", "Ursula"),
)
FAMILY_NAMES = (
    *("Adams", "Baker", "Bauer", "Becker", "Bernard", "Carter", "Clark", "Colombo", "Costa", "Durand", "Evans"),
    *("Fischer", "Garcia", "Green", "Hall", "Jansen", "Jensen", "Kelly", "Klein", "Lopez", "Martin", "Moore", "Novak"),
    *("Petit", "Rossi", "Ruiz", "Silva", "Taylor", "Turner", "Weber", "Young"),
)
