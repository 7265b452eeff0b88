"""The lock files are complete, hold anywhere, and agree with pyproject.toml and with each other."""

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.tree import ROOT, project

RUN, DEV = "requirements.lock", "requirements-dev.lock"
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def entries(lock: str) -> list[str]:
    """Each requirement with its hashes as one line; comments are gone."""
    lines = [line for line in (ROOT / lock).read_text().splitlines() if not line.lstrip().startswith("#")]
    return [line for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]


def pins(lock: str) -> dict[str, set[str]]:
    """The versions of each distribution; markers can make it more than one."""
    found: dict[str, set[str]] = {}
    for entry in entries(lock):
        requirement = Requirement(HASH.sub("", entry).strip())
        found.setdefault(canonicalize_name(requirement.name), set()).add(str(requirement.specifier).removeprefix("=="))
    return found


def wanted(*extras: str) -> list[Requirement]:
    """The requirements of pyproject.toml."""
    table = project()["project"]
    lists = [table["dependencies"], *(table["optional-dependencies"][extra] for extra in extras)]
    return [Requirement(line) for lines in lists for line in lines]


@pytest.mark.parametrize("lock", [RUN, DEV])
def test_every_requirement_is_one_version_with_hashes(lock: str) -> None:
    loose = [entry for entry in entries(lock) if not re.match(r"[\w.-]+==\S+", entry) or not HASH.search(entry)]
    assert not loose, loose


@pytest.mark.parametrize("lock", [RUN, DEV])
def test_a_lock_names_no_place_to_fetch_from(lock: str) -> None:
    places = [
        line
        for line in (ROOT / lock).read_text().splitlines()
        if re.search(
            r"://|(^|\s)(-i|-f|--[a-z-]*(index|find-links|host)[a-z-]*)\b|(^|\s)(/|\./(?!ops/lock$)|\.\./)|@ ", line
        )
    ]
    assert not places, places


@pytest.mark.parametrize(
    ("lock", "extras"), [(RUN, ["embedded", "otel", "sentry"]), (DEV, ["embedded", "bench", "dev"])]
)
def test_required_packages_are_locked(lock: str, extras: list[str]) -> None:
    locked = pins(lock)
    missing = [
        str(requirement)
        for requirement in wanted(*extras)
        if not (versions := locked.get(canonicalize_name(requirement.name)))
        or not all(requirement.specifier.contains(version, prereleases=True) for version in versions)
    ]
    assert not missing, f"not in {lock}: {missing}; run ./ops/lock"


def test_every_extra_is_locked() -> None:
    assert set(project()["project"]["optional-dependencies"]) == {"embedded", "bench", "dev", "otel", "sentry"}


def test_installed_versions_are_the_tested_ones() -> None:
    tested = pins(DEV)
    other = {name: versions for name, versions in pins(RUN).items() if tested.get(name) != versions}
    assert not other, other
