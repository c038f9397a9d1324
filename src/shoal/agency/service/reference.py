"""The page about all routes: made from the OpenAPI schema, without scripts and without anything from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c2733; }
h2 { font-size: 1.05rem; margin: 2.2rem 0 .3rem; border-top: 1px solid #c9d3dc; padding-top: 1.2rem; }
h2 b { display: inline-block; min-width: 4.8rem; color: #14507a; }
code, pre { font: 14px/1.45 ui-monospace, monospace; }
pre { background: #f3f6f8; padding: .8rem; overflow-x: auto; }
table { border-collapse: collapse; } td { padding: .1rem 1rem .1rem 0; vertical-align: top; }
summary { cursor: pointer; }
@media (prefers-color-scheme: dark) {
  body { background: #14191e; color: #dbe3ea; } pre { background: #1f272e; } h2 b { color: #7fc1ee; }
}
"""
_BEFORE = (
    "Every request but those to /healthz, /metrics, /openapi.json and this page needs the header "
    "<code>Authorization: Bearer TOKEN</code>. Bodies are JSON. Every refusal is "
    '<code>{"error": {"code": "...", "message": "..."}}</code>. Lists come in pages: <code>next</code> is the '
    "<code>after</code> of the page that follows."
)


def reference_page(schema: Mapping[str, Any]) -> tuple[str, str]:
    """Return the page and the content security policy under which it shows."""
    operations = [
        _operation(schema, method, path, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    title = escape(f"{schema['info']['title']} {schema['info']['version']}")
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f'<body><h1>{title}</h1><p>{_BEFORE} The same for programs: <a href="/openapi.json">openapi.json</a>.</p>'
        f"{''.join(operations)}</body></html>\n"
    )
    style = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page, policy


def _operation(schema: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> str:
    roles = operation.get("x-roles")
    who = f"For {', '.join(roles)}." if roles else "For everybody."
    parts = [
        f'<h2 id="{escape(operation["operationId"])}"><b>{escape(method.upper())}</b> <code>{escape(path)}</code></h2>',
        f"<p>{escape(operation.get('description', ''))} <em>{escape(who)}</em></p>",
    ]
    queries = [entry for entry in operation.get("parameters", ()) if entry["in"] == "query"]
    if queries:
        rows = (
            f"<tr><td><code>{escape(entry['name'])}</code></td><td>{escape(entry.get('description', ''))}</td></tr>"
            for entry in queries
        )
        parts.append(f"<table>{''.join(rows)}</table>")
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        parts.append(_details("Body", schema, body))
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            content = answer.get("content", {}).get("application/json", {}).get("schema")
            label = f"{status}: {answer['description']}"
            parts.append(f"<p>{escape(label)}</p>" if content is None else _details(label, schema, content))
    refused = ", ".join(status for status in operation["responses"] if status[0] in "45")
    return "".join([*parts, f"<p>Refusals: {escape(refused)}.</p>"])


def _details(label: str, schema: Mapping[str, Any], part: Any) -> str:
    text = json.dumps(_resolved(schema, part), indent=2, ensure_ascii=False)
    return f"<details><summary>{escape(label)}</summary><pre>{escape(text)}</pre></details>"


def _resolved(schema: Mapping[str, Any], part: Any) -> Any:
    """Put what references name in their place, without titles."""
    if isinstance(part, list):
        return [_resolved(schema, entry) for entry in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _resolved(schema, schema["components"]["schemas"][part["$ref"].rpartition("/")[2]])
    return {
        key: _resolved(schema, value) for key, value in part.items() if key != "title" or not isinstance(value, str)
    }
