"""OP-03: the command line, remote over HTTP, and on a terminal."""

import json
from pathlib import Path

import pytest

from tests.cli.test_operate import rows, text
from tests.cli.test_workflows import ANN, LETTER, graph
from tests.support.program import Program
from tests.support.remote_cli import RemoteCli


async def test_OP_03_the_command_line_does_over_http_what_it_does_on_a_database(
    program: Program, tmp_path: Path
) -> None:
    await program.start()
    remote = RemoteCli(program)
    file = tmp_path / "order.json"
    file.write_text(json.dumps(graph("order", LETTER)))
    text(remote.run("workflows", "put", str(file), "--activate"))
    said = text(remote.run("trigger", "order", *ANN, "--key", "one", "--wait", "--poll", "0.1")).splitlines()
    assert [line.split(" ", 1)[1] for line in said[1:-1]] == ["started mail", "succeeded mail"]
    assert said[-1].endswith("is completed")
    lines = [{"idempotency_key": f"line-{n}", "channel": "sms", "to": "1", "body": "x"} for n in range(3)]
    sent = remote.run("send", "--file", "-", "--json", stdin=b"\n".join(json.dumps(one).encode() for one in lines))
    assert rows(sent) == [{"written": 3, "duplicates": 0, "refused": 0, "reasons": {}}]
    (run,) = rows(program.run("runs", "list", "--json"))
    assert run == rows(remote.run("runs", "list", "--json"))[0]
    assert run["triggered_by"].startswith("key systemAdmin.")
    table = text(remote.run("deliveries", "list", "--channel", "sms"))
    assert [line.split()[0] for line in table.splitlines()] == ["id", "4", "3", "2"]


BAR = "\u2501"
LONG_WORK = {
    "send --file": '{"idempotency_key": "a", "channel": "sms", "to": "1", "body": "x"}',
    "contacts import": '{"key": "ann", "name": "Ann"}',
    "suppressions import --reason asked": "ann@example.org",
}


@pytest.mark.parametrize("words", LONG_WORK)
async def test_OP_03_long_work_shows_a_bar_on_a_terminal_and_nowhere_else(
    program: Program, tmp_path: Path, words: str
) -> None:
    file = tmp_path / "lines"
    file.write_text(LONG_WORK[words])
    command, action, *rest = words.split()
    line = [command, action, str(file), *rest]
    assert BAR in program.on_terminal(*line)
    assert BAR not in program.on_terminal(*line, "--json")
    quiet = program.run(*line)
    assert quiet.returncode == 0
    assert BAR not in (quiet.stdout + quiet.stderr).decode()
