"""Workflows and runs as whoever types them sees them. One program serves them all."""

import json
import os
import pty
import re
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.cli.test_operate import rows, talk, text
from tests.support.forks import ROOT
from tests.support.program import Program

WHY = ("--reason", "to see", "--actor", "ann")
LETTER = {"id": "mail", "type": "email", "to": "{{ email }}", "subject": "Hi", "text": "Hello {{ name }}"}
WAIT = {"id": "shipped", "type": "wait", "event": "shipped"}
ANN = ("--input", '{"email": "ann@example.org", "phones": ["+491701", "+491702"]}', "--var", "name=Ann")


def graph(name: str, *nodes: dict[str, Any], **changes: object) -> dict[str, Any]:
    """A definition whose nodes stand in a line."""
    names = [node["id"] for node in nodes]
    edges = [{"from": start, "to": end} for start, end in pairwise(names)]
    return {"name": name, "entryNodeId": names[0], "nodes": list(nodes), "edges": edges} | changes


def put(program: Program, folder: Path, definition: dict[str, Any]) -> Path:
    """Save a definition that takes triggers, and answer its file."""
    file = folder / f"{definition['name']}.json"
    file.write_text(json.dumps(definition))
    text(program.run("workflows", "put", str(file), "--activate"))
    return file


def begin(program: Program, name: str, *options: str) -> int:
    """Start a run, and answer its id."""
    (answer,) = rows(program.run("trigger", name, *ANN, *options, "--json"))
    assert answer["status"] == "queued"
    return int(answer["execution_id"])


async def come_to(program: Program, run_id: int, status: str) -> dict[str, Any]:
    """Wait until a run has a status, and answer the run."""
    connection = await asyncpg.connect(program.url)

    async def is_there() -> bool:
        return bool(await connection.fetchval("SELECT status FROM dispatcher.runs WHERE id = $1", run_id) == status)

    try:
        await program.until(is_there, f"run {run_id} is {status}")  # type: ignore[arg-type]  # its T is a bool's, too
    finally:
        await connection.close()
    (run,) = rows(program.run("runs", "show", str(run_id), "--json"))
    return run


async def test_each_workflow_command_prints_its_result(program: Program, tmp_path: Path) -> None:
    assert text(program.run("workflows", "list")) == "There are no workflows.\n"
    file = tmp_path / "order.yaml"
    file.write_text(json.dumps(graph("order", LETTER)))
    said = text(program.run("workflows", "put", str(file), "--actor", "ann"))
    assert said == ("workflow order: version 1 is saved; `dispatcher workflows activate order` lets it take triggers\n")
    assert "version 1 says this already" in text(program.run("workflows", "put", str(file)))
    file.write_text(json.dumps(graph("order", LETTER | {"subject": "Good day"}, WAIT)))
    (saved,) = rows(program.run("workflows", "put", str(file), "--activate", "--json"))
    assert (saved["version"], saved["created"], saved["active"], saved["total_steps"]) == (2, True, True, 2)
    (listed,) = rows(program.run("workflows", "list", "--json"))
    assert (listed["name"], listed["active"], listed["version"]) == ("order", True, 2)

    shown = text(program.run("workflows", "show", "order"))
    for words in ("2 of 2, by", "email, name", "wait for shipped", "activate"):
        assert words in shown
    (first,) = rows(program.run("workflows", "show", "order", "--version", "1", "--json"))
    assert (first["author"], first["definition"]["nodes"]) == ("ann", [LETTER])
    assert [one["action"] for one in first["actions"]] == ["activate", "put", "put"]
    assert "● mail" in text(program.run("workflows", "show", "order", "--graph"))
    assert text(program.run("workflows", "show", "order", "--mermaid")).startswith("flowchart TD\n")
    assert json.loads(text(program.run("workflows", "show", "order", "--definition"))) == json.loads(file.read_text())

    assert '"Hi" -> "Good day"' in text(program.run("workflows", "diff", "order"))
    assert "say the same" in text(program.run("workflows", "diff", str(file)))
    (compared,) = rows(program.run("workflows", "diff", str(file), "--from", "1", "--json"))
    assert (compared["from"], compared["differs"]) == (1, True)

    assert text(program.run("workflows", "deactivate", "order")) == "workflow order takes no more triggers\n"
    assert "already" in text(program.run("workflows", "deactivate", "order"))
    assert text(program.run("workflows", "delete", "order")) == "workflow order is deleted\n"
    assert "there is no workflow order" in talk(program.run("workflows", "show", "order"), 1)


