"""WF-01, WF-02 and WF-05: workflows in versions, what is refused as one, and when one can be deleted."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.flows import Definition, Flows, graph, line, node
from tests.conformance.test_templates import rows, text
from tests.support.program import Program

FIRST = line("greeting", node("paid", "wait", event="paid"), node("hello", "sms", body="Hello {{ name }}"))
SECOND = line("greeting", node("paid", "wait", event="paid"), node("hello", "sms", body="Good day {{ name }}"))


def written(folder: Path, definition: Definition, name: str | None = None) -> str:
    """A definition as a file."""
    path = folder / f"{name or definition['name']}.json"
    path.write_text(json.dumps(definition))
    return str(path)


# WF-01


async def test_WF_01_each_change_is_a_version_with_its_time_and_author(flows: Flows, tmp_path: Path) -> None:
    program = flows.program
    began = await flows.connection.fetchval("SELECT clock_timestamp()")
    path = written(tmp_path, FIRST)
    (created,) = rows(program.run("--json", "workflows", "put", path, "--actor", "ann"))
    assert (created["version"], created["created"], created["active"], created["total_steps"]) == (1, True, False, 2)
    text(program.run("workflows", "activate", "greeting", "--actor", "bob"))
    (again,) = rows(program.run("--json", "workflows", "put", path, "--actor", "ann"))
    assert (again["version"], again["created"]) == (1, False)
    written(tmp_path, SECOND)
    (updated,) = rows(program.run("--json", "workflows", "put", path, "--actor", "cat"))
    assert (updated["version"], updated["created"], updated["active"]) == (2, True, True)
    text(program.run("workflows", "deactivate", "greeting", "--actor", "dan"))
    (shown,) = rows(program.run("--json", "workflows", "show", "greeting"))
    assert (shown["definition"], shown["version"], shown["active"]) == (SECOND, 2, False)
    assert [(one["number"], one["author"]) for one in shown["versions"]] == [(2, "cat"), (1, "ann")]
    assert all(one["created_at"] > began.isoformat()[:19] for one in shown["versions"])
    assert [(one["action"], one["actor"], one["version"]) for one in reversed(shown["actions"])] == [
        ("put", "ann", 1),
        ("activate", "bob", 1),
        ("put", "cat", 2),
        ("deactivate", "dan", 2),
    ]
    (old,) = rows(program.run("--json", "workflows", "show", "greeting", "--version", "1"))
    assert old["definition"] == FIRST
    (listed,) = [one for one in rows(program.run("--json", "workflows", "list")) if one["name"] == "greeting"]
    assert (listed["version"], listed["active"], listed["author"], listed["total_steps"]) == (2, False, "cat", 2)
    text(program.run("workflows", "delete", "greeting", "--actor", "eve"))
    assert "greeting" not in [one["name"] for one in rows(program.run("--json", "workflows", "list"))]


async def test_WF_01_a_version_never_changes(flows: Flows) -> None:
    saved = await flows.put(line("for-ever", node("hello", "sms")))
    for change in ("UPDATE dispatcher.plan_versions SET author = 'x'", "DELETE FROM dispatcher.plan_versions"):
        with pytest.raises(Exception, match="immutable"):
            await flows.connection.execute(f"{change} WHERE id = {saved['version_id']}")


async def test_WF_01_runs_stay_on_the_version_that_they_began_with(flows: Flows) -> None:
    await flows.put(FIRST | {"name": "stays"})
    old = await flows.trigger("stays", {"name": "Ann"})
    await flows.until_at(old, "paid")
    await flows.put(SECOND | {"name": "stays"})
    new = await flows.trigger("stays", {"name": "Ann"})
    await flows.until_at(new, "paid")
    for run, version, said in ((old, 1, "Hello Ann"), (new, 2, "Good day Ann")):
        await flows.signal(run, "paid")
        await flows.until_status(run, "completed")
        assert (await flows.view(run))["workflow_version"] == version
        assert await flows.said(run) == [said]


# WF-02

# As the manual of the template language lists them.
OF_LIQUIDJS = ["json", "jsonify", "inspect", "push", "pop", "shift", "where_exp", "group_by", "date_to_xmlschema"]
HELLO = node("hello", "sms", body="Hello")
BRANCH = graph("branch", [node("which", "branch"), HELLO], [("which", "hello", "a == 1")])


def step(**fields: Any) -> Definition:
    """A list of one step."""
    return {"steps": [{"name": "one", "function": "send-email", "action": "send"} | fields]}


def one_node(kind: str, **fields: Any) -> Definition:
    """A graph of one node with just these fields."""
    return graph("one", [{"id": "one", "type": kind} | fields], [])


# What each clause of the refusal is about: a definition, and where its faults are with a word of what is said.
REFUSED: Mapping[str, tuple[Definition, Mapping[str, str]]] = {
    "no entry": (line("x", HELLO) | {"entryNodeId": "helo"}, {"$.entryNodeId": 'did you mean "hello"?'}),
    "entry not given": ({"nodes": [HELLO]}, {"$.entryNodeId": "is required"}),
    "edge from nowhere": (graph("x", [HELLO], [("gone", "hello")]), {"$.edges[0].from": 'no node "gone"'}),
    "edge to nowhere": (graph("x", [HELLO], [("hello", "gone")]), {"$.edges[0].to": 'no node "gone"'}),
    "cycle": (
        graph("x", [HELLO, node("b", "join"), node("c", "join")], [("hello", "b"), ("b", "c"), ("c", "b")]),
        {"$.edges[2]": "closes a circle"},
    ),
    "cycle of one": (graph("x", [HELLO], [("hello", "hello")]), {"$.edges[0]": "closes a circle"}),
    "unreachable": (graph("x", [HELLO, node("apart", "sms")], []), {"$.nodes[1]": "cannot be reached"}),
    "no Liquid in a part": (line("x", node("a", "sms", body="{{ name")), {"$.nodes[0].body": ""}),
    "no Liquid in a recipient": (line("x", node("a", "sms", to="{% if %}")), {"$.nodes[0].to": ""}),
    "no Liquid in a variable": (
        line("x", node("a", "sms", variables={"deep": [{"er": "{{ | }}"}]})),
        {"$.nodes[0].variables.deep[0].er": ""},
    ),
    "no Liquid in a payload": (
        step(payload_template={"to_email": "a@b.c", "subject": "s", "text": "{{ name"}),
        {"$.steps[0].payload_template.text": ""},
    ),
    "no Liquid in a condition": (
        BRANCH | {"edges": [{"from": "which", "to": "hello", "condition": "a =="}]},
        {"$.edges[0].condition": ""},
    ),
    "tags around a condition": (
        BRANCH | {"edges": [{"from": "which", "to": "hello", "condition": "{{ a }}"}]},
        {"$.edges[0].condition": "{{"},
    ),
    "no Liquid in until": (one_node("delay", until="{{ at"), {"$.nodes[0].until": ""}),
    "no Liquid in a key": (one_node("digest", key="{{ at", window="1h"), {"$.nodes[0].key": ""}),
    "unknown filter": (line("x", node("a", "sms", body="{{ a | shout }}")), {"$.nodes[0].body": "shout"}),
    "unknown tag": (line("x", node("a", "sms", body="{% layout 'a' %}")), {"$.nodes[0].body": "layout"}),
    "filters of LiquidJS": (
        line("x", *(node(f"n{number}", "sms", body=f"{{{{ a | {one} }}}}") for number, one in enumerate(OF_LIQUIDJS))),
        {f"$.nodes[{number}].body": one for number, one in enumerate(OF_LIQUIDJS)},
    ),
    "delay without time": (one_node("delay"), {"$.nodes[0]": "delayMs or duration"}),
    "delayMs below zero": (one_node("delay", delayMs=-1), {"$.nodes[0].delayMs": "-1"}),
    "delayMs as text": (one_node("delay", delayMs="1000"), {"$.nodes[0].delayMs": "whole number"}),
    "duration that is none": (one_node("delay", duration="soon"), {"$.nodes[0].duration": "no duration"}),
    "duration of a month": (one_node("delay", duration="P1M"), {"$.nodes[0].duration": "months"}),
    "two times": (one_node("delay", delayMs=1, duration="1h"), {"$.nodes[0].duration": "beside delayMs"}),
    "until no time": (one_node("delay", until="tomorrow"), {"$.nodes[0].until": "RFC 3339"}),
    "field of another type": (one_node("delay", delayMs=1, body="Hi"), {"$.nodes[0].body": "unknown key"}),
    "unknown field": (line("x", HELLO | {"bdoy": "Hi"}), {"$.nodes[0].bdoy": 'did you mean "body"?'}),
    "no recipient": (one_node("sms", body="Hi"), {"$.nodes[0].to": "is required"}),
    "nothing to send": (one_node("sms", to="+4917012345"), {"$.nodes[0]": "nothing to send"}),
    "part of another channel": (
        one_node("sms", to="+4917012345", parts={"subject": "Hi", "body": "Hi"}),
        {"$.nodes[0].parts.subject": "no part of sms"},
    ),
    "wait without event": (one_node("wait"), {"$.nodes[0].event": "is required"}),
    "digest without window": (one_node("digest", key="{{ a }}"), {"$.nodes[0].window": "is required"}),
    "digest of too many": (
        one_node("digest", key="{{ a }}", window="1h", max_items=10_001),
        {"$.nodes[0].max_items": "10000"},
    ),
    "condition behind no branch": (
        graph("x", [HELLO, node("b", "join")], [("hello", "b", "a == 1")]),
        {"$.edges[0].condition": "branch"},
    ),
    "branch without edges": (one_node("branch"), {"$.nodes[0]": "nothing to choose from"}),
    "on_failure": (line("x", HELLO | {"on_failure": "panic"}), {"$.nodes[0].on_failure": "retry, continue, abort"}),
    "unknown channel": (one_node("pigeon", to="ann", body="Hi"), {"$.nodes[0].type": '"pigeon"'}),
    "no type": ({"entryNodeId": "a", "nodes": [{"id": "a"}]}, {"$.nodes[0].type": "is required"}),
    "unknown function": (one_node("http", function="bil", action="a"), {"$.nodes[0].function": 'no function "bil"'}),
    "unknown function of a step": (
        step(function="send-mail", payload_template={}),
        {"$.steps[0].function": 'did you mean "send-email"?'},
    ),
    "two nodes of one id": (
        {"entryNodeId": "hello", "nodes": [HELLO, HELLO]},
        {"$.nodes[1].id": "$.nodes[0]"},
    ),
    "neither form": ({}, {"$": "nodes"}),
    "both forms": (
        {"nodes": [HELLO]} | step(payload_template={"to_email": "a", "template_id": "b"}),
        {"$.nodes": "steps"},
    ),
    "too many nodes": (
        graph("x", [node(f"n{number}", "join") for number in range(10_000)], []),
        {"$.nodes": "1000"},
    ),
}

Faults = Mapping[str, Mapping[str, str]]


@pytest.fixture(scope="module")
async def refused(flows: Flows, tmp_path_factory: pytest.TempPathFactory) -> Faults:
    """What the command says of all of them at once, by file and path; one that is right is put beside them."""
    folder = tmp_path_factory.mktemp("refused")
    good = written(folder, line("good-beside-bad", HELLO))
    files = {}
    for number, (about, (definition, _)) in enumerate(REFUSED.items()):
        files[about] = written(folder, definition | {"name": f"bad-{number}"}, str(number))
    done = flows.program.run("--json", "workflows", "put", good, *files.values(), "--activate")
    assert (done.returncode, done.stdout) == (3, b""), done.stderr
    (said,) = map(json.loads, done.stderr.splitlines())
    found: dict[str, dict[str, str]] = {about: {} for about in files}
    for fault in said["faults"]:
        file, _, path = fault["path"].rpartition(": ")
        (about,) = [about for about, there in files.items() if there == file]
        found[about][path] = fault["message"]
    return found


@pytest.mark.parametrize("about", REFUSED)
async def test_WF_02_a_definition_is_refused_at_the_path_of_its_fault(refused: Faults, about: str) -> None:
    expected = REFUSED[about][1]
    assert refused[about].keys() == expected.keys(), refused[about]
    for path, word in expected.items():
        assert word in refused[about][path]
        assert len(refused[about][path]) > 5


async def test_WF_02_nothing_is_saved_where_one_of_several_is_refused(flows: Flows, refused: Faults) -> None:
    assert all(refused.values())
    saved = "SELECT name FROM dispatcher.workflows WHERE name LIKE 'bad-%' OR name = 'good-beside-bad'"
    assert await flows.connection.fetch(saved) == []


async def test_WF_02_every_fault_of_a_definition_is_named_at_once(program: Program, tmp_path: Path) -> None:
    nodes: list[Definition] = [
        {"id": "a", "type": "delay"},
        {"id": "b", "type": "sms", "to": "+4917012345", "body": "{{ name | shout }}\n{% layout %}"},
        {"id": "c", "type": "pigeon"},
    ]
    edges = [{"from": "a", "to": "b"}, {"from": "b", "to": "nowhere"}, {"from": "b", "to": "a"}]
    path = written(tmp_path, {"name": "many", "entryNodeId": "a", "nodes": nodes, "edges": edges, "stpes": []})
    done = program.run("--json", "workflows", "put", path)
    assert done.returncode == 3
    (said,) = map(json.loads, done.stderr.splitlines())
    paths = {fault["path"].removeprefix(f"{path}: ") for fault in said["faults"]}
    assert paths >= {"$.nodes[0]", "$.nodes[1].body", "$.nodes[2].type", "$.nodes[2]", "$.edges[1].to", "$.stpes"}
    assert {one for one in paths if one.startswith("$.edges")} == {"$.edges[1].to", "$.edges[2]"}


async def test_WF_02_an_update_that_is_refused_leaves_the_version_that_is_there(flows: Flows, tmp_path: Path) -> None:
    await flows.put(line("kept", node("hello", "sms", body="Hello")))
    broken = line("kept", node("hello", "sms", body="{{ Hello"))
    done = flows.program.run("workflows", "put", written(tmp_path, broken))
    assert done.returncode == 3
    assert b"$.nodes[0].body" in done.stderr
    run = await flows.trigger("kept")
    await flows.until_status(run, "completed")
    assert ((await flows.view(run))["workflow_version"], await flows.said(run)) == (1, ["Hello"])


# WF-05


async def test_WF_05_a_workflow_is_not_deleted_while_it_has_unfinished_runs_or_is_active_and_has_any(
    flows: Flows,
) -> None:
    def delete() -> tuple[int, str]:
        done = flows.program.run("--json", "workflows", "delete", "deleted")
        return done.returncode, (done.stdout + done.stderr).decode()

    async def set_active(active: bool) -> None:
        asked = "SELECT dispatcher.set_workflow_active('default', 'default', 'deleted', $1, 'ann')"
        await flows.connection.execute(asked, active)

    await flows.put(FIRST | {"name": "deleted"})
    run = await flows.trigger("deleted", {"name": "Ann"}, idempotency_key="k")
    await flows.until_at(run, "paid")
    code, said = delete()
    assert (code, "has unfinished runs" in said) == (1, True)
    await set_active(False)
    code, said = delete()
    assert (code, "has unfinished runs" in said) == (1, True)
    await flows.signal(run, "paid")
    await flows.until_status(run, "completed")
    await set_active(True)
    code, said = delete()
    assert (code, "is active and has runs" in said) == (1, True)
    assert (await flows.answer("deleted", {}, idempotency_key="k"))["duplicate"] is True
    await set_active(False)
    assert delete()[0] == 0
    with pytest.raises(Exception, match="there is no workflow 'deleted'"):
        await flows.trigger("deleted", {"name": "Ann"})
    # What its runs have done stays, and the name is free.
    assert (await flows.view(run))["status"] == "completed"
    assert (await flows.put(SECOND | {"name": "deleted"}))["number"] == 1


async def test_WF_05_a_workflow_without_runs_is_deleted_although_it_is_active(flows: Flows) -> None:
    await flows.put(line("unused", HELLO))
    asked = "SELECT dispatcher.delete_workflow('default', 'default', 'unused', 'ann')"
    assert await flows.connection.fetchval(asked) == "deleted"
