"""The alerts: each fires where it should and is silent where it should, reads what exists, and has its page."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.tree import ROOT
from tests.monitoring.alert_cases import CASES, Case
from tests.monitoring.reading import PROMETHEUS, SCRAPED, alerts, exported, groupings, selectors

RUNBOOK = ROOT / "ops" / "runbook.md"
PARTS = ("What it means", "What to look at", "What to do")
SEVERITIES = {"page", "ticket"}
# What an alert must not count on: a long queue that moves is no trouble.
DEPTH = "dispatcher_queue_depth"

_given = re.compile(r'(\w+)="([^"]*)"')


@pytest.fixture
def promtool() -> str:
    """The tool that comes with Prometheus."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is missing: install Debian's package prometheus")
    return found


def ran(*command: str | Path) -> str:
    """What a command says; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def series(name: str) -> str:
    """A series with the labels that Prometheus adds."""
    metric = name.partition("{")[0]
    labels = {"instance": "a", "job": "dispatcher"} | dict(_given.findall(name))
    return metric + "{" + ",".join(f'{key}="{value}"' for key, value in sorted(labels.items())) + "}"


def written(case: Case, severity: str) -> dict[str, Any]:
    """A case as promtool reads it."""
    labels = {"severity": severity, **({"job": "dispatcher"} if case.alert != "DispatcherNotScraped" else {})}
    expected = [{"exp_labels": labels | dict(case.labels)}] if case.fires else []
    return {
        "interval": "1m",
        "input_series": [{"series": series(name), "values": values} for name, values in case.series],
        "alert_rule_test": [{"eval_time": f"{case.minute}m", "alertname": case.alert, "exp_alerts": expected}],
    }


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    for fires in (True, False):
        assert {case.alert for case in CASES if case.fires == fires} == {rule["alert"] for rule in alerts()}


def test_every_case_comes_out_as_it_says(promtool: str, tmp_path: Path) -> None:
    files = []
    # Each rule in a file of its own: promtool evaluates all rules of a file, each minute, for each case.
    for rule in alerts():
        name, severity = rule["alert"], rule["labels"]["severity"]
        # Annotations are left out: promtool would compare their words and figures too.
        alone = {key: rule[key] for key in ("alert", "expr", "for", "labels")}
        content = {
            "rule_files": [f"{name}.yml"],
            "evaluation_interval": "1m",
            "tests": [written(case, severity) for case in CASES if case.alert == name],
        }
        (tmp_path / f"{name}.yml").write_text(yaml.safe_dump({"groups": [{"name": "one", "rules": [alone]}]}))
        files.append(tmp_path / f"{name}.cases.yml")
        files[-1].write_text(yaml.safe_dump(content))
    ran(promtool, "test", "rules", *files)


def test_prometheus_takes_the_configuration_and_the_rules(promtool: str) -> None:
    ran(promtool, "check", "config", PROMETHEUS / "prometheus.yml")


def test_series_of_the_cases_are_as_a_program_exports_them() -> None:
    known = exported()
    for case in CASES:
        for name, _ in case.series:
            labels = {key for key, _ in _given.findall(name)} - SCRAPED
            assert labels == known[name.partition("{")[0]], (case.alert, name)


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_reads_only_what_exists(rule: dict[str, Any]) -> None:
    known = exported()
    read = list(selectors(rule["expr"]))
    assert read, "it reads nothing of ours"
    for one in read:
        assert one.metric in known, one.metric
        assert one.labels <= known[one.metric] | SCRAPED, one
    assert groupings(rule["expr"]) <= SCRAPED.union(*(known[one.metric] for one in read))
    assert DEPTH not in {one.metric for one in read}


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_has_a_severity_a_time_and_a_section_of_the_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in SEVERITIES
    assert re.fullmatch(r"[1-9]\d*[mh]", rule["for"])
    assert rule["annotations"]["summary"].strip()
    assert rule["annotations"]["runbook"] == f"ops/runbook.md#{rule['alert'].lower()}"
    _, _, section = RUNBOOK.read_text().partition(f"\n### {rule['alert']}\n")
    section = re.split(r"\n##+ ", section)[0]
    missing = [part for part in PARTS if f"**{part}.**" not in section]
    assert not missing, missing


def test_the_runbook_has_no_section_of_an_alert_that_is_gone() -> None:
    assert sorted(re.findall(r"^### (\w+)$", RUNBOOK.read_text(), re.MULTILINE)) == sorted(
        rule["alert"] for rule in alerts()
    )
