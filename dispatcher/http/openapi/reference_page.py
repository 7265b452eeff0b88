"""The reference page: the OpenAPI document for people, with contents and a search, and nothing to fetch."""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Any

import msgspec

STYLE = """
:root { color-scheme: light dark; }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1.25rem; font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
details { border: 1px solid #8886; border-radius: .4rem; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
summary b { display: inline-block; min-width: 3.2rem; }
pre { overflow-x: auto; background: #8881; padding: .6rem; border-radius: .3rem; }
table { border-collapse: collapse; } td { padding: .1rem 1rem .1rem 0; vertical-align: top; }
nav ul { columns: 18rem; padding-left: 1.2rem; }
input { font: inherit; width: 100%; padding: .4rem .6rem; box-sizing: border-box; }
"""
# Shows what has all words of the search in its text, and opens what a link leads to.
SCRIPT = """
const all = [...document.querySelectorAll("details")].map(one => [one, one.textContent.toLowerCase()]);
document.querySelector("input").addEventListener("input", event => {
  const words = event.target.value.toLowerCase().split(/\\s+/);
  for (const [one, text] of all) one.hidden = !words.every(word => text.includes(word));
});
const open = () => {
  const one = document.getElementById(location.hash.slice(1));
  if (one?.tagName === "DETAILS") one.open = true;
};
addEventListener("hashchange", open);
open();
"""


def _hash(text: str) -> str:
    return "'sha256-" + b64encode(sha256(text.encode()).digest()).decode() + "'"


HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": f"default-src 'none'; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
}


def page(document: Mapping[str, Any]) -> str:
    info = document["info"]
    shared = _shared(document)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(info["title"])} API</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(info["title"])} API {escape(info["version"])}</h1>
<p>{escape(info["description"])}</p>
<p>For programs: <a href="openapi.json">openapi.json</a></p>
<p><input type="search" placeholder="Search" aria-label="Search"></p>
<nav><ul>
{"".join(_contents(document))}</ul></nav>
{"".join(_operations(document, shared))}
<h2 id="errors">Errors of every operation</h2>
{_table(_error(status, each) for status, each in shared.items())}
<h2 id="schemas">Schemas</h2>
{"".join(_schemas(document))}
<script>{SCRIPT}</script>
</body>
</html>
"""


def noted(page: str, words: str) -> str:
    """Return a page with a note above everything else; none without words."""
    return page.replace("<body>\n", f"<body>\n<p><b>{escape(words)}</b></p>\n", 1) if words else page


def _shared(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the errors that all operations have in common, by status."""
    all_of = [one["responses"] for methods in document["paths"].values() for one in methods.values()]
    return {
        status: each
        for status, each in all_of[0].items()
        if status >= "400" and all(each["description"] == of.get(status, {}).get("description") for of in all_of)
    }


def _contents(document: Mapping[str, Any]) -> Iterator[str]:
    for tag in document["tags"]:
        yield f'<li><a href="#tag-{escape(tag["name"])}">{escape(tag["name"])}</a></li>\n'
    yield '<li><a href="#errors">Errors of every operation</a></li>\n<li><a href="#schemas">Schemas</a></li>\n'


def _operations(document: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[str]:
    for tag in document["tags"]:
        yield f'<h2 id="tag-{escape(tag["name"])}">{escape(tag["name"])}</h2>\n'
        for path, methods in document["paths"].items():
            for method, one in methods.items():
                if tag["name"] in one["tags"]:
                    yield _operation(method.upper(), path, one, shared)


def _error(status: str, each: Mapping[str, Any]) -> tuple[str, str, str]:
    return status, escape(each["description"]), _reference(next(iter(each["content"].values()))["schema"])


def _operation(method: str, path: str, one: Mapping[str, Any], shared: Mapping[str, Any]) -> str:
    head = f"<b>{method}</b> <code>{escape(path)}</code>: {escape(one['summary'])}"
    parts = [f"<p>{escape(one['description'])}</p>"]
    if one["parameters"]:
        rows = ((_code(each["name"]), each["in"], escape(each.get("description", ""))) for each in one["parameters"])
        parts.append(_table(rows))
    if "requestBody" in one:
        content, *others = one["requestBody"]["content"].items()
        also = "".join(f", or bytes as {_code(kind)}" for kind, _ in others)
        parts.append(f"<p>Body: {_reference(content[1]['schema'])}{also}</p>{_json(content[1]['example'])}")
    answer = next(iter(one["responses"]["200"]["content"].values()))
    parts.append(f"<p>Answer: {_reference(answer['schema'])}</p>{_json(answer['example'])}")
    rows = (_error(status, each) for status, each in one["responses"].items() if status not in shared)
    errors = '<p>And the <a href="#errors">errors of every operation</a>.</p>'
    return _folded(escape(one["operationId"]), head, "".join(parts) + _table(rows) + errors)


def _schemas(document: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in document["components"]["schemas"].items():
        yield _folded(f"schema-{escape(name)}", escape(f"{name}: {schema.get('description', '')}"), _json(schema))


def _folded(place: str, head: str, body: str) -> str:
    return f'<details id="{place}"><summary>{head}</summary>{body}</details>\n'


def _reference(schema: Mapping[str, Any]) -> str:
    name = escape(str(schema.get("$ref", "")).rpartition("/")[2])
    return f'<a href="#schema-{name}">{name}</a>' if name else _json(schema)


def _table(rows: Any) -> str:  # noqa: ANN401 - rows of cells that are HTML already
    return "<table>" + "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows) + "</table>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _json(value: object) -> str:
    return f"<pre>{escape(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())}</pre>"
