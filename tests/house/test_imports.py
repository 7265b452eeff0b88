"""The table "The rooms" is held by import-linter; here it runs with the tests, and its blind spots are looked into."""

import os
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from tests.house.rooms import lies_in
from tests.house.tree import ROOT, project, python_files

ROOTS = ("channels", "dispatcher")

# What may import any room.
OUTSIDE = {
    "dispatcher",
    "dispatcher.__main__",
    "dispatcher.app",
    "dispatcher.channel_opener",
    "dispatcher.commands",
    "dispatcher.endpoints",
    "dispatcher.gauges",
    "dispatcher.pipeline",
    "dispatcher.reload",
    "dispatcher.workers",
}


@pytest.fixture(scope="module")
def modules() -> set[str]:
    """The imports that the linter sees."""
    return set(grimp.build_graph(*ROOTS, cache_dir=None).modules)


def test_every_room_imports_only_what_the_table_allows() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache", "--no-logo"],
        cwd=ROOT,
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_has_a_room(modules: set[str]) -> None:
    rooms = {place for contract in project()["tool"]["importlinter"]["contracts"] for place in contract.get("room", [])}
    known = rooms | {"dispatcher.process"}
    homeless = sorted(module for module in modules if module not in OUTSIDE and not lies_in(module, known))
    assert not homeless, f"in no room of pyproject.toml's contracts: {homeless}"


def test_the_linter_sees_every_file(modules: set[str]) -> None:
    named = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in python_files(ROOTS)}
    unseen = sorted(named - modules)
    assert not unseen, f"a folder without __init__.py hides these from the linter: {unseen}"
