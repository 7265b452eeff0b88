"""Schemathesis: the program keeps to its own document, in every check that there is, with sound and unsound data."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dispatcher.endpoints import ENDPOINTS
from dispatcher.http.cursors import cursor
from tests.support import flows
from tests.support.caller import Caller
from tests.support.examples import examples, is_chosen
from tests.support.forks import ROOT
from tests.support.scene import Connection

# For each operation, beside every boundary of every field, which its coverage phase finds by itself.
EXAMPLES_MAX = examples(2, 8)
SEED = 20_301
SECONDS_MAX = 900
OPERATIONS = {one.operation: one for one in ENDPOINTS}
# A fifth in each run: every boundary of every field of all takes more than a minute. Two that write are always there.
CHOSEN = [name for name in OPERATIONS if name in ("triggerWorkflow", "createDelivery") or is_chosen(name, 5)]

_OF_EVENTS = {400: "there is its trigger, addresses can be read, and rules that fail have a fallback"}
_OF_RULES = {400: "there are its trigger, channel and templates, which read what the trigger promises"}
_OF_SEQUENCES = {400: "names and audiences are of the sequence, and 1.0 as with publishTemplate"}
_OF_PERSONS = {400: "an address is of its kind, and there is such a time zone"}
_OF_SOMEBODY = {400: "as above, and somebody has an address or is a contact"}
_OF_ADDRESSES = {400: "an address is of its kind, and which channels there are is configured"}
_OF_SWEEPS = {400: "a cursor is one that a sweep has answered, and 1.0 as with publishTemplate"}

# With which statuses sound data may be refused, beside 401, 403, 404, 409, 429 and 503, and why no schema can say when.
# No other check is left out anywhere.
REFUSED: Mapping[str, Mapping[int, str]] = {
    "createDelivery": {400: "which channels there are is configured, and a template belongs to its channel"},
    "createDeliveries": {400: "as with one delivery"},
    "putWorkflow": {
        400: "a graph has rules of its own: what it names is there, it has no circle, its Liquid is Liquid"
    },
    "putWorkflows": {400: "as with one workflow"},
    "compareWorkflows": {400: "as with one workflow"},
    "triggerWorkflow": {400: "idempotency_key and correlation_id are names of one thing, and may not differ"},
    "planWorkflow": {400: "as above, and what is assumed is about nodes that the workflow has"},
    "signalRun": {400: "what templates read may have no number of more than 64 bits, which JSON has"},
    "putTemplate": {400: "Liquid is Liquid, and a template has the parts that its channel has"},
    "saveTemplates": {400: "as with one template"},
    "previewTemplate": {400: "as with one template"},
    "publishTemplate": {400: "1.0 is a whole number for JSON Schema, and none here"},
    "putSchedule": {400: "there is its workflow and its time zone, and an expression that never ticks is none"},
    **dict.fromkeys(
        (
            *("listContacts", "searchContacts", "createContact", "putContact", "patchContact"),
            *("getTimeline", "exportPerson", "lookUpTimeline"),
        ),
        _OF_PERSONS,
    ),
    **dict.fromkeys(("findPerson", "lookUpPerson", "erasePerson"), _OF_SOMEBODY),
    **dict.fromkeys(
        ("addSuppressions", "removeSuppressions", "checkAddress", "subscribeToTopic", "unsubscribeFromTopic"),
        _OF_ADDRESSES,
    ),
    "putCampaign": {400: "there is its template, of its channel and published, and the contacts that it names"},
    "deployCampaign": {400: "somebody is in its audience"},
    "seeAudience": {400: "there are the contacts that it names, and it chooses somebody"},
    "replayCampaignRun": _OF_SWEEPS,
    "sweepDeliveries": {400: "as above, and to move takes a time, which the others do not have"},
    **dict.fromkeys(("notify", "notifyMany", "explain"), _OF_EVENTS),
    **dict.fromkeys(("putRule", "saveRules"), _OF_RULES),
    "putTrigger": {400: "its name and pairs are words, and messages are built in for some only"},
    "putQuietHours": {400: "which channels there are is configured, a period has two ends, and quiet hours have one"},
    "putSettings": {400: "there is its time zone, and its region has phone numbers"},
    **dict.fromkeys(
        (
            *("putSequence", "addSequenceStep", "putSequenceStep", "compareSequences"),
            *("enrolContacts", "previewMove", "moveEnrolments"),
        ),
        _OF_SEQUENCES,
    ),
    "createPause": {
        400: "which channels and providers there are is configured, and what is said has to be of its scope"
    },
    **dict.fromkeys(
        ("resolveAllHeld", "replayDeadRuns", "discardDeadRuns", "replayDeadDeliveries", "discardDeadDeliveries"),
        _OF_SWEEPS,
    ),
    "putCap": {400: "a period is a duration within bounds, and its channels are configured"},
    "createKey": {400: "it ends later than now"},
    "createWebhook": {400: "an endpoint is somewhere that may be called"},
    "changeWebhook": {400: "as above"},
    "putObject": {400: "what it is stands beside the file, or in the JSON that has it"},
    "workflowEnqueue": {400: "what the payload has to have depends on the action"},
}
KEY_REUSED = 422  # Of every POST: whether an Idempotency-Key was used before, only the database knows.
CHANGED = 412  # Of whatever takes If-Match: which version is the newest, only the database knows.

OTHER_KEY = "other"
OTHER_WORKFLOW = "other"
# What lists have given out before, and what there is to be triggered: nobody could guess it. And which key is taken
# back, which is not the one that asks, and which workflow is deleted, which is not the one that is triggered.
KNOWN: Mapping[str, Mapping[str, str]] = {
    **{
        operation: {"query.cursor": known}
        for operation, known in {
            "listDeliveries": cursor("deliveries", 7),
            "listHeld": cursor("held", 1, 7),
            "listCaptured": cursor("captured", 7),
            "listDeadRuns": cursor("dead_runs", 7),
            "listDeadDeliveries": cursor("dead_deliveries", 7),
            "listDeadJobs": cursor("dead_jobs", 7),
            "listWorkflows": cursor("workflows", "a"),
            "listTemplates": cursor("templates", "a"),
            "listTemplateVersions": cursor("versions", 7),
            "listRuns": cursor("runs", 7),
            "getRunLog": cursor("log", 1),
            "listRunDeliveries": cursor("run_deliveries", 7),
            "listSchedules": cursor("schedules", "a"),
            "listRules": cursor("rules", "a/b/c"),
            "listContacts": cursor("contacts", "a"),
            "getTimeline": cursor("timeline", 1, 7),
            "exportPerson": cursor("export", 1, 7),
            "listErasures": cursor("erasures", 7),
            "listWebhooks": cursor("webhooks", "a"),
            "listSuppressions": cursor("suppressions", "email", "a@example.org", "", "operator"),
            "listTopicPreferences": cursor("topics", "email", "a@example.org", "news"),
            "listKeys": cursor("keys", "a", "7"),
            "listPauses": cursor("pauses", 7),
            "listObjects": cursor("objects", "a"),
            "listAudit": cursor("audit", 1, 1, 7, 1),
            "listCampaigns": cursor("campaigns", "a"),
            "listSequences": cursor("sequences", "a"),
            "listEnrolments": cursor("enrolments", 7),
            "listCampaignRuns": cursor("campaign_runs", 7),
            "listCampaignRunJobs": cursor("campaign_jobs", 7),
            "traceCampaignRun": cursor("campaign_trace", 1, 7),
            "getCampaignRunAudit": cursor("campaign_audit", 1, 1, 1, 1),
            "checkCampaignRun": cursor("campaign_check", 7),
        }.items()
    },
    "getWebhookLog": {"query.cursor": cursor("webhook_actions", 7)},
    "getKeyLog": {"query.cursor": cursor("key_actions", 7), "path.name": OTHER_KEY},
    "rotateKey": {"path.name": OTHER_KEY},
    "revokeKey": {"path.name": OTHER_KEY},
    "triggerWorkflow": {"path.name": "welcome"},
    "planWorkflow": {"path.name": "welcome"},
    "deactivateWorkflow": {"path.name": OTHER_WORKFLOW},
    "deleteWorkflow": {"path.name": OTHER_WORKFLOW},
}
# Headers that it makes up have letters and digits only, whatever their pattern.
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_HEAD = """
headers = { Authorization = "Bearer ${DISPATCHER_KEY}" }
continue-on-failure = true
request-timeout = 60
warnings = false  # about what it was not told, and slower to find than most faults

