"""Licences: each locked package has a known one, and who ships the program takes over no duty to publish sources."""

import re

from tests.house import licences
from tests.house.test_locks import DEV, RUN, pins

# Of those, one changed file would have to be published, and nothing that uses it.
BY_FILE = "MPL-2.0"


def written() -> list[list[str]]:
    """The rows of the page."""
    lines = licences.PAGE.read_text().splitlines()
    found = [re.findall(r"[^|\s][^|]*[^|\s]|[^|\s]", line) for line in lines if line.startswith("| ")]
    return found[1:]


def test_the_page_has_the_locked_packages() -> None:
    locked = {(name, version) for lock in (DEV, RUN) for name, versions in pins(lock).items() for version in versions}
    page = {(name, version) for name, version, *_ in written()}
    assert page == locked, "run `python -m tests.house.licences`"


def test_the_page_says_what_the_packages_say() -> None:
    said = {name: licence for name, _, licence, _ in licences.rows()}
    assert {name: licence for name, _, licence, _ in written()} == said, "run `python -m tests.house.licences`"
    assert licences.PAGE.read_text().startswith(licences.HEAD)


def test_every_licence_is_known() -> None:
    unknown = [name for name, _, licence, _ in licences.rows() if licence == "unknown"]
    assert not unknown, f"read their licences and note them in READ: {unknown}"


def test_what_is_shipped_is_free_of_copyleft() -> None:
    left = {"GPL", "LGPL", "AGPL"}
    shipped = [row for row in licences.rows() if row[3] not in {"`bench`", "`dev`", "`bench`, `dev`"}]
    assert shipped
    assert not [row for row in shipped if left & set(re.split(r"[-\s]", row[2]))]
    assert {row[0] for row in shipped if BY_FILE in row[2]} == {"certifi"}
