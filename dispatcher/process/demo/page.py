"""The page that `demo --serve` shows when it is ready: what runs, where, and what to try next."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.base.version import VERSION
from dispatcher.cli.terminal.console import plain
from dispatcher.process.demo.samples import AHEAD_SECONDS, INPUT

# A key of its own for each run, so that the example works more than once.
_INSERT = (
    "INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template, variables) VALUES "
    "(gen_random_uuid()::text, 'email', 'ann@example.org', "
    "jsonb_build_object('subject', 'Hi {{ name }}', 'text', 'From SQL.'), jsonb_build_object('name', 'Ann'))"
)
_LINES = (
    r"""printf '%s\n' '{"idempotency_key": "line-1", "channel": "push", "to": "device-1", "body": "One"}' """
    r"""'{"idempotency_key": "line-2", "channel": "chat", "to": "#team", "body": "Two"}'"""
)
# Its order is a small one: it takes the other branch.
_INPUT = msgspec.json.encode({**INPUT, "order": {"id": 1003, "total": 20}}).decode()


class Facts(Struct, frozen=True):
    """The facts on the page. `psql` is a command up to its statement, or empty where the URL may not be shown."""

    launcher: str
    address: str
    database: str
    psql: str
    data_dir: str
    log: str
    embedded: bool
    deliveries: Sequence[Mapping[str, Any]]
    run: Mapping[str, Any]
    again: bool
    # A link that signs in, once.
    console: str = ""


def commands(facts: Facts) -> list[tuple[str, list[str]]]:
    """Return what to try next: headings, each with commands for a shell."""
    run, workflow = facts.launcher, facts.run["workflow"]
    failed = {row["life"]: row["id"] for row in facts.deliveries}.get("failed")
    repair = [
        f"{run} deliveries retry {failed} --var name=Farid --reason 'it had no name'",
        f"{run} deliveries show --key retry-of-{failed}",
    ]
    pages = [f"curl {facts.address}/readyz", f"curl --silent {facts.address}/metrics"] if facts.address else []
    # A live key's name cannot be used again: each try has its own.
    key = f"$({run} keys create try-$RANDOM --role triggerOperator --reason 'to look around')"
    asked = f'curl --silent --fail {facts.address}/runs/{facts.run["id"]} -H "Authorization: Bearer {key}"'
    shown = failed if failed is not None else facts.deliveries[0]["id"]
    return [
        (
            "Look at what was sent, and at one with its whole trace",
            [f"{run} deliveries {words}" for words in ("list", f"show {shown}", "list --life failed --json")],
        ),
        (
            "Send one, or one a line",
            [
                f"{run} send --channel sms --to +4915550000003 --body 'Hello {{{{ name }}}}' --var name=Ann",
                f"{_LINES} | {run} send --file -",
            ],
        ),
        (
            "Look at a workflow and at its run, and begin another one",
            [
                f"{run} workflows show {workflow} --graph",
                f"{run} runs show {facts.run['id']}",
                f"{run} runs plan {workflow} --input '{_INPUT}'",
                f"{run} trigger {workflow} --input '{_INPUT}' --wait",
            ],
        ),
        ("Send it from SQL, in any language", [f'{facts.psql} -c "{_INSERT}"'] if facts.psql else []),
        ("Repair the failed one, which lacks a variable", repair if failed is not None else []),
        (f"Ask over HTTP, as {facts.address}/reference describes it", [asked] if facts.address else []),
        ("Ask the process", pages),
        ("Everything else", [f"{run} --help", f"{run} config show"]),
    ]


def page(facts: Facts) -> str:
    """Return the page as plain text."""
    stop = "finishes what is in flight" + (", then stops Postgres" if facts.embedded else "")
    lines = [
        f"Dispatcher {VERSION} is running: a demonstration. Every channel captures; nothing leaves this machine.",
        "",
        *([f"  console    {facts.console}  (this link signs in, once)"] if facts.console else []),
        f"  listener   {facts.address or 'switched off'}",
        f"  database   {facts.database}",
        f"  data       {facts.data_dir}",
        f"  log        {facts.log}",
        f"  stop       Ctrl-C: it {stop}",
        "",
        "Its deliveries were sent at an earlier start, and are not sent twice:" if facts.again else "It has just sent:",
        "",
        *(f"  {_row(row)}" for row in facts.deliveries),
        plain(f"  run {facts.run['id']} of the workflow {facts.run['workflow']}: {facts.run['status']}"),
    ]
    for heading, examples in commands(facts):
        if examples:
            lines += ["", f"{heading}:", "", *(f"  {example}" for example in examples)]
    return "\n".join(lines)


def _row(row: Mapping[str, Any]) -> str:
    life = row["life"]
    if life == "pending" and row["run_at"] > datetime.now(UTC):
        life = f"waits for {row['run_at']:%H:%M:%S} UTC, {AHEAD_SECONDS} s after it was written"
    elif row["error"]:
        life = f"{life}: {row['error']}"
    to = f" to {row['recipient']}" if row["recipient"] else ""
    return plain(f"{row['id']:>6}  {row['channel']}{to}: {life}")
