"""What is looked at whole before anything is done, through both doors: imported lists, planned runs."""

import asyncio
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from tests.acceptance.far import Door, Far, same
from tests.acceptance.test_operate import rows, talk, text
from tests.program import Program

WHY = ("--reason", "to see")


@pytest.fixture(scope="module")
def far(serving: Program) -> Far:
    """The shared program's server, with a key of an administrator."""
    return Far(serving)


@pytest.fixture(params=["database", "server"])
def door(request: pytest.FixtureRequest, serving: Program, far: Far) -> Door:
    """Each of the two doors."""
    return serving if request.param == "database" else far


async def test_every_fault_of_a_list_has_its_line_through_both_doors(
    serving: Program, far: Far, tmp_path: Path
) -> None:
    """Line 4 is wrong wherever it is read, lines 5 and 5,003 only where the channels are known."""
    file = tmp_path / "faulty.csv"
    head = ["address,channel,expires_at", "one@faulty.example,,", "", "nobody,,", "two@faulty.example,smoke,"]
    many = [f"user-{number}@faulty.example,sms," for number in range(4_997)]
    file.write_text("\n".join([*head, *many, "three@faulty.example,fax,", "four@faulty.example,,2020-01-01T00:00:00Z"]))
    await same(serving, far, "suppressions", "import", str(file), *WHY)
    refused = json.loads(talk(far.run("suppressions", "import", str(file), *WHY, "--json"), 3))
    assert refused["message"] == "nothing was imported: 4 faults"
    assert [one["path"] for one in refused["faults"]] == ["line 4", "line 5", "line 5003", "line 5004"]
    assert refused["faults"][2]["message"].startswith("channel: unknown channel")
    assert rows(far.run("suppressions", "check", "one@faulty.example", "--json"))[0]["barred"] is False


async def test_a_list_is_imported_page_by_page_and_twice_changes_nothing(
    door: Door, serving: Program, far: Far, tmp_path: Path
) -> None:
    mark = type(door).__name__.lower()
    file = tmp_path / "list.csv"
    lines = [f"user-{number}@{mark}.example,{'bounce' if number % 2 else ''}," for number in range(10_001)]
    file.write_text("\n".join(["address,source,reason", *lines, f"last@{mark}.example,,left"]))
    asked = ("suppressions", "import", str(file), *WHY)
    assert text(door.run(*asked)) == "10,002 addresses are suppressed\n"
    assert rows(door.run(*asked, "--json")) == [{"imported": 10_002}]
    for address, source, reason in (("user-0", "import", "to see"), ("user-9999", "bounce", "to see")):
        (known,) = rows(door.run("suppressions", "check", f"{address}@{mark}.example", "--json"))
        assert [(one["source"], one["reason"]) for one in known["entries"]] == [(source, reason)]
        assert len(known["log"]) == 1
    assert "left" in await same(serving, far, "suppressions", "check", f"last@{mark}.example", "--json")
    empty = door.run("suppressions", "import", "-", *WHY, stdin=b"\n")
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


async def test_a_list_that_is_stopped_half_way_says_how_far_it_came(far: Far, tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("".join(f"user-{number}@half.example\n" for number in range(5_001)))
    with ThreadingHTTPServer(("127.0.0.1", 0), Tiring) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            ended = await asyncio.to_thread(
                far.run, "suppressions", "import", str(file), *WHY, "--json", DISPATCHER_URL=address
            )
        finally:
            server.shutdown()
            serving.join()
    first, second = (json.loads(line) for line in talk(ended, 1).splitlines())
    assert first == {"imported": 5_000}
    assert (second["error"], Tiring.taken) == ("Forbidden", [5_000, 1])