async def test_every_fault_of_every_file_is_named_and_nothing_is_saved(
    program: Program, connection: Any, tmp_path: Path
) -> None:
    good, bad, worse = (tmp_path / name for name in ("good.json", "bad.yaml", "worse.json"))
    good.write_text(json.dumps(graph("good", LETTER)))
    bad.write_text(
        "name: bad\nentryNodeId: a\nnodes:\n  - {id: a, type: emial}\n  - {id: b, type: join, colour: red}\n"
    )
    worse.write_text('{"name": ')
    said = talk(program.run("workflows", "put", *map(str, (good, bad, worse)), "/nowhere.yaml"), 3)
    for words in (
        f"{bad}: $.nodes[0].type: there is no type or channel",
        f"{bad}: $.nodes[1].colour: unknown key",
        f"{bad}: $.nodes[1]: cannot be reached",
        f"{worse}: $: line 1: is not JSON",
        "/nowhere.yaml: cannot be read: No such file",
    ):
        assert words in said
    faults = json.loads(talk(program.run("workflows", "put", str(bad), "--json"), 3))["faults"]
    assert faults[0]["path"] == f"{bad}: $.nodes[0].type"
    twice = tmp_path / "twice.json"
    twice.write_text(good.read_text())
    assert "is called good, too" in talk(program.run("workflows", "put", str(good), str(twice)), 3)
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.workflows") == 0


async def test_a_folder_is_compared_and_saved(program: Program, tmp_path: Path) -> None:
    put(program, tmp_path, graph("elsewhere", LETTER))
    folder = tmp_path / "workflows"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.yaml").write_text(json.dumps(graph("a", LETTER)))
    (folder / "deep" / "b.json").write_text(json.dumps(graph("b", LETTER)))
    sync = ("workflows", "sync", str(folder))
    checked = program.run(*sync, "--check")
    assert text(checked, 1).splitlines() == ["a: is not stored (a.yaml)", "b: is not stored (deep/b.json)"]
    assert "stored, and not in the folder: elsewhere" in checked.stderr.decode()
    assert "workflow a: version 1 is saved\n" in text(program.run(*sync))
    assert text(program.run(*sync, "--check")) == "all 2 are stored as they are here\n"
    (folder / "a.yaml").write_text(json.dumps(graph("a", LETTER | {"subject": "Bye"})))
    inactive = text(program.run(*sync, "--check", "--activate"), 1)
    assert '"Hi" -> "Bye"' in inactive
    assert inactive.count("is not active") == 2
    saved = rows(program.run(*sync, "--activate", "--json"))
    assert [(one["name"], one["version"], one["changed"], one["active"]) for one in saved] == [
        ("a", 2, True, True),
        ("b", 1, False, True),
    ]


