"""Reading a policy document: every mistake is reported with its line or key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from shoal.columns.base import Technique, list_changed
from shoal.columns.baskets import ItemOptions
from shoal.columns.rounding import Rounding
from shoal.columns.sampling import Sampling
from shoal.core.documents import Place
from shoal.core.errors import PolicyError, ShoalError, did_you_mean
from shoal.core.registry import find
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.policy.policy import FINDINGS, AttributeOptions, AttributePolicy, Policy, Role, TableOptions
from shoal.sources.base import SourceOptions
from shoal.taxonomies.builders import TaxonomyBuilder

_LIMITS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
}
_NO_NUMBER = "must be a number; received a truth value, which is how YAML reads yes, no, on and off"

B = TypeVar("B", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class _Kind(Generic[B]):
    """A kind of component that policies name, with an example for messages."""

    what: str
    package: str
    base: type[B]
    example: str


_MODEL = _Kind("privacy model", "shoal.models", PrivacyModel, "{k-anonymity: {k: 5}}")
_METHOD = _Kind("method", "shoal.methods", Method, "{mondrian: {}}")
_TECHNIQUE = _Kind("technique", "shoal.columns", Technique, "{noise: {laplace: {scale: 2}}}")
_TAXONOMY = _Kind(
    "taxonomy", "shoal.taxonomies.builders", TaxonomyBuilder, "{intervals: {min: 0, max: 120, widths: [5, 10]}}"
)


def _choose_role(options: AttributeOptions) -> Role:
    """Return the role of an attribute; a survey weight is left out unless the policy publishes it."""
    if options.role == "weight":
        return "insensitive" if options.publish in ("rounded", "as-is") else "identifier"
    return "identifier" if options.role == "drop" else options.role


class PolicyReader:
    """Converts a document to a policy and collects its mistakes with their lines or keys."""

    NESTED = ("taxonomy", "items", "technique")
    KEYS = ("attributes", "privacy", "method", *TableOptions.model_fields, "sample", "source")

    def __init__(self, name: str, lines: dict[Place, int], folder: Path) -> None:
        self._name = name
        self._lines = lines
        self._folder = folder
        self._problems: list[str] = []
        self._dropped: list[str] = []

    def policy(self, document: Any) -> Policy:
        if not isinstance(document, Mapping):
            raise PolicyError(f"{self._name}: a policy is a mapping with the keys {', '.join(self.KEYS)}")
        for key in document:
            if key == "survey_weight":
                self._note((key,), f"is no longer a key; write attributes: {{{document[key]}: {{role: weight}}}}")
            elif key not in self.KEYS:
                self._note((str(key),), f"unknown key {str(key)!r}{did_you_mean(str(key), self.KEYS)}")
        # Invalid entries are noted and replaced by defaults, in order to find all mistakes.
        given = {key: document[key] for key in TableOptions.model_fields if key in document}
        table = self._valid(TableOptions, given, ()) or TableOptions()
        source = self._valid(SourceOptions, document.get("source") or {}, ("source",)) or SourceOptions()
        sample = self._valid(Sampling, document["sample"], ("sample",)) if document.get("sample") is not None else None
        attributes = self._attributes(document.get("attributes"))
        self._check_units(table, sample, attributes)
        self._check_accepted(table, attributes)
        sensitive = [name for name, attribute in attributes.items() if attribute.role == "sensitive"]
        for name in table.max_generalized:
            self._check_known(("max_generalized", name), name, sensitive, "a sensitive attribute of the policy")
        method = self._component(_METHOD, document.get("method", {"mondrian": {}}), ("method",))
        privacy = self._privacy(document.get("privacy"), attributes, method)
        self._check_changed(method, sample, attributes)
        if self._problems or method is None:
            raise PolicyError("\n".join(f"{self._name}, {problem}" for problem in self._problems))
        return Policy(
            attributes=attributes,
            privacy=tuple(privacy),
            method=method,
            source=source,
            document=document,
            folder=self._folder,
            sample=sample,
            dropped=tuple(self._dropped),
            survey_weight=next(
                (str(name) for name, options in document["attributes"].items() if options.get("role") == "weight"), None
            ),
            **dict(table),
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
            plain = {key: value for key, value in options.items() if key not in self.NESTED}
            valid = self._valid(AttributeOptions, plain, here, also=self.NESTED)
            nested = {key: options.get(key) for key in self.NESTED}
            items = None if nested["items"] is None else self._valid(ItemOptions, nested["items"], (*here, "items"))
            builder = self._component(_TAXONOMY, nested["taxonomy"], (*here, "taxonomy"))
            technique = self._component(_TECHNIQUE, nested["technique"], (*here, "technique"))
            if valid is not None and valid.role == "drop":
                for key in (key for key in (*self.NESTED, "publish") if key in options):
                    self._note((*here, key), "is of no use for a column that is left out")
                self._dropped.append(str(name))
            elif valid is not None:
                if valid.role in ("identifier", "insensitive", "weight") and builder is not None:
                    self._note(here, f"an attribute of role {valid.role} cannot have a taxonomy")
                if items is not None and (valid.role != "quasi" or builder is not None):
                    self._note(here, "an attribute with items has the role quasi and no taxonomy")
                own = valid.weight, valid.description, items, technique, valid.same_as, valid.value_weights
                self._check_weight(valid, technique, here)
                attribute = AttributePolicy(_choose_role(valid), builder, *own)
                self._check_technique(attribute, (*here, "technique"))
                attributes[str(name)] = attribute
        self._check_items(attributes)
        self._check_carried(attributes)
        weights = [str(name) for name, one in given.items() if isinstance(one, Mapping) and one.get("role") == "weight"]
        if len(weights) > 1:
            self._note(place, f"several attributes have the role weight: {', '.join(weights)}; keep one")
        if len(self._problems) == before and not any(a.role == "quasi" for a in attributes.values()):
            self._note(place, "no attribute has the role quasi: without one there is nothing to protect people by")
        return attributes

    def _check_weight(self, options: AttributeOptions, technique: Technique | None, place: Place) -> None:
        """Note a survey weight without a valid way of publishing it, and ``publish`` of other roles."""
        if options.role != "weight":
            if options.publish is not None:
                self._note((*place, "publish"), f"is for the role weight, not {options.role}")
            return
        rounded = isinstance(technique, Rounding)
        if options.publish == "rounded" and not rounded:
            self._note(place, "rounded to what? Add technique: {rounding: {base: 50}}, with a base that fits")
        elif technique is not None and not (rounded and options.publish == "rounded"):
            self._note(place, "the only technique for a survey weight is rounding; then write publish: rounded")

    def _check_technique(self, attribute: AttributePolicy, place: Place) -> None:
        """Note a technique that does not fit the attribute."""
        technique = attribute.technique
        if technique is None:
            return
        if attribute.role not in technique.roles:
            roles = ", ".join(technique.roles)
            self._note(place, f"{technique.name} is for attributes of role {roles}, not {attribute.role}")
        if attribute.items is not None:
            self._note(place, "an attribute with items has no technique")
        if technique.makes_tokens and attribute.taxonomy is not None:
            self._note(place, f"{technique.name} makes tokens, which have no taxonomy; remove one of the two")

    def _check_carried(self, attributes: Mapping[str, AttributePolicy]) -> None:
        """Note techniques that cannot change their column, and columns that two techniques change."""
        techniques = {name: one.technique for name, one in attributes.items() if one.technique is not None}
        published = [name for name, one in attributes.items() if one.role != "identifier" and one.items is None]
        taken = set(techniques)
        for name, technique in techniques.items():
            place: Place = ("attributes", name, "technique", technique.name)
            if reason := technique.refuse(name):
                self._note(place, reason)
                continue
            for other in technique.carried:
                self._check_known(place, other, published, "a published attribute of single values")
                if other in taken:
                    self._note(place, f"also changes {other!r}, which another technique changes; remove one of them")
                taken.add(other)

    def _check_changed(
        self, method: Method | None, sample: Sampling | None, attributes: Mapping[str, AttributePolicy]
    ) -> None:
        """Note techniques, items and samples if the method's guarantee is about the original table."""
        if method is None or not method.draws_rows:
            return
        changes = [f"the technique of {name!r}" for name, one in attributes.items() if one.technique is not None]
        changes += [f"the items of {name!r}" for name, one in attributes.items() if one.items is not None]
        changes += [] if sample is None else ["sample"]
        if changes:
            self._note(("method",), f"{method.name} needs the original records; remove {changes[0]}")

    def _check_items(self, attributes: Mapping[str, AttributePolicy]) -> None:
        """Note attributes from baskets whose name another attribute has."""
        taken = set(attributes)
        for name, attribute in attributes.items():
            derived = () if attribute.items is None else attribute.items.names(name)
            clashes = [other for other in derived if other in taken]
            if clashes:
                self._note(("attributes", name, "items"), f"makes {clashes[0]!r}, which another attribute is called")
            taken.update(derived)

    def _check_units(
        self, table: TableOptions, sample: Sampling | None, attributes: Mapping[str, AttributePolicy]
    ) -> None:
        """Note units that are not identifiers, and a sample by a unit that is not declared."""
        named = {"unit": table.unit, "household": table.household}
        if sample is not None and sample.one_per is not None and named.get(sample.one_per) is None:
            self._note(("sample", "one_per"), f"the policy does not say which column is the {sample.one_per}")
        identifiers = [name for name, attribute in attributes.items() if attribute.role == "identifier"]
        for key, name in named.items():
            if name is not None:
                advice = "; declare it with the role identifier"
                self._check_known((key,), name, identifiers, "an identifier of the policy", advice)
                technique = attributes[name].technique if name in attributes else None
                if technique is not None and not technique.consistent:
                    self._note((key,), f"{technique.name} removes the values that distinguish people; use a pseudonym")

    def _check_accepted(self, table: TableOptions, attributes: Mapping[str, AttributePolicy]) -> None:
        """Note accepted findings and columns that do not exist."""
        derived = [one for name, own in attributes.items() if own.items is not None for one in own.items.names(name)]
        columns = [*attributes, *derived]
        for number, accepted in enumerate(table.accept):
            place: Place = ("accept", number)
            self._check_known((*place, "finding"), accepted.finding, FINDINGS, "a known finding", _list_known(FINDINGS))
            for name in accepted.about:
                self._check_known((*place, "about"), name, columns, "a known column", _list_known(columns))

    def _check_known(self, place: Place, name: str, known: Collection[str], what: str, otherwise: str = "") -> None:
        """Note a name that is not *what* it should be, with the nearest known name or *otherwise* other advice."""
        if name not in known:
            self._note(place, f"{name!r} is not {what}{did_you_mean(name, known) or otherwise}")

    def _privacy(
        self, given: Any, attributes: Mapping[str, AttributePolicy], method: Method | None
    ) -> list[PrivacyModel]:
        place: Place = ("privacy",)
        if isinstance(given, Mapping):
            given = [{name: parameters} for name, parameters in given.items()]
        if method is not None and method.models != "required":
            if given == []:
                return []
            if given is None or method.models == "none":
                why = "promises nothing about classes" if method.models == "none" else "may promise nothing"
                self._note(place, f"{method.name} {why}; say so with privacy: []")
                return []
        if method is None and given == []:
            return []  # the method is invalid, so it is not known whether it needs models
        if not isinstance(given, list | tuple) or not given:
            self._note(place, "must list at least one model, e.g. [{k-anonymity: {k: 5}}]")
            return []
        models = []
        for index, entry in enumerate(given):
            model = self._component(_MODEL, entry, (*place, index))
            if model is not None:
                self._check_attribute(model, attributes, (*place, index, model.name))
                self._check_population(model, attributes, (*place, index, model.name))
                models.append(model)
        return models

    def _check_attribute(self, model: PrivacyModel, attributes: Mapping[str, AttributePolicy], place: Place) -> None:
        sensitive = [one for name, attribute in attributes.items() for one in attribute.sensitive_names(name)]
        if model.sees != "values":
            return
        if not sensitive:
            self._note(place, "needs a sensitive attribute, and the policy declares none")
        for name in model.attributes:
            advice = f"; the sensitive ones are {', '.join(sensitive)}"
            self._check_known((*place, "attribute"), name, sensitive, "a sensitive attribute", advice)

    def _check_population(self, model: PrivacyModel, attributes: Mapping[str, AttributePolicy], place: Place) -> None:
        """Note a population model whose quasi values a technique changes."""
        techniques = {name: one.technique for name, one in attributes.items() if one.technique is not None}
        changed = [name for name in list_changed(techniques) if name in attributes and attributes[name].role == "quasi"]
        if model.sees == "population" and changed:
            self._note(place, f"finds people by their quasi values, which the technique of {changed[0]!r} changes")

    def _component(self, kind: _Kind[B], given: Any, place: Place) -> B | None:
        """Read a model, method, technique or taxonomy: a name with parameters; None for an optional one."""
        if given is None and kind in (_TAXONOMY, _TECHNIQUE):
            return None
        if isinstance(given, str):
            name, parameters = given, None
        elif isinstance(given, Mapping) and len(given) == 1:
            name, parameters = next((str(key), value) for key, value in given.items())
        else:
            self._note(place, f"a {kind.what} is one name with its parameters, e.g. {kind.example}")
            return None
        try:
            found = find(kind.package, kind.base, name, what=kind.what)
        except PolicyError as error:
            self._note(place, str(error))
            return None
        here = (*place, name)
        try:
            valid = self._valid(found, parameters if parameters or kind is _TAXONOMY else {}, here)
            return valid.resolve(self._folder) if isinstance(valid, Technique | TaxonomyBuilder) else valid
        except ShoalError as error:
            self._note(here, str(error))
            return None

    def _valid(self, kind: type[B], data: Any, place: Place, also: tuple[str, ...] = ()) -> B | None:
        if not isinstance(data, Mapping) and not issubclass(kind, TaxonomyBuilder):
            self._note(place, "must be a mapping of parameters")
            return None
        try:
            valid = kind.model_validate(data)
            given = data if isinstance(data, Mapping) else {getattr(kind, "shorthand", None): data}
            for found in booleans_as_numbers(given, valid.model_dump(by_alias=True)):
                self._note((*place, *found), _NO_NUMBER)
            return valid
        except ValidationError as error:
            known = [field.alias or name for name, field in kind.model_fields.items()] + list(also)
            for problem in error.errors(include_url=False, include_context=True):
                self._note((*place, *problem["loc"]), sentence(dict(problem), known))
            return None

    def _note(self, place: Place, problem: str) -> None:
        line = next((self._lines[place[:n]] for n in range(len(place), 0, -1) if place[:n] in self._lines), None)
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
        self._problems.append(f"line {line}, {key}: {problem}" if line else f"{key}: {problem}")


