"""The generated pages of the documentation site: references made from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./((?:src|tests|bench|experiments)/[^)]*)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that nobody writes by hand."""
    pages = {
        "reference/command.md": describe_command(),
        "reference/policy.md": describe_policy(),
        "reference/python.md": describe_names(),
    }
    for name, lines in pages.items():
        files.append(File.generated(config, name, content="\n".join(lines) + "\n"))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Name files of the repository that are not part of the site instead of linking them."""
    return _OUTSIDE.sub(r"\1 (`\2`)", markdown)


def describe_command() -> Iterator[str]:
    """Yield the help of every command, as the terminal shows it."""
    import typer

    from shoal.cli import app

    def describe(command: Any, context: Any, name: str) -> Iterator[str]:
        with type(context)(command, info_name=name, parent=context) as own:
            yield from ["", f"## {own.command_path}", "", "```text", command.get_help(own), "```"]
            for inner, one in getattr(command, "commands", {}).items():
                yield from describe(one, own, inner)

    yield from ["# The command", "", "Exit codes: 0 done and verified, 2 bad input or usage, 3 requirement not"]
    yield "reachable, 4 verification failed and nothing published, 5 open high findings with `--strict` and nothing"
    yield "published, 130 interrupted."
    root = typer.main.get_command(app)
    context = root.make_context("shoal", [], resilient_parsing=True)
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        yield from describe(command, context, name)


def describe_policy() -> Iterator[str]:
    """Yield every key of a policy with its values, default and meaning, by the JSON Schema."""
    from shoal.policy.policy import policy_schema

    schema = policy_schema()["properties"]
    yield from ["# The policy, key by key", "", "Made from the JSON Schema that `shoal policy schema` prints.", ""]
    simple = {key: part for key, part in schema.items() if "oneOf" not in part and key not in ("attributes", "privacy")}
    yield from ["## Keys of a policy", "", *_list_keys(simple)]
    attribute = schema["attributes"]["additionalProperties"]["properties"]
    plain = {key: part for key, part in attribute.items() if "oneOf" not in part}
    yield from ["", "## Keys of an attribute", "", *_list_keys(plain)]
    alternatives = {
        "Models (`privacy`)": schema["privacy"]["items"],
        "Methods (`method`)": schema["method"],
        "Taxonomies (`taxonomy` of an attribute)": attribute["taxonomy"],
        "Techniques (`technique` of an attribute)": attribute["technique"],
    }
    for title, part in alternatives.items():
        yield from ["", f"## {title}"]
        for one in part["oneOf"]:
            ((name, options),) = one["properties"].items()
            yield from ["", f"### {name}", "", one["description"].replace("<", "&lt;"), ""]
            yield from _list_keys(options.get("properties", {}))


def _list_keys(parts: dict[str, Any]) -> Iterator[str]:
    if not parts:
        yield "No parameters."
        return
    yield from ["| key | values | default | meaning |", "|---|---|---|---|"]
    for key, part in parts.items():
        default = (
            ""
            if "default" not in part or isinstance(part["default"], (dict, list, type(None)))
            else f"`{part['default']}`"
        )
        yield f"| `{key}` | {_values(part)} | {default} | {part.get('description', '').replace('|', '/')} |"
        inner = part.get("properties", {})
        for name, one in inner.items():
            yield f"| `{key}.{name}` | {_values(one)} | | {one.get('description', '').replace('|', '/')} |"


def _values(part: dict[str, Any]) -> str:
    """Say which values a key takes."""
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_values(one) for one in part["anyOf"] if one.get("type") != "null"))
    if "enum" in part or "const" in part:
        return ", ".join(f"`{one}`" for one in part.get("enum", [part.get("const")]))
    names = {
        "array": "list",
        "object": "mapping",
        "string": "text",
        "integer": "whole number",
        "boolean": "true or false",
    }
    limits = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "above", "exclusiveMaximum": "below"}
    ends = [f"{words} {part[key]}" for key, words in limits.items() if key in part]
    return " ".join([names.get(part.get("type", ""), part.get("type", "any")), ", ".join(ends)]).strip()


def describe_names() -> Iterator[str]:
    """Yield the public names with their signatures and what they say of themselves."""
    import shoal

    yield from ["# Python", "", "Everything that `import shoal` offers; other names may change without notice."]
    for name in shoal.__all__:
        found = getattr(shoal, name)
        yield from ["", f"## shoal.{name}", "", *_describe(name, found)]
        members = vars(found).items() if inspect.isclass(found) else ()
        for own, member in members:
            call = member.__func__ if isinstance(member, classmethod) else member
            if not own.startswith("_") and (inspect.isfunction(call) or isinstance(call, property)):
                yield from ["", f"### {name}.{own}", "", *_describe(f"{name}.{own}", call)]


def _describe(name: str, found: Any) -> Iterator[str]:
    """Yield a signature and a docstring, whose examples become blocks of code."""
    if inspect.isfunction(found):
        yield from ["```python", f"{name}{inspect.signature(found)}", "```", ""]
    example = False
    for line in (inspect.getdoc(found) or "").replace("``", "`").splitlines():
        begins, ends = line.startswith(">>>") and not example, not line.strip() and example
        yield from (["", "```python", line] if begins else ["```", ""] if ends else [line])
        example = (example or begins) and not ends
    if example:
        yield "```"