async def test_a_run_is_followed_to_its_end(serving: Program, tmp_path: Path) -> None:
    both = {"id": "text", "type": "sms", "to": "{{ phones }}", "body": "{{ name }}: {{ mail.status }}"}
    put(serving, tmp_path, graph("followed", LETTER, {"id": "rest", "type": "delay", "delayMs": 1}, both))
    asked = ("trigger", "followed", *ANN, "--key", "one")
    done = serving.run(*asked, "--wait", "--poll", "0.1", "--actor", "bob")
    said = text(done).splitlines()
    assert said[-1].endswith("is completed")
    assert [line.split(" ", 1)[1] for line in said[1:-1]] == [
        f"{event} {node}" for node in ("mail", "rest", "text") for event in ("started", "succeeded")
    ]
    assert "holds the key one; nothing is started again" in text(serving.run(*asked))
    (run,) = rows(serving.run("runs", "list", "--workflow", "followed", "--key", "one", "--since", "1h", "--json"))
    assert (run["status"], run["triggered_by"], run["current_steps"]) == ("completed", "bob", [])
    assert rows(serving.run("runs", "list", "--workflow", "followed", "--before", str(run["id"]), "--json")) == []

    (shown,) = rows(serving.run("runs", "show", str(run["id"]), "--json"))
    assert shown["context"]["text"]["recipients"][1]["recipient"] == "+491702"
    assert [(one["node"], one["status"]) for one in shown["deliveries"]] == [
        ("mail", "sent"),
        ("text", "sent"),
        ("text", "sent"),
    ]
    readable = text(serving.run("runs", "show", str(run["id"])))
    for words in ("succeeded", "delay 1ms", '"status": "sent"', "+491702"):
        assert words in readable
    drawn = text(serving.run("runs", "show", str(run["id"]), "--graph")).splitlines()
    assert [line.split("  ")[0] for line in drawn if "●" in line] == [
        f"done ● {one}" for one in ("mail", "rest", "text")
    ]
    lines = rows(serving.run("runs", "show", str(run["id"]), "--graph", "--json"))
    assert [(one["node"], one["state"]) for one in lines if one["node"]] == [
        (one, "done") for one in ("mail", "rest", "text")
    ]


