"""What a policy says of a column that holds sets of items."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

NONE = "none"  # what an empty set is published as


class ItemOptions(BaseModel):
    """A column of baskets: texts of items with a separator between them.

    >>> ItemOptions(columns=2, sensitive=["test"]).names("basket")
    ('basket 1', 'basket 2', 'basket sensitive')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    separator: str = Field(
        default=";", min_length=1, description="text between two items; blanks around items fall away"
    )
    columns: int = Field(default=4, ge=1, description="groups of items that go together; each becomes an attribute")
    sensitive: tuple[str, ...] = Field(default=(), description="items that nobody may be known to have")

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if any(character in self.separator for character in "\r\n\0"):
            raise ValueError("separator must not end lines")
        for item in self.sensitive:
            if not item or item != item.strip() or self.separator in item:
                raise ValueError(
                    f"sensitive: {item!r} is no item: it is empty, has blanks around it or the separator in it"
                )
        if len(set(self.sensitive)) < len(self.sensitive):
            raise ValueError("sensitive: an item is listed twice")
        return self

    def quasi_names(self, name: str) -> tuple[str, ...]:
        """Return the attributes of the groups."""
        return tuple(f"{name} {number}" for number in range(1, self.columns + 1))

    def sensitive_names(self, name: str) -> tuple[str, ...]:
        """Return the attribute of the sensitive items, if there are some."""
        return (f"{name} sensitive",) if self.sensitive else ()

    def names(self, name: str) -> tuple[str, ...]:
        """Return the attributes that take the place of the column *name*."""
        return (*self.quasi_names(name), *self.sensitive_names(name))
