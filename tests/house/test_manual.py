"""The manual: the README stays short, and what the pages name exists: files, anchors, metrics, keys, options."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from prometheus_client.metrics_core import Metric

from channels.registry import PROVIDERS
from dispatcher.base.metrics import Metrics
from dispatcher.config import load
from dispatcher.config.fields import Leaf, Many, Node, Options, Table, table_of
from dispatcher.config.settings import CHANNELS, Config
from dispatcher.plans.definition.definition import Known, compile_definition
from tests.channels.fcm.fake import account
from tests.house.tree import ROOT, ours
from tests.support.metering import scraped

README_LINES_MAX = 200
URL = "https://provider.example.org"
# Begins like a metric: the role of requests.
ROLE = "dispatcher_tenant"
# Each feature has a page; those that are still to be written are missed by nothing else.
COMING = ROOT / "dispatcher" / "features"

_fence = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_link = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_heading = re.compile(r"^#+ (.+)$", re.MULTILINE)
_metric = re.compile(r"\bdispatcher_[a-z_]+\b")
_toml = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_variable = re.compile(r"^(?:export )?(DISPATCHER_\w+__\w+)=(\S+)", re.MULTILINE)
_first_cell = re.compile(r"^\| `([^|]+)` \|", re.MULTILINE)


@cache
def pages() -> dict[Path, str]:
    """The text of every page, by its path."""
    return {path: (ROOT / path).read_text() for path in ours() if path.suffix == ".md"}


def anchors(text: str) -> set[str]:
    """What a link behind # can name in a page, in GitHub's spelling."""
    found: set[str] = set()
    for heading in _heading.findall(_fence.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 1
        unique = slug
        while unique in found:
            unique, number = f"{slug}-{number}", number + 1
        found.add(unique)
    return found


def broken(path: Path, text: str) -> Iterator[str]:
    """The links of a page that lead nowhere in this repository."""
    for link in _link.findall(_fence.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (ROOT / path.parent / file).resolve() if file else ROOT / path
        if not target.exists():
            if not (target.is_relative_to(COMING) and target.name == "README.md"):
                yield link
        elif anchor and anchor not in anchors(target.read_text()):
            yield link


def test_the_readme_is_short() -> None:
    lines = len(pages()[Path("README.md")].splitlines())
    assert lines <= README_LINES_MAX, f"{lines} lines: put details into a page of the manual"


def test_every_link_leads_to_a_file_and_an_anchor() -> None:
    wrong = {str(path): found for path, text in pages().items() if (found := list(broken(path, text)))}
    assert not wrong, wrong


def names_of(metric: Metric) -> set[str]:
    """The names under which Prometheus has a metric."""
    endings = {"counter": ("_total",), "histogram": ("", "_bucket", "_count", "_sum")}.get(metric.type, ("",))
    return {metric.name + ending for ending in endings}


def test_every_metric_that_is_named_exists_and_monitoring_lists_all() -> None:
    metrics = list(scraped(Metrics().registry))
    known = {ROLE}.union(*map(names_of, metrics))
    named = {str(path): set(_metric.findall(text)) for path, text in pages().items()}
    wrong = {path: sorted(found - known) for path, found in named.items() if found - known}
    assert not wrong, wrong
    listed = named["ops/monitoring.md"]
    missing = [metric.name for metric in metrics if not names_of(metric) & listed]
    assert not missing, missing


def keys_of(node: Node, at: tuple[str, ...] = ()) -> Iterator[str]:
    """Every key of the configuration, with NAME for what the user names."""
    match node:
        case Table(children=children):
            for key, child in children.items():
                yield from keys_of(child, (*at, key))
        case Many(value=value):
            yield from keys_of(value, (*at, "NAME"))
        case Leaf() | Options():
            yield ".".join(at)


def test_the_table_of_the_configuration_has_every_key() -> None:
    listed = _first_cell.findall(pages()[Path("ops/configuration.md")])
    assert sorted(listed) == sorted(keys_of(table_of(Config)))


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_the_page_of_a_provider_has_all_of_its_options(provider: str) -> None:
    _, _, table = pages()[Path(f"channels/{provider}/README.md")].partition("\n| option |")
    listed = _first_cell.findall(table.partition("\n\n")[0])
    assert sorted(listed) == sorted(field.encode_name for field in structs.fields(PROVIDERS[provider]))


NODE = {"id": "a", "unheard-of": 1}
# The heading of each object of a definition in the page about them, and one such object with a key that it cannot have.
OBJECTS: Mapping[str, Mapping[str, Any]] = {
    "## The graph form": {"nodes": [], "unheard-of": 1},
    "### Edges": {"nodes": [], "edges": [{"unheard-of": 1}]},
    "### Messages": {"nodes": [*(NODE | {"type": one} for one in ("email", "push", "chat", "whatsapp"))]},
    "### Function calls": {"nodes": [NODE | {"type": "http"}]},
    "### Delays": {"nodes": [NODE | {"type": "delay"}]},
    "### Branches": {"nodes": [NODE | {"type": "branch"}]},
    "### Joins": {"nodes": [NODE | {"type": "join"}]},
    "### Waiting for an event": {"nodes": [NODE | {"type": "wait"}]},
    "### Digests": {"nodes": [NODE | {"type": "digest"}]},
    "### Steps": {"steps": [{"unheard-of": 1}]},
}

# What a list has in place of a graph, and what is asked for to say that it stands on edges.
NOT_OF_THIS: Mapping[str, set[str]] = {"## The graph form": {"steps"}, "### Branches": {"condition"}}


def fields_below(heading: str) -> set[str]:
    """The fields in the first column of the tables of a section."""
    page = next(text for path, text in pages().items() if text.startswith("# Workflow definitions"))
    _, _, section = page.partition(f"\n{heading}\n")
    rows = re.findall(r"^\| (`.*?) \|", re.split(r"\n#+ ", section)[0], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize("heading", OBJECTS)
def test_the_fields_of_workflows_are_those_that_are_taken(heading: str) -> None:
    faults = compile_definition(OBJECTS[heading], Known(CHANNELS))
    assert isinstance(faults, list)
    said = [re.search("known here are (.*)", fault.message) for fault in faults if "unknown key" in fault.message]
    taken = {name for found in said if found for name in found[1].split(", ")}
    listed = fields_below(heading)
    if "type" in taken:
        listed |= fields_below("### All nodes")
    assert listed == taken - NOT_OF_THIS.get(heading, set())


def with_toml() -> list[Path]:
    """The pages about the configuration of channels and processes that show one."""
    return [path for path, text in pages().items() if path.parts[0] in ("channels", "ops") and _toml.search(text)]


@pytest.mark.parametrize("page", with_toml(), ids=str)
def test_a_configuration_that_is_shown_is_sound(page: Path, tmp_path: Path) -> None:
    text = pages()[page]
    named = dict(_variable.findall(text))
    environ = {name: value for name, value in named.items() if not name.endswith(("_FILE", "_CONFIG"))}
    # A file that nobody can write down in a line.
    environ |= {name.removesuffix("_FILE"): account(URL) for name in named if name.endswith("SERVICE_ACCOUNT_FILE")}
    for shown in _toml.findall(text):
        file = tmp_path / "dispatcher.toml"
        file.write_text(shown)
        load(file, environ, PROVIDERS)
