"""SQL statements by name, from the `.sql` file beside a module."""

import re
from functools import cache
from importlib import resources

_HEAD = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def statements(module: str) -> dict[str, str]:
    """Return the statements of the `.sql` file beside a module, by name."""
    package, _, file = module.rpartition(".")
    parts = _HEAD.split(resources.files(package).joinpath(f"{file}.sql").read_text(encoding="utf-8"))
    if parts[0].strip():
        raise ValueError(f"{file}.sql of {package} has text before its first '-- name:' line")
    names = parts[1::2]
    if len(set(names)) < len(names):
        raise ValueError(f"{file}.sql of {package} has a name twice")
    return dict(zip(names, (body.strip().rstrip(";") for body in parts[2::2]), strict=True))
