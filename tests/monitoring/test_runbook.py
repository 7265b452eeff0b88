"""The runbook: what it tells people to type, to set and to look for exists."""

import re
from typing import Any

import pytest
from typer.main import get_command

from dispatcher.cli import root
from dispatcher.commands import COMMANDS
from dispatcher.config.fields import table_of
from dispatcher.config.settings import Config
from tests.house.test_manual import keys_of
from tests.house.tree import ROOT
from tests.monitoring.reading import dashboards

RUNBOOK = (ROOT / "ops" / "runbook.md").read_text()
MONITORING = (ROOT / "ops" / "monitoring.md").read_text()

_span = re.compile(r"`([^`]+)`")
_dotted = re.compile(r"[a-z_]+(?:\.[a-zA-Z_]+)+")
_dashboard = re.compile(r"dashboards? \*([^*]+)\*", re.IGNORECASE)


def spans(text: str) -> list[str]:
    """What stands in backquotes, lines joined."""
    return sorted({" ".join(found.split()) for found in _span.findall(text)})


@pytest.mark.parametrize("line", [one for one in spans(RUNBOOK) if one.startswith("dispatcher ")])
def test_a_command_exists_with_its_options(line: str) -> None:
    words = line.split()[1:]
    here: Any = get_command(root.command_line(words, COMMANDS))
    for word in words:
        if hasattr(here, "commands"):
            assert word in here.commands, line
            here = here.commands[word]
        elif word.startswith("--"):
            assert word in {name for parameter in here.params for name in parameter.opts}, line


def test_every_key_of_the_configuration_and_every_event_of_the_log_exists() -> None:
    keys = set(keys_of(table_of(Config)))
    # The first cells of the table of events.
    events = {name for line in MONITORING.splitlines() if line.startswith("| `") for name in _span.findall(line)}
    named = {one for one in spans(RUNBOOK) if _dotted.fullmatch(one)}
    assert named
    unknown = named - keys - events
    assert not unknown, unknown


def test_every_dashboard_that_is_named_exists() -> None:
    titles = {board["title"].removeprefix("Dispatcher: ") for board in dashboards().values()}
    for page in (RUNBOOK, MONITORING):
        named = {" ".join(name.split()).lower() for name in _dashboard.findall(page)}
        assert named <= titles, named - titles
    table = MONITORING.partition("| dashboard | question |")[2].partition("\n\n")[0]
    assert {name.lower() for name in re.findall(r"^\| ([A-Z][a-z ]+) \|", table, re.MULTILINE)} == titles
