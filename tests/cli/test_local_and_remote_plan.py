"""What is looked at whole before anything is done, locally and remotely: imported lists, planned runs."""

import asyncio
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

from tests.cli.test_operate import rows, talk, text
from tests.cli.test_workflows import ANN, LETTER, WAIT, begin, graph, put
from tests.support.caller import make_key
from tests.support.program import Program
from tests.support.remote_cli import Cli, RemoteCli, both, same

WHY = ("--reason", "to see")
MOMENT = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(Z|\+00:00)?")


async def test_every_fault_of_a_list_has_its_line_locally_and_remotely(
    serving: Program, remote: RemoteCli, tmp_path: Path
) -> None:
    """Lines 4 and 5,501 are wrong wherever they are read; the others where channels are known, in pages and in parts.

    Two pages are looked at, and the first one, which is over what a server takes at once, in two parts.
    """
    file = tmp_path / "faulty.csv"
    lines = [f"user-{number}@faulty.example,sms,,{'x' * 900}{number}" for number in range(1, 5_500)]
    for number, line in {
        1: "address,channel,expires_at,reason",
        3: "",
        4: "nobody,,,",
        5: "two@faulty.example,smoke,,",
        4_900: "three@faulty.example,fax,,",
        5_400: "four@faulty.example,post,,",
    }.items():
        lines[number - 1] = line
    file.write_text("\n".join([*lines, "late@faulty.example", "five@faulty.example,,2020-01-01T00:00:00Z,"]))
    await same(serving, remote, "suppressions", "import", str(file), *WHY)
    refused = json.loads(talk(remote.run("suppressions", "import", str(file), *WHY, "--json"), 3))
    assert refused["message"] == "nothing was imported: 6 faults"
    assert [one["path"] for one in refused["faults"]] == [
        f"line {number}" for number in (4, 5, 4_900, 5_400, 5_500, 5_501)
    ]
    assert refused["faults"][2]["message"].startswith("column channel: unknown channel")
    assert rows(remote.run("suppressions", "check", "user-2@faulty.example", "--json"))[0]["barred"] is False


async def test_a_list_is_imported_page_by_page_and_twice_changes_nothing(
    cli: Cli, serving: Program, remote: RemoteCli, tmp_path: Path
) -> None:
    mark = type(cli).__name__.lower()
    file = tmp_path / "list.csv"
    lines = [f"user-{number}@{mark}.example,{'bounce' if number % 2 else ''}," for number in range(10_001)]
    file.write_text("\n".join(["address,source,reason", *lines, f"last@{mark}.example,,left"]))
    asked = ("suppressions", "import", str(file), *WHY)
    assert text(cli.run(*asked)) == "10,002 addresses are suppressed\n"
    assert rows(cli.run(*asked, "--json")) == [{"imported": 10_002}]
    for address, source, reason in (("user-0", "import", "to see"), ("user-9999", "bounce", "to see")):
        (known,) = rows(cli.run("suppressions", "check", f"{address}@{mark}.example", "--json"))
        assert [(one["source"], one["reason"]) for one in known["entries"]] == [(source, reason)]
        assert len(known["log"]) == 1
    assert "left" in await same(serving, remote, "suppressions", "check", f"last@{mark}.example", "--json")
    empty = cli.run("suppressions", "import", "-", *WHY, stdin=b"\n")
    assert "has no address in it" in talk(empty, 3)


class Tiring(BaseHTTPRequestHandler):
    """A server that looks at every page, takes the first one, and refuses the next."""

    protocol_version = "HTTP/1.1"
    taken: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        """Answer one request."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not asked.get("check"):
            self.taken.append(len(asked["suppressions"]))
        status = 403 if len(self.taken) > 1 else 200
        body = json.dumps({"suppressions": [], "title": "no", "detail": "no more of these"}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """It says nothing."""


async def test_a_stopped_list_shows_its_position(remote: RemoteCli, tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("".join(f"user-{number}@half.example\n" for number in range(5_001)))
    with ThreadingHTTPServer(("127.0.0.1", 0), Tiring) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            ended = await asyncio.to_thread(
                remote.run, "suppressions", "import", str(file), *WHY, "--json", DISPATCHER_URL=address
            )
        finally:
            server.shutdown()
            serving.join()
    first, second = (json.loads(line) for line in talk(ended, 1).splitlines())
    assert first == {"imported": 5_000}
    assert (second["error"], Tiring.taken) == ("Forbidden", [5_000, 1])


async def alike(near: Program, remote: RemoteCli, code: int, *arguments: str) -> str:
    """What a command says of a run, which is the same locally and remotely but for the time of day."""
    done = await both(near, remote, *arguments)
    assert [(one.returncode, one.stderr) for one in done] == [(code, b"")] * 2
    here, there = (MOMENT.sub("then", one.stdout.decode()) for one in done)
    assert here == there
    return here


async def test_a_plan_is_the_same_locally_and_remotely(serving: Program, remote: RemoteCli, tmp_path: Path) -> None:
    which = {"id": "which", "type": "branch"}
    message = {"id": "text", "type": "sms", "to": "{{ phones }}", "body": "{{ name }} {{ shipped.carrier }} {{ n }}"}
    other = {"id": "other", "type": "chat", "to": "team", "body": "no"}
    definition = graph("foreseen", LETTER, {"id": "rest", "type": "delay", "duration": "3d"}, WAIT, which, message)
    definition["nodes"].append(other)
    definition["edges"][-1]["condition"] = "name == 'Ann'"
    definition["edges"].append({"from": "which", "to": "other"})
    put(serving, tmp_path, definition)
    text(serving.run("suppressions", "add", "+491702", *WHY))

    asked = ("runs", "plan", "foreseen", *ANN, "--var", "n=1.50", "--assume", 'shipped={"carrier": "DHL"}')
    shown = await alike(serving, remote, 0, *asked)
    for words in (
        "at once: 0 mail",
        "3d: 3 which: branch, goes to text",
        "would be skipped",
        "Ann DHL 1.5",
        "not reached",
    ):
        assert words in shown
    (plan,) = [json.loads(one) for one in (await alike(serving, remote, 0, *asked, "--json")).splitlines()]
    assert [one["node"] for one in plan["steps"]] == ["mail", "rest", "shipped", "which", "other", "text"]
    crowd = json.dumps([f"+4917{number:04}" for number in range(1_000)])
    many = await alike(serving, remote, 0, *asked, "--var", f"phones={crowd}")
    assert many.count("as those before it") == 980
    failing = await alike(serving, remote, 1, *asked, "--var", "email=")
    assert "The run would fail at mail: to: no recipient" in failing

    await same(serving, remote, "runs", "plan", "foreseen")
    await same(serving, remote, "runs", "plan", "foreseen", "--json")
    await same(serving, remote, "runs", "plan", "forseen")
    await same(serving, remote, *asked, "--assume", "nowhere={}")
    assert "foreseen has no node nowhere" in talk(remote.run(*asked, "--assume", "nowhere={}"), 2)
    run = begin(serving, "foreseen", "--key", "seen before", "--var", "n=1")
    held = await same(serving, remote, *asked, "--key", "seen before")
    assert held == f"duplicate: run {run} holds the key seen before; nothing would be started again\n"
    operator = RemoteCli(serving, make_key(serving, "triggerOperator"))
    assert "at once: 0 mail" in text(operator.run(*asked))
