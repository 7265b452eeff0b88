"""The files of Prometheus and Grafana as tests read them: alerts, dashboards, and what an expression names."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct

from dispatcher.base.metrics import Metrics
from tests.house.tree import ROOT

PROMETHEUS = ROOT / "ops" / "prometheus"
GRAFANA = ROOT / "ops" / "grafana"
# What Prometheus adds to each series of ours.
SCRAPED = {"job", "instance"}

_selector = re.compile(r"\b(dispatcher_\w+)(?:\{([^}]*)\})?")
_label = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_grouping = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")


class Selector(Struct, frozen=True):
    """A metric in an expression, with the labels that are asked of it."""

    metric: str
    labels: frozenset[str]


def selectors(expression: str) -> Iterator[Selector]:
    """The metrics that an expression reads."""
    for metric, inside in _selector.findall(expression):
        yield Selector(metric, frozenset(_label.findall(inside)))


def groupings(expression: str) -> set[str]:
    """The labels by which an expression groups and matches."""
    return {label.strip() for inside in _grouping.findall(expression) for label in inside.split(",") if label.strip()}


def exported() -> dict[str, set[str]]:
    """The labels of everything that a program exports, by the names under which Prometheus has it."""
    found: dict[str, set[str]] = {}
    registry = Metrics().registry
    for family in registry.families:
        for ending in family.endings:
            found[family.name + ending] = set(family.label_names) | ({"le"} if ending == "_bucket" else set())
    process = (line for one in registry.others for line in one.lines() if not line.startswith("#"))
    return found | {line.split(" ")[0]: set[str]() for line in process}


def alerts() -> list[dict[str, Any]]:
    """The rules of all groups."""
    content = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())
    return [rule for group in content["groups"] for rule in group["rules"]]


def dashboards() -> dict[str, dict[str, Any]]:
    """The dashboards by their files' names."""
    return {path.stem: json.loads(path.read_text()) for path in sorted((GRAFANA / "dashboards").glob("*.json"))}


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels of a dashboard that show something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries(dashboard: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each query of a dashboard, after the title of its panel."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