async def test_a_run_fits_a_terminal_of_100_columns(serving: Program, tmp_path: Path) -> None:
    put(serving, tmp_path, graph("wide", LETTER, WAIT | {"id": "a-node-with-a-name-that-is-not-short-at-all"}))
    run_id = begin(serving, "wide", "--var", f"note={'long words ' * 40}")
    await come_to(serving, run_id, "waiting")
    for more in ((), ("--graph",)):
        shown = serving.on_terminal("runs", "show", str(run_id), *more)
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown.splitlines()]
        assert max(map(len, lines)) <= 100
        assert any("a-node-with-a-name" in line for line in lines)
        if not more:
            # Times and states are whole.
            assert any(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +started ", line) for line in lines)
            assert any("long words long words" in line and line.endswith("…") for line in lines)


async def test_a_failed_run_ends_the_command_and_is_retried_from_where_it_failed(
    serving: Program, tmp_path: Path
) -> None:
    late = {"id": "late", "type": "sms", "to": "+491", "template": "{{ shipped.template }}"}
    put(serving, tmp_path, graph("failing", LETTER, WAIT, late))
    run_id = begin(serving, "failing")
    signal = ("runs", "signal", str(run_id), "shipped", "--data", '{"template": "later"}')
    assert text(serving.run(*signal)) == f"run {run_id} has the event\n"
    watched = serving.run("runs", "watch", str(run_id), "--poll", "0.1", "--json")
    *entries, last = rows(watched, 1)
    assert (entries[-1]["event"], entries[-1]["node"]) == ("failed", "late")
    assert (last["status"], last["error_node"], last["ended"]) == ("failed", "late", True)
    assert "has failed at late: " in text(serving.run("runs", "watch", str(run_id)), 1)
    assert [one["id"] for one in rows(serving.run("runs", "list", "--status", "failed", "--json"))] == [run_id]

    assert "goes on from where it had failed" in text(serving.run("runs", "retry", str(run_id), *WHY))
    text(serving.run("runs", "watch", str(run_id), "--poll", "0.1"), 1)
    run = await come_to(serving, run_id, "failed")
    assert run["retries"] == 1
    events = [(one["event"], one.get("node")) for one in run["log"]]
    assert (events.count(("started", "mail")), events.count(("failed", "late"))) == (1, 2)
    assert ("replayed", None) in events
    # A node whose template is not there has ordered nothing.
    assert [one["node"] for one in run["deliveries"]] == ["mail"]
    text(serving.run("runs", "cancel", str(run_id), *WHY), 1)
    waiting = begin(serving, "failing")
    assert "only a failed one can be retried" in text(serving.run("runs", "retry", str(waiting), *WHY), 1)


async def test_a_time_out_names_the_run_and_leaves_it_alone(serving: Program, tmp_path: Path) -> None:
    put(serving, tmp_path, graph("patient", WAIT, LETTER | {"text": "{{ name }} {{ shipped.carrier }}"}))
    waited = serving.run("trigger", "patient", *ANN, "--wait", "--timeout", "0.3", "--json")
    assert waited.returncode == 1
    run_id = json.loads(waited.stdout.splitlines()[0])["execution_id"]
    said = json.loads(waited.stderr)
    assert (said["error"], said["execution_id"]) == ("TimedOut", run_id)
    assert f"run {run_id} has not ended within 0.3 s" in said["message"]
    await come_to(serving, run_id, "waiting")

    assert text(serving.run("runs", "pause", str(run_id), *WHY)) == f"run {run_id} is paused\n"
    assert "is paused already" in text(serving.run("runs", "pause", str(run_id), *WHY), 1)
    assert [one["id"] for one in rows(serving.run("runs", "list", "--status", "paused", "--json"))] == [run_id]
    assert "has unfinished runs" in talk(serving.run("workflows", "delete", "patient"), 1)
    assert text(serving.run("runs", "resume", str(run_id), *WHY)) == f"run {run_id} goes on\n"
    both = serving.run("runs", "cancel", str(run_id), "999999", *WHY, "--json")
    assert [one["answer"] for one in rows(both, 1)] == ["cancelled", "unknown"]
    (shown,) = rows(serving.run("runs", "show", str(run_id), "--json"))
    assert [one["event"] for one in shown["log"] if "node" not in one] == ["paused", "resumed", "cancelled"]
    assert "was cancelled: too late" in text(serving.run("runs", "signal", str(run_id), "shipped"), 1)
    assert "is active and has runs" in talk(serving.run("workflows", "delete", "patient"), 1)


async def test_a_terminal_sees_the_steps(serving: Program, tmp_path: Path) -> None:
    put(
        serving,
        tmp_path,
        graph("seen", LETTER, {"id": "rest", "type": "delay", "duration": "1s"}, LETTER | {"id": "end"}),
    )
    ours, theirs = pty.openpty()
    process = subprocess.Popen(  # noqa: ASYNC220 - forking takes a moment, and nothing else runs
        serving.command("trigger", "seen", *ANN, "--wait"),
        env=serving.environment_with({"TERM": "xterm", "COLUMNS": "100"}),
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=ROOT,
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:  # it has closed its end
        pass
    finally:
        os.close(ours)
    stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert stdout.decode().splitlines()[-1].endswith("is completed")
    for words in ("delay 1s", "completed, 3 of 3 done", "✓"):
        assert words in seen.decode()


async def counted(url: str) -> list[tuple[str, int]]:
    """How many rows each table has, and where each sequence stands."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("SELECT tablename AS name FROM pg_tables WHERE schemaname = 'dispatcher'")
        found = [
            (row["name"], await connection.fetchval(f"SELECT count(*) FROM dispatcher.{row['name']}")) for row in tables
        ]
        sequences = await connection.fetch(
            "SELECT sequencename AS name, last_value FROM pg_sequences WHERE schemaname = 'dispatcher'"
        )
        return sorted([*found, *((row["name"], row["last_value"] or 0) for row in sequences)])
    finally:
        await connection.close()


async def test_a_plan_shows_what_a_trigger_would_do_and_writes_nothing(program: Program, tmp_path: Path) -> None:
    template = tmp_path / "welcome.liquid"
    template.write_text("---\nchannel: email\n---\n--- subject ---\nHi {{ name }}\n--- text ---\nHello {{ shop }}\n")
    text(program.run("templates", "put", str(template), "--publish"))
    text(program.run("suppressions", "add", "+491702", *WHY))
    letter = {"id": "mail", "type": "email", "to": "{{ email }}", "template": "welcome", "variables": {"shop": "Lamps"}}
    which = {"id": "which", "type": "branch"}
    message = {"id": "text", "type": "sms", "to": "{{ phones }}", "body": "{{ name }} {{ shipped.carrier }}"}
    other = {"id": "other", "type": "chat", "to": "team", "body": "no"}
    definition = graph("planned", letter, {"id": "rest", "type": "delay", "duration": "3d"}, WAIT, which, message)
    definition["nodes"].append(other)
    definition["edges"][-1]["condition"] = "name == 'Ann'"
    definition["edges"].append({"from": "which", "to": "other"})
    put(program, tmp_path, definition)

    before = await counted(program.url)
    assumed = ("--assume", 'shipped={"carrier": "DHL"}')
    (plan,) = rows(program.run("runs", "plan", "planned", *ANN, *assumed, "--json"))
    steps = {one["node"]: one for one in plan["steps"]}
    (mail,) = steps["mail"]["messages"]
    assert (mail["parts"], mail["version"]) == ({"subject": "Hi Ann", "text": "Hello Lamps"}, 1)
    assert mail["bytes"] == len("Hi AnnHello Lamps")
    assert steps["shipped"]["at"] == steps["rest"]["until"]
    assert (steps["which"]["leads_to"], steps["other"]["skipped"]) == (["text"], True)
    first, second = steps["text"]["messages"]
    assert (first["parts"], first["skipped"]) == ({"body": "Ann DHL"}, None)
    assert second["skipped"].startswith("suppressed: operator: to see")
    readable = text(program.run("runs", "plan", "planned", *ANN, *assumed))
    for words in (
        "at once: 0 mail",
        "3d: 3 which: branch, goes to text",
        "would be skipped",
        "Hello Lamps",
        "not reached",
    ):
        assert words in readable
    failing = program.run("runs", "plan", "planned", *ANN, "--var", "email=")
    assert "The run would fail at mail: to: no recipient" in text(failing, 1)

    refused = [talk(program.run(*verb, "planned", "--json"), 3) for verb in (("runs", "plan"), ("trigger",))]
    assert refused[0] == refused[1]
    assert "Missing template variables: email, phones, name" in refused[0]
    assert await counted(program.url) == before
    run_id = begin(program, "planned", "--key", "k")
    assert f"duplicate: run {run_id} holds the key k" in text(
        program.run("runs", "plan", "planned", *ANN, "--key", "k")
    )


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("workflows show nobody", 1, "there is no workflow nobody"),
        ("workflows show sleeping --version 9", 1, "workflow sleeping has no version 9; its newest is 1"),
        ("workflows show sleeping --graph --mermaid", 2, "use only one of these options"),
        ("workflows activate nobody", 1, "there is no workflow nobody"),
        ("workflows delete slepping", 1, 'did you mean "sleeping"?'),
        ("workflows diff sleeping --from 7", 1, "has no version 7"),
        ("workflows sync tests/cli", 2, "has no file *.yaml, *.yml, *.json"),
        ("workflows show \udcff", 2, "is not UTF-8"),
        ("trigger sleeping", 3, "the workflow 'sleeping' is not active"),
        ("trigger slepping", 3, 'did you mean "sleeping"?'),
        ("trigger sleeping --input [1]", 2, "cannot be read"),
        ("trigger sleeping --input {", 2, "not a JSON object"),
        ("trigger sleeping --var x", 2, "expected NAME=VALUE"),
        ("trigger sleeping --key=", 2, "is empty"),
        ("runs list --status asleep", 2, "expected one of pending"),
        ("runs list --since yesterday", 2, "expected a time in RFC 3339"),
        ("runs show 404", 1, "there is no run 404"),
        ("runs watch 404", 1, "there is no run 404"),
        ("runs pause 1 --reason=", 2, "is empty"),
        ("runs signal 1 shipped --data 1", 2, "cannot be read"),
        ("runs plan sleeping --assume x={}", 3, "is not active"),
    ],
)
async def test_impossible_commands_are_explained_in_a_sentence(
    asleep: Program, command: str, code: int, words: str
) -> None:
    assert words in " ".join(talk(asleep.run(*command.split(" ")), code).split())


@pytest.fixture(scope="module")
async def asleep(serving: Program, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A program that has a workflow which takes no triggers."""
    file = tmp_path_factory.mktemp("asleep") / "sleeping.json"
    file.write_text(json.dumps(graph("sleeping", LETTER)))
    text(serving.run("workflows", "put", str(file)))
    return serving
