"""The dashboards: panels have their places, read what a program exports, and use the variables that are declared."""

import re
from itertools import combinations
from typing import Any

import pytest
import yaml

from tests.monitoring.reading import GRAFANA, PROMETHEUS, SCRAPED, dashboards, exported, groupings, queries, selectors

# What Grafana itself puts in the place of these.
BUILT_IN = {"__rate_interval", "datasource"}
GRID_WIDTH = 24
OURS = pytest.mark.parametrize("board", dashboards().values(), ids=list(dashboards()))

_variable = re.compile(r"\$\{?(\w+)")


def test_there_is_a_dashboard_for_each_question() -> None:
    assert set(dashboards()) == {"overview", "channel", "workflows", "campaigns", "reliability", "database"}


@OURS
def test_panels_have_their_own_place_number_and_title(board: dict[str, Any]) -> None:
    places = {panel["title"]: panel["gridPos"] for panel in board["panels"]}
    assert len(places) == len(board["panels"]) == len({panel["id"] for panel in board["panels"]})
    for one, other in combinations(places.values(), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)
    assert all(place["x"] + place["w"] <= GRID_WIDTH for place in places.values())
    assert all(panel["description"] for panel in board["panels"])


@OURS
def test_a_query_reads_only_what_is_exported(board: dict[str, Any]) -> None:
    known = exported()
    for title, query in queries(board):
        read = list(selectors(query))
        assert read, title
        for one in read:
            assert one.metric in known, (title, one.metric)
            assert one.labels <= known[one.metric] | SCRAPED, (title, one)
            assert "instance" in one.labels, (title, "the variable is not used")
        assert groupings(query) <= SCRAPED.union(*(known[one.metric] for one in read)), title


@OURS
def test_the_variables_that_are_declared_are_those_that_are_used(board: dict[str, Any]) -> None:
    declared = {one["name"] for one in board["templating"]["list"]}
    used = {name for _, query in queries(board) for name in _variable.findall(query)}
    assert used - BUILT_IN == declared - BUILT_IN
    # What Postgres tells of itself is of no channel and of no tenant.
    wanted = {"instance"} if board["uid"] == "dispatcher-database" else {"instance", "channel", "tenant"}
    assert declared == wanted | {"datasource"}


def test_grafana_finds_the_dashboards_and_a_prometheus() -> None:
    (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/dispatcher.yml").read_text())["providers"]
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    assert (provider["type"], source["type"], source["isDefault"]) == ("file", "prometheus", True)
    scraped = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scraped
    assert len({board["uid"] for board in dashboards().values()}) == len(dashboards())