def sentence(problem: dict[str, Any], known: list[str]) -> str:
    """Return the message for a pydantic error."""
    context, received, message = problem.get("ctx", {}), problem.get("input"), str(problem["msg"])
    got = f"; received {received!r}" if isinstance(received, str | int | float | bool) else ""
    match problem["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            name = str(problem["loc"][-1])
            return f"unknown key {name!r}{did_you_mean(name, known) or _list_known(known)}"
        case "literal_error":
            choices = str(context["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
            return f"must be one of {context['expected']}{did_you_mean(str(received), choices)}{got}"
        case "value_error":
            return str(context.get("error", message))
        case kind if kind in _LIMITS:
            return f"must be {_LIMITS[kind].format(**context)}{got}"
    return f"{message[:1].lower()}{message[1:]}{got}"


def _list_known(known: Iterable[str]) -> str:
    return "; known: " + ", ".join(known)


def booleans_as_numbers(given: Any, valid: Any) -> Iterator[Place]:
    """Yield the places of booleans that pydantic converted to other types.

    >>> list(booleans_as_numbers({"k": True, "widths": [5, False]}, {"k": 1, "widths": (5, 0)}))
    [('k',), ('widths', 1)]
    >>> list(booleans_as_numbers({"random": True}, {"random": True}))
    []
    """
    if isinstance(given, bool):
        if not isinstance(valid, bool):
            yield ()
        return
    inside: Iterable[tuple[str | int, Any, Any]] = ()
    if isinstance(given, Mapping) and isinstance(valid, Mapping):
        inside = [(str(key), one, valid[str(key)]) for key, one in given.items() if str(key) in valid]
    elif isinstance(given, list | tuple) and isinstance(valid, list | tuple):
        inside = [(place, one, other) for place, (one, other) in enumerate(zip(given, valid, strict=False))]
    for place, one, other in inside:
        yield from ((place, *rest) for rest in booleans_as_numbers(one, other))
