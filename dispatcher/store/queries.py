"""The statements: each `.sql` file holds some, each with a name and its reason in comments."""

import re
from functools import cache
from importlib import resources

_HEAD = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def statements(noun: str) -> dict[str, str]:
    """The statements of `sql/<noun>.sql`, or of the `store.sql` in the package of a feature, by name."""
    if "." in noun:
        file = resources.files(noun).joinpath("store.sql")
    else:
        file = resources.files("dispatcher.store").joinpath("sql", f"{noun}.sql")
    text = file.read_text(encoding="utf-8")
    parts = _HEAD.split(text)
    if parts[0].strip():
        raise ValueError(f"{noun}.sql has text before its first '-- name:' line")
    names = parts[1::2]
    if len(set(names)) < len(names):
        raise ValueError(f"{noun}.sql has a name twice")
    return dict(zip(names, (body.strip().rstrip(";") for body in parts[2::2]), strict=True))
