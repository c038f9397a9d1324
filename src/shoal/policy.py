"""What the data holder wants: roles, taxonomies, privacy models, method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shoal.errors import PolicyError, ShoalError, did_you_mean
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.registry import discover, find
from shoal.sources.options import SourceOptions
from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.transactions.options import ItemOptions
from shoal.yaml_lines import Place, load_with_lines, read_text

Role = Literal["identifier", "quasi", "sensitive", "insensitive"]
B = TypeVar("B", bound=BaseModel)


class AttributeOptions(BaseModel):
    """What a policy may say of one attribute, its taxonomy and its items aside."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role = Field(
        description="identifier: never published; quasi: known to others; sensitive: to be protected; "
        "insensitive: published as it is"
    )
    weight: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="how much the detail of a quasi attribute matters; under sweep, also of a sensitive one",
    )
    description: str | None = Field(default=None, description="what the column means, for the data dictionary")


class TableOptions(BaseModel):
    """What a policy says of the table as a whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    missing: Literal["category", "drop"] = Field(
        default="category",
        description="category: a missing value is a value of its own; drop: records with one are left out",
    )
    max_withheld: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="largest share of records that may be withheld for a better table",
    )
    unit: str | None = Field(
        default=None, description="the identifier that names the person, if one person may have many records"
    )
    household: str | None = Field(default=None, description="the identifier that names the household")


@dataclass(frozen=True, slots=True)
class AttributePolicy:
    """One attribute's role and taxonomy; without a taxonomy it gets the one that fits its kind.

    With ``items`` the column holds sets, and other attributes take its place.
    """

    role: Role
    taxonomy: TaxonomyBuilder | None = None
    weight: float = 1.0
    description: str | None = None
    items: ItemOptions | None = None

    def sensitive_names(self, name: str) -> tuple[str, ...]:
        """Return the sensitive attributes that a column of this name gives."""
        if self.items is not None:
            return self.items.sensitive_names(name)
        return (name,) if self.role == "sensitive" else ()


@dataclass(frozen=True, slots=True)
class Policy:
    """A valid policy.

    >>> policy = Policy.load({
    ...     "attributes": {"age": {"role": "quasi"}, "disease": {"role": "sensitive"}},
    ...     "privacy": [{"k-anonymity": {"k": 5}}],
    ... })
    >>> policy.names("quasi"), policy.method.name
    (('age',), 'mondrian')
    """

    attributes: Mapping[str, AttributePolicy]
    privacy: tuple[PrivacyModel, ...]
    method: Method
    missing: Literal["category", "drop"]
    max_withheld: float
    source: SourceOptions
    document: Mapping[str, Any]  # as it was written
    folder: Path  # relative paths start here
    unit: str | None = None  # the identifier that names the person; None: every record is one
    household: str | None = None

    def names(self, role: Role) -> tuple[str, ...]:
        """Return the attributes of one role in the order of the policy, which is that of importance."""
        return tuple(name for name, attribute in self.attributes.items() if attribute.role == role)

    @classmethod
    def load(cls, policy: str | Path | Mapping[str, Any] | Policy) -> Policy:
        """Read a policy from a YAML or JSON file or a mapping; every mistake in it is reported at once."""
        if isinstance(policy, Policy):
            return policy
        if isinstance(policy, Mapping):
            return _Reader("policy", {}, Path()).policy(policy)
        path = Path(policy)
        document, lines = load_with_lines(read_text(path), path.name)
        return _Reader(path.name, lines, path.parent).policy(document)


class _Reader:
    """Turns a document into a policy and collects what is wrong with it, each with its line or key."""

    KEYS = ("attributes", "privacy", "method", *TableOptions.model_fields, "source")

    def __init__(self, name: str, lines: dict[Place, int], folder: Path) -> None:
        self._name = name
        self._lines = lines
        self._folder = folder
        self._problems: list[str] = []

    def policy(self, document: Any) -> Policy:
        if not isinstance(document, Mapping):
            raise PolicyError(f"{self._name}: a policy is a mapping with the keys {', '.join(self.KEYS)}")
        for key in document:
            if key not in self.KEYS:
                self._note((str(key),), f"unknown key {str(key)!r}{did_you_mean(str(key), self.KEYS)}")
        table = self._valid(TableOptions, {k: document[k] for k in TableOptions.model_fields if k in document}, ())
        source = self._valid(SourceOptions, document.get("source") or {}, ("source",))
        attributes = self._attributes(document.get("attributes"))
        self._check_units(table, attributes)
        privacy = self._privacy(document.get("privacy"), attributes)
        method = self._method(document.get("method", {"mondrian": {}}))
        if self._problems or table is None or source is None or method is None:
            raise PolicyError("\n".join(f"{self._name}, {problem}" for problem in self._problems))
        return Policy(
            attributes=attributes,
            privacy=tuple(privacy),
            method=method,
            missing=table.missing,
            max_withheld=table.max_withheld,
            source=source,
            document=document,
            folder=self._folder,
            unit=table.unit,
            household=table.household,
        )

    def _attributes(self, given: Any) -> dict[str, AttributePolicy]:
        place: Place = ("attributes",)
        if not isinstance(given, Mapping) or not given:
            self._note(place, "must list the columns, e.g. {age: {role: quasi}}")
            return {}
        attributes: dict[str, AttributePolicy] = {}
        before = len(self._problems)
        for name, options in given.items():
            here = (*place, str(name))
            if not isinstance(options, Mapping):
                self._note(here, "must be a mapping such as {role: quasi}")
                continue
            plain = {key: value for key, value in options.items() if key not in ("taxonomy", "items")}
            valid = self._valid(AttributeOptions, plain, here, also=("taxonomy", "items"))
            items = None
            if options.get("items") is not None:
                items = self._valid(ItemOptions, options["items"], (*here, "items"))
            builder = None
            if options.get("taxonomy") is not None:
                builder = self._taxonomy(options["taxonomy"], (*here, "taxonomy"))
            if valid is not None:
                if valid.role in ("identifier", "insensitive") and builder is not None:
                    self._note(here, f"an attribute of role {valid.role} has no use for a taxonomy")
                if items is not None and (valid.role != "quasi" or builder is not None):
                    self._note(here, "an attribute with items has the role quasi and no taxonomy")
                attributes[str(name)] = AttributePolicy(valid.role, builder, valid.weight, valid.description, items)
        self._check_items(attributes)
        if len(self._problems) == before and not any(a.role == "quasi" for a in attributes.values()):
            self._note(place, "no attribute has the role quasi: without one there is nothing to protect people by")
        return attributes

    def _check_items(self, attributes: Mapping[str, AttributePolicy]) -> None:
        """Note attributes that would take the place of baskets under a name that another one has."""
        taken = set(attributes)
        for name, attribute in attributes.items():
            derived = () if attribute.items is None else attribute.items.names(name)
            clashes = [other for other in derived if other in taken]
            if clashes:
                self._note(("attributes", name, "items"), f"makes {clashes[0]!r}, which another attribute is called")
            taken.update(derived)

    def _check_units(self, table: TableOptions | None, attributes: Mapping[str, AttributePolicy]) -> None:
        """Note a person's or a household's column that is not an identifier."""
        named = {} if table is None else {"unit": table.unit, "household": table.household}
        identifiers = [name for name, attribute in attributes.items() if attribute.role == "identifier"]
        for key, name in named.items():
            if name is not None and name not in identifiers:
                hint = did_you_mean(name, identifiers) or "; declare it with the role identifier"
                self._note((key,), f"{name!r} is not an identifier of the policy{hint}")

    def _taxonomy(self, given: Any, place: Place) -> TaxonomyBuilder | None:
        name, parameters = self._named(given, place, "taxonomy", "{intervals: {min: 0, max: 120, widths: [5, 10]}}")
        if name is None:
            return None
        try:
            builder = find("shoal.taxonomies.builders", TaxonomyBuilder, name, what="taxonomy")
            valid = self._valid(builder, parameters, (*place, name))
            return None if valid is None else valid.resolve(self._folder)
        except ShoalError as error:
            self._note((*place, name), str(error))
            return None

    def _privacy(self, given: Any, attributes: Mapping[str, AttributePolicy]) -> list[PrivacyModel]:
        place: Place = ("privacy",)
        if isinstance(given, Mapping):
            given = [{name: parameters} for name, parameters in given.items()]
        if not isinstance(given, list | tuple) or not given:
            self._note(place, "must list at least one model, e.g. [{k-anonymity: {k: 5}}]")
            return []
        models = []
        for index, entry in enumerate(given):
            here = (*place, index)
            name, parameters = self._named(entry, here, "privacy model", "{k-anonymity: {k: 5}}")
            if name is None:
                continue
            try:
                model = find("shoal.models", PrivacyModel, name, what="privacy model")
            except PolicyError as error:
                self._note(here, str(error))
                continue
            valid = self._valid(model, parameters or {}, (*here, name))
            if valid is not None:
                self._check_attribute(valid, attributes, (*here, name))
                models.append(valid)
        return models

    def _check_attribute(self, model: PrivacyModel, attributes: Mapping[str, AttributePolicy], place: Place) -> None:
        sensitive = [one for name, attribute in attributes.items() for one in attribute.sensitive_names(name)]
        if model.sees != "values":
            return
        if not sensitive:
            self._note(place, "needs a sensitive attribute, and the policy declares none")
        for name in model.attributes:
            if name not in sensitive:
                hint = did_you_mean(name, sensitive) or f"; the sensitive ones are {', '.join(sensitive)}"
                self._note((*place, "attribute"), f"{name!r} is not a sensitive attribute{hint}")

    def _method(self, given: Any) -> Method | None:
        place: Place = ("method",)
        if isinstance(given, str):
            given = {given: {}}
        name, parameters = self._named(given, place, "method", "{mondrian: {}}")
        if name is None:
            return None
        try:
            method = find("shoal.methods", Method, name, what="method")
        except PolicyError as error:
            self._note(place, str(error))
            return None
        return self._valid(method, parameters or {}, (*place, name))

    def _named(self, given: Any, place: Place, what: str, example: str) -> tuple[str | None, Any]:
        if isinstance(given, str):
            return given, None
        if isinstance(given, Mapping) and len(given) == 1:
            name, parameters = next(iter(given.items()))
            return str(name), parameters
        self._note(place, f"a {what} is one name with its parameters, e.g. {example}")
        return None, None

    def _valid(self, kind: type[B], data: Any, place: Place, also: tuple[str, ...] = ()) -> B | None:
        if not isinstance(data, Mapping) and not issubclass(kind, TaxonomyBuilder):
            self._note(place, "must be a mapping of parameters")
            return None
        try:
            return kind.model_validate(data)
        except ValidationError as error:
            known = [field.alias or name for name, field in kind.model_fields.items()] + list(also)
            for problem in error.errors(include_url=False, include_context=True):
                self._note((*place, *problem["loc"]), _sentence(dict(problem), known))
            return None

    def _note(self, place: Place, problem: str) -> None:
        line = next((self._lines[place[:n]] for n in range(len(place), 0, -1) if place[:n] in self._lines), None)
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
        self._problems.append(f"line {line}, {key}: {problem}" if line else f"{key}: {problem}")


def _sentence(problem: dict[str, Any], known: list[str]) -> str:
    """Say one pydantic error in our words."""
    context, received = problem.get("ctx", {}), problem.get("input")
    got = f"; received {received!r}" if isinstance(received, str | int | float | bool) else ""
    match problem["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            name = str(problem["loc"][-1])
            return f"unknown key {name!r}{did_you_mean(name, known) or '; known: ' + ', '.join(known)}"
        case "greater_than_equal":
            return f"must be at least {context['ge']}{got}"
        case "greater_than":
            return f"must be more than {context['gt']}{got}"
        case "less_than_equal":
            return f"must be at most {context['le']}{got}"
        case "less_than":
            return f"must be less than {context['lt']}{got}"
        case "literal_error":
            return f"must be one of {context['expected']}{did_you_mean(str(received), _choices(context))}{got}"
        case "int_type" | "int_parsing" | "int_from_float":
            return f"must be a whole number{got}"
        case "float_type" | "float_parsing":
            return f"must be a number{got}"
        case "value_error":
            return str(context.get("error", problem["msg"]))
        case _:
            return f"{str(problem['msg'])[:1].lower()}{str(problem['msg'])[1:]}{got}"


def _choices(context: Mapping[str, Any]) -> list[str]:
    return str(context["expected"]).replace("'", "").replace(" or ", ", ").split(", ")


def policy_schema() -> dict[str, Any]:
    """Return the JSON Schema of policies, put together from what models, methods and builders declare."""

    def one_of(package: str, base: type[Any]) -> dict[str, Any]:
        return {
            "oneOf": [
                {
                    "type": "object",
                    "description": getattr(kind, "title", (kind.__doc__ or "").strip().split("\n")[0]),
                    "properties": {name: kind.model_json_schema()},
                    "required": [name],
                    "additionalProperties": False,
                }
                for name, kind in discover(package, base).items()
            ]
        }

    attribute = AttributeOptions.model_json_schema()
    attribute["properties"]["taxonomy"] = one_of("shoal.taxonomies.builders", TaxonomyBuilder)
    attribute["properties"]["items"] = ItemOptions.model_json_schema()
    table = TableOptions.model_json_schema()["properties"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "shoal policy",
        "type": "object",
        "additionalProperties": False,
        "required": ["attributes", "privacy"],
        "properties": {
            "attributes": {"type": "object", "minProperties": 1, "additionalProperties": attribute},
            "privacy": {"type": "array", "minItems": 1, "items": one_of("shoal.models", PrivacyModel)},
            "method": one_of("shoal.methods", Method),
            **table,
            "source": SourceOptions.model_json_schema(),
        },
    }