[generation]
allow-x00 = false  # the document says that no text may have one; tests of reading send them
"""


def _settings() -> str:
    """Each case is compared with each table: operations that differ in nothing share one."""
    alike: dict[str, list[str]] = {}
    for name, one in OPERATIONS.items():
        more = [
            *REFUSED.get(name, ()),
            *([KEY_REUSED] if one.method == "POST" else ()),
            *([CHANGED] if one.heeds_if_match else ()),
        ]
        statuses = ["2xx", "401", "403", "404", "409", "429", "503", *map(str, more)]
        told = {**KNOWN.get(name, {}), **({"header.traceparent": TRACEPARENT} if one.traced else {})}
        known = ", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in told.items())
        table = f"""
parameters = {{ {known} }}
checks = {{ positive_data_acceptance = {{ expected-statuses = {json.dumps(statuses)} }} }}
"""
        alike.setdefault(table, []).append(name)
    return _HEAD + "".join(
        f"""
[[operations]]
include-operation-id = {json.dumps(names)}{table}"""
        for table, names in alike.items()
    )


def _run(admin: Caller, folder: Path) -> tuple[dict[str, Any], str]:
    """Its findings, as a report and in words."""
    (folder / "settings.toml").write_text(_settings())
    assert admin.key is not None
    ended = subprocess.run(
        [
            *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
            *("--config-file", "settings.toml"),
            *("run", f"{admin.program.address}/openapi.json", "--checks", "all", "--mode", "all", "--no-shrink"),
            *("--seed", str(SEED), "--max-examples", str(EXAMPLES_MAX)),
            *(word for name in CHOSEN for word in ("--include-operation-id", name)),
            *("--report", "json", "--report-json-path", "report.json"),
        ],
        cwd=folder,
        env={"PATH": "", "PYTHONPATH": str(ROOT), "DISPATCHER_KEY": admin.key, "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (folder / "report.json").exists(), ended.stdout + ended.stderr
    return json.loads((folder / "report.json").read_text()), ended.stdout


async def test_the_program_keeps_to_its_document_in_all_checks(
    admin: Caller, inside: Connection, tmp_path: Path
) -> None:
    assert admin.post("/keys", {"name": OTHER_KEY, "role": "workerService", "reason": "a test"}).status == 201
    await flows.put(inside, flows.plan(name=OTHER_WORKFLOW))
    report, said = _run(admin, tmp_path)
    assert (report["exit_code"], report["failures"], report["errors"]) == (0, [], []), said
    assert report["operations"]["tested"] == len(CHOSEN)
    phases = ("examples", "coverage", "fuzzing", "stateful")
    assert {name: report["phases"][name]["status"] for name in phases} == dict.fromkeys(phases, "success"), said
    assert report["test_cases"]["generated"] >= len(CHOSEN) * EXAMPLES_MAX
    assert not admin.program.events("api.failed") + admin.program.events("http.failed")
    # Sound data gets somewhere: there are runs, and something was sent.
    assert await inside.fetchval("SELECT count(*) > 0 FROM dispatcher.runs")
    assert await inside.fetchval("SELECT count(*) > 0 FROM dispatcher.deliveries WHERE run_id IS NULL")


@pytest.mark.parametrize("table", [REFUSED, KNOWN], ids=["refused", "known"])
def test_documented_operations_exist(table: Mapping[str, object]) -> None:
    assert table.keys() <= OPERATIONS.keys()


def test_a_cursor_of_every_list_is_known() -> None:
    lists = {name for name, one in OPERATIONS.items() if "cursor" in one.query.__struct_fields__}
    assert lists == {name for name, known in KNOWN.items() if "query.cursor" in known}
