"""The `campaigns` commands as whoever types them sees them, on a database and through a server."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from dispatcher.features.campaigns.runs.models import WHOLE_CAMPAIGN_RUN
from dispatcher.features.campaigns.runs.watch_command import counts, status
from tests.features.campaigns.surface import deploy, ended, prepare, write_contacts, write_template
from tests.support.caller import Caller
from tests.support.program import Program
from tests.support.remote_cli import Cli, RemoteCli, same
from tests.support.scene import Connection

Done = subprocess.CompletedProcess[bytes]
WHY = ("--reason", "a test")
LATER = ("--at", "2040-01-01T00:00:00Z")


def _said(result: Done, code: int = 0) -> str:
    assert result.returncode == code, result.stderr.decode() + result.stdout.decode()
    assert b"Traceback" not in result.stderr
    return (result.stderr if code in (2, 3) else result.stdout).decode()


def _record(result: Done, code: int = 0) -> Any:
    assert result.returncode == code, result.stderr.decode()
    return json.loads(result.stdout)


async def test_a_campaign_goes_from_a_file_to_its_check(admin: Caller, cli: Cli, tmp_path: Path) -> None:
    name = f"whole-{type(cli).__name__.lower()}"
    write_template(admin, name, "Hi {{ contact.name }}{{ sign }}")
    write_contacts(admin, name, 3)
    file = tmp_path / "campaign.json"
    said = {"channel": "sms", "template": name, "audience": {"tags": [name]}, "variables": {"sign": "!"}}
    file.write_text(json.dumps(said))
    put = ("campaigns", "put", name, "--file", str(file))
    assert _said(cli.run(*put)) == f"campaign {name} is saved: version 1\n"
    assert "says this already" in _said(cli.run(*put))
    window = '{"from": "00:00", "to": "24:00"}'
    changed = _record(cli.run(*put, "--rate", "500", "--var", "sign=?", "--window", window, "--json"))
    assert (changed["rate"], changed["variables"], changed["send_window"]["to"]) == (500.0, {"sign": "?"}, "24:00")
    assert f"{name}  sms" in _said(cli.run("campaigns", "list"))
    assert '"from":"00:00"' in _said(cli.run("campaigns", "show", name))
    planned = _said(cli.run("campaigns", "plan", name))
    assert "3 contacts, of whom 3 would get a message" in planned
    assert "Hi Name 1?" in planned
    assert "At 500 a second sending takes" in planned
    tested = _record(cli.run("campaigns", "test", name, "--to", "+4917011111", "--json"))
    assert _said(cli.run("campaigns", "watch", str(tested["run_id"]), "--poll", "0.1")).endswith("1 of 1 sent\n")
    deployed = _record(cli.run("campaigns", "deploy", name, "--key", name, "--json"))
    assert (deployed["intended"], deployed["duplicate"], deployed["idempotency_key"]) == (3, False, name)
    run = str(deployed["run_id"])
    watched = _said(cli.run("campaigns", "watch", run, "--poll", "0.1"))
    assert watched.splitlines()[-1] == f"campaign run {run} of {name}: completed; 3 of 3 sent"
    assert f"campaign run {run} holds the key {name}" in _said(cli.run("campaigns", "deploy", name, "--key", name))
    again = _said(cli.run("campaigns", "deploy", name, "--wait", "--poll", "0.1"))
    assert "completed; 3 of 3 sent" in again
    assert _said(cli.run("campaigns", "trace", run)).count(" sent ") == 3
    assert "queued" in _said(cli.run("campaigns", "audit", run, "--entity", "run"))
    assert "completed" in _said(cli.run("campaigns", "jobs", run))
    assert "ok  3. there are no duplicates" in _said(cli.run("campaigns", "check", run))
    runs = _said(cli.run("campaigns", "runs", "--campaign", name))
    assert f"{name} (test)" in runs
    assert _said(cli.run("campaigns", "delete", name)) == f"campaign {name} is deleted\n"


async def test_a_run_is_acted_upon(admin: Caller, cli: Cli) -> None:
    name = f"acted-{type(cli).__name__.lower()}"
    prepare(admin, name)
    run = str(_record(cli.run("campaigns", "deploy", name, *LATER, "--json"))["run_id"])
    assert _said(cli.run("campaigns", "pause", run, *WHY)) == f"campaign run {run} is paused\n"
    assert "queued (paused)" in _said(cli.run("campaigns", "run", run))
    assert _record(cli.run("campaigns", "pause", run, *WHY, "--json"), 1)["answer"] == "same"
    assert "goes on" in _said(cli.run("campaigns", "resume", run, *WHY))
    assert "has its new rate" in _said(cli.run("campaigns", "rate", run, "5"))
    assert _record(cli.run("campaigns", "run", run, "--json"))["rate"] == 5.0
    assert "has its new rate" in _said(cli.run("campaigns", "rate", run))
    assert "cannot be deleted" in cli.run("campaigns", "delete", name).stderr.decode()
    broken = _said(cli.run("campaigns", "check", run), 1)
    assert "BROKEN  1. the run is terminal (1)" in broken
    assert "has no row" in broken
    watched = cli.run("campaigns", "watch", run, "--timeout", "0.1", "--json")
    assert (watched.returncode, json.loads(watched.stderr)["error"]) == (1, "TimedOut")
    assert "is cancelled" in _said(cli.run("campaigns", "cancel", run, *WHY))
    *_, last = cli.run("campaigns", "watch", run, "--poll", "0.1", "--json").stdout.splitlines()
    assert (json.loads(last)["status"], json.loads(last)["cancelled_count"]) == ("failed", 3)
    assert "was cancelled: what it has not sent" in cli.run("campaigns", "replay", run, *WHY).stderr.decode()


async def test_failed_ones_are_replayed(admin: Caller, cli: Cli) -> None:
    name = f"replayed-{type(cli).__name__.lower()}"
    prepare(admin, name, 3, "{{ contact.attributes.missing }}")
    run = str((await ended(admin, deploy(admin, name)))["id"])
    watched = _said(cli.run("campaigns", "watch", run), 1)
    assert "3 failed: " in watched
    assert _record(cli.run("campaigns", "replay", run, *WHY, "--json")) == {"run_id": int(run), "replayed": 3}
    await ended(admin, int(run))


async def test_faults_are_shown(admin: Caller, cli: Cli) -> None:
    write_template(admin, "faulty", "Hi")
    put = ("campaigns", "put", "faulty")
    wrong = _said(cli.run(*put, "--channel", "smss", "--template", "no", "--audience", '{"contacts": ["x"]}'), 3)
    for words in ('did you mean "sms"', "$.template: there is no template", "unknown contacts: x"):
        assert words in wrong
    assert "$.audience: is required" in _said(cli.run(*put, "--channel", "sms", "--template", "faulty"), 3)
    assert "not a JSON object" in _said(cli.run(*put, "--audience", '{"tags"'), 2)
    sound = ("--channel", "sms", "--template", "faulty", "--audience", '{"tags": ["nobody-here"]}')
    assert cli.run(*put, *sound).returncode == 0
    assert "$.audience: nobody is in it" in _said(cli.run("campaigns", "deploy", "faulty"), 3)
    assert "It would be refused: $.audience: nobody is in it" in _said(cli.run("campaigns", "plan", "faulty"))
    missing = cli.run("campaigns", "deploy", "faultyy")
    assert (missing.returncode, 'did you mean "faulty"' in missing.stderr.decode()) == (1, True)
    assert "needs its zone" in _said(cli.run("campaigns", "deploy", "faulty", "--at", "2030-01-01T00:00:00"), 2)
    for verb in ("run", "watch", "check", "trace"):
        assert "there is no campaign run 999999" in cli.run("campaigns", verb, "999999").stderr.decode()


async def test_what_is_there_looks_the_same(
    admin: Caller, serving: Program, remote: RemoteCli, inside: Connection
) -> None:
    prepare(admin, "looked-at", 3, topic="news")
    run = str((await ended(admin, deploy(admin, "looked-at")))["id"])
    for words in (
        "campaigns list --json",
        "campaigns show looked-at",
        "campaigns show looked-att",
        "campaigns plan looked-at --json",
        "campaigns plan looked-at",
        f"campaigns run {run}",
        f"campaigns run {run} --json",
        "campaigns runs --campaign looked-at --json",
        f"campaigns watch {run}",
        f"campaigns jobs {run} --json",
        f"campaigns trace {run} --json",
        f"campaigns trace {run} --limit 2",
        f"campaigns audit {run} --json",
        f"campaigns check {run}",
        f"campaigns check {run} --json",
    ):
        await same(serving, remote, *words.split())
    for audience in ('{"tags": ["looked-at"]}', '{"tag": 1}', '{"contacts": ["nobody"]}', "{}"):
        await same(serving, remote, "contacts", "audience", audience)
    assert "3 contacts" in await same(serving, remote, "contacts", "audience", '{"tags": ["looked-at"], "exclude": []}')


async def test_a_terminal_has_a_progress_bar(admin: Caller, serving: Program) -> None:
    prepare(admin, "bar", 3)
    shown = await asyncio.to_thread(serving.on_terminal, "campaigns", "deploy", "bar", "--wait", "--poll", "0.1")
    assert "3/3" in shown
    assert "completed; 3 of 3 sent" in shown


def test_progress_is_one_line() -> None:
    assert status(WHOLE_CAMPAIGN_RUN) == "running"
    words = "5,000 of 12,000 sent, 1 failed, 1,204 skipped, 100 a second, 58s left"
    assert counts(WHOLE_CAMPAIGN_RUN) == words
