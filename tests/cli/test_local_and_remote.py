"""The same commands on a database and through a server: they show the same, do the same, and end the same way."""

import json
from pathlib import Path

from dispatcher.http import bearer
from tests.cli.test_operate import rows, talk, text
from tests.cli.test_workflows import ANN, LETTER, WAIT, graph
from tests.support.program import Program
from tests.support.remote_cli import Cli, RemoteCli, same

WHY = ("--reason", "to see")
LATER = "2040-01-01T00:00:00Z"
SEND = ("send", "--channel", "sms", "--body", "x", "--at", LATER)


async def test_local_and_remote_views_agree(serving: Program, remote: RemoteCli, tmp_path: Path) -> None:
    file = tmp_path / "seen.json"
    file.write_text(json.dumps(graph("seen", LETTER, WAIT)))
    text(serving.run("workflows", "put", str(file), "--activate"))
    mail = ("send", "--channel", "email", "--to", "ann@example.org", "--part", "subject=Hi", "--part", "text={{ n }}")
    text(serving.run(*mail, "--vars", '{"n": 1.50}', "--key", "seen"))
    (begun,) = rows(serving.run("trigger", "seen", *ANN, "--key", "seen", "--json"))
    run = str(begun["execution_id"])

    def settled() -> bool:
        sent = rows(serving.run("deliveries", "show", "--key", "seen", "--json"))[0]["status"] == "sent"
        waits = rows(serving.run("runs", "show", run, "--json"))[0]["status"] == "waiting"
        return bool(sent and waits)

    await serving.until(settled, "the delivery is sent and the run waits")
    (shown,) = rows(remote.run("deliveries", "show", "--key", "seen", "--json"))
    for words in (
        "deliveries list --json",
        "deliveries list --limit 1",
        f"deliveries show {shown['id']}",
        "deliveries show --key seen --json",
        "deliveries show --key nobody",
        f"deliveries mail {shown['id']}",
        f"runs show {run}",
        f"runs show {run} --json",
        "runs list --status waiting --json",
        "runs list --workflow seen --key seen --since 1h",
        "workflows list",
        "workflows show seen",
        "workflows show seen --json",
        "workflows show sen",
        "workflows show seen --version 9",
        f"workflows diff {file} --json",
        "trigger sen",
        "trigger seen --json",
        "runs watch 999999",
    ):
        await same(serving, remote, *words.split())
    assert '"n": 1.50' in await same(serving, remote, "deliveries", "show", str(shown["id"]))


async def test_runs_are_triggered_watched_and_acted_upon(cli: Cli, tmp_path: Path) -> None:
    name = f"acted-{type(cli).__name__.lower()}"
    file = tmp_path / "acted.json"
    file.write_text(json.dumps(graph(name, LETTER, WAIT)))
    text(cli.run("workflows", "put", str(file), "--activate"))
    asked = ("trigger", name, *ANN, "--key", name)
    waited = cli.run(*asked, "--wait", "--timeout", "0.2", "--json")
    assert waited.returncode == 1
    run = str(json.loads(waited.stdout.splitlines()[0])["execution_id"])
    assert json.loads(waited.stderr)["error"] == "TimedOut"
    assert f"run {run} holds the key {name}; nothing is started again" in text(cli.run(*asked))
    assert text(cli.run("runs", "pause", run, *WHY)) == f"run {run} is paused\n"
    both_ = rows(cli.run("runs", "pause", run, "999999", *WHY, "--json"), 1)
    assert [(one["done"], one["answer"], one["message"]) for one in both_] == [
        (False, "same", f"run {run} is paused already"),
        (False, "unknown", "there is no run 999999"),
    ]
    assert "goes on" in text(cli.run("runs", "resume", run, *WHY))
    assert "has unfinished runs" in talk(cli.run("workflows", "delete", name), 1)
    assert text(cli.run("runs", "signal", run, "shipped")) == f"run {run} has the event\n"
    *entries, last = rows(cli.run("runs", "watch", run, "--poll", "0.1", "--json"))
    assert (last["status"], last["ended"]) == ("completed", True)
    assert [one["event"] for one in entries if one.get("node") == "mail"] == ["started", "succeeded"]
    assert "only a failed one can be retried" in text(cli.run("runs", "retry", run, *WHY), 1)
    assert text(cli.run("workflows", "deactivate", name)) == f"workflow {name} takes no more triggers\n"
    assert text(cli.run("workflows", "delete", name)) == f"workflow {name} is deleted\n"


async def test_files_are_sent_line_by_line_and_deliveries_acted_upon(cli: Cli, tmp_path: Path) -> None:
    mark = type(cli).__name__.lower()

    def line(number: int, **fields: object) -> bytes:
        sound = {
            "idempotency_key": f"{mark}-{number}",
            "channel": "sms",
            "to": "1",
            "body": "x",
            "scheduled_for": LATER,
        }
        return json.dumps(sound | fields).encode()

    lines = [line(1), line(2, channel="fax"), b"no JSON", b"\xff{}", line(3), line(1), b"x" * 1_100_000, line(4)]
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b"\n".join(lines))
    sent = cli.run("send", "--file", str(file), "--json")
    assert rows(sent, 3) == [{"written": 3, "duplicates": 1, "refused": 4, "reasons": {}}]
    told = [json.loads(one) for one in sent.stderr.splitlines()]
    assert [(one["line"], one.get("duplicate_of") is not None) for one in told] == [
        (6, True),
        (2, False),
        (3, False),
        (4, False),
        (7, False),
    ]
    assert told[1]["faults"][0]["message"].startswith('unknown channel "fax"')
    assert "is not UTF-8 at byte 1" in told[3]["faults"][0]["message"]
    refused = cli.run("send", "--channel", "fax", "--to", "1", "--body", "{{", "--json")
    assert refused.returncode == 3
    assert {one["path"] for one in json.loads(refused.stderr)["faults"]} == {"channel", "template.body"}

    keys = ("--key", f"{mark}-1", "--key", f"{mark}-3")
    moved = rows(cli.run("deliveries", "move", *keys, "--at", "2041-01-01T00:00:00Z", *WHY, "--json"))
    assert [one["key"] for one in moved] == [f"{mark}-1", f"{mark}-3"]
    first = str(moved[0]["id"])
    cancelled = rows(cli.run("deliveries", "cancel", first, "999999", *WHY, "--json"), 1)
    assert [(one["done"], one["answer"]) for one in cancelled] == [(True, "cancelled"), (False, "unknown")]
    assert "will be sent again" in text(cli.run("deliveries", "retry", first, *WHY))
    assert "nothing to retry" in text(cli.run("deliveries", "retry", str(moved[1]["id"]), *WHY), 1)
    missing = talk(cli.run("deliveries", "cancel", "--key", "nobody's", *WHY), 1)
    assert "nobody's is the key of no delivery of tenant default in workspace default" in missing


async def test_faulty_definitions_are_named_and_a_folder_is_saved_whole(cli: Cli, tmp_path: Path) -> None:
    mark = type(cli).__name__.lower()
    folder = tmp_path / "all"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.yaml").write_text(json.dumps(graph(f"{mark}-a", LETTER)))
    (folder / "deep" / "b.json").write_text('{"name": ')
    (folder / "c.yaml").write_text("name: c\nentryNodeId: a\nnodes:\n  - {id: a, type: emial}\n")
    said = talk(cli.run("workflows", "sync", str(folder), "--json"), 3)
    assert [one["path"] for one in json.loads(said)["faults"]] == ["c.yaml: $.nodes[0].type", "deep/b.json: $"]
    (folder / "c.yaml").unlink()
    (folder / "deep" / "b.json").write_text(json.dumps(graph(f"{mark}-b", LETTER)))
    checked = cli.run("workflows", "sync", str(folder), "--check")
    assert text(checked, 1).splitlines() == [
        f"{mark}-a: is not stored (a.yaml)",
        f"{mark}-b: is not stored (deep/b.json)",
    ]
    saved = rows(cli.run("workflows", "sync", str(folder), "--activate", "--json"))
    assert [(one["version"], one["active"]) for one in saved] == [(1, True), (1, True)]
    assert text(cli.run("workflows", "sync", str(folder), "--check", "--activate")) == (
        "all 2 are stored as they are here\n"
    )


async def test_keys_are_made_rotated_and_revoked(cli: Cli) -> None:
    name = f"key-{type(cli).__name__.lower()}"
    made = cli.run("keys", "create", name, "--role", "triggerOperator", "--reason", "asked")
    shown = bearer.read(text(made).strip())
    assert shown is not None
    assert f"key {name} (triggerOperator: " in made.stderr.decode()
    taken = cli.run("keys", "create", name, "--role", "systemAdmin", "--reason", "asked", "--json")
    assert json.loads(talk(taken, 1))["error"] == "Conflict"
    (second,) = rows(cli.run("keys", "rotate", name, "--overlap", "2h", "--reason", "asked", "--json"))
    mine = [row for row in rows(cli.run("keys", "list", "--json")) if row["name"] == name]
    assert [sorted(row["prefixes"]) for row in mine] == [sorted([shown.prefix, second["prefix"]])]
    assert rows(cli.run("keys", "list", "--after", name, "--json")) == [
        row for row in rows(cli.run("keys", "list", "--json")) if row["name"] > name
    ]
    assert text(cli.run("keys", "revoke", name, "--reason", "asked")) == f"key {name} is revoked\n"
    assert f"there is no key {name}" in talk(cli.run("keys", "rotate", name, "--reason", "asked"), 1)
    assert [row["action"] for row in rows(cli.run("keys", "log", name, "--json"))] == ["revoke", "rotate", "create"]
    assert "there is no key nobody, and never was" in talk(cli.run("keys", "log", "nobody"), 1)


async def test_addresses_are_suppressed_checked_and_released(cli: Cli, serving: Program, remote: RemoteCli) -> None:
    mark = type(cli).__name__.lower()
    ann, phone = f"Ann.{mark}@Example.org", "+491701" if mark == "remotecli" else "+491702"
    text(cli.run(*SEND, "--to", phone, "--key", f"queued-{mark}"))
    added = rows(cli.run("suppressions", "add", ann, phone, *WHY, "--source", "complaint", "--json"))
    assert [(one["kind"], one["suppressed"]) for one in added] == [("email", True), ("phone", True)]

    def skipped() -> bool:
        (shown,) = rows(cli.run("deliveries", "show", "--key", f"queued-{mark}", "--json"))
        return bool(shown["status"] == "skipped")

    await serving.until(skipped, "what was queued is skipped")
    text(cli.run("topics", "unsubscribe", "news", ann, *WHY))
    for words in (
        ("suppressions", "check", ann, "--topic", "news", "--json"),
        ("suppressions", "check", phone, "--channel", "sms"),
        ("suppressions", "list", "--source", "complaint", "--json"),
        ("suppressions", "list"),
        ("topics", "list", "--topic", "news", "--json"),
        ("topics", "list", "--address", ann, "--json"),
        ("topics", "list", "--address", ann, "--topic", "news"),
        ("topics", "list", "--address", ann, "--behind", ann),
        ("topics", "list", "--address", "nobody@example.org"),
        ("topics", "list", "--behind", ann),
        ("suppressions", "list", "--behind", ann, "--json"),
        ("suppressions", "list", "--behind", phone, "--limit", "1"),
    ):
        await same(serving, remote, *words)
    assert "would not get it: suppressed" in text(cli.run("suppressions", "check", ann))
    gone = text(cli.run("suppressions", "remove", ann, *WHY))
    assert gone == f"{added[0]['address']} is not suppressed any more (complaint)\n"
    assert "was not on the list" in text(cli.run("suppressions", "remove", ann, *WHY))
    assert "gets messages about news" in text(cli.run("topics", "subscribe", "news", ann, *WHY))


async def test_templates_are_saved_shown_published_and_previewed(
    cli: Cli, serving: Program, remote: RemoteCli, tmp_path: Path
) -> None:
    mark = type(cli).__name__.lower()
    folder = tmp_path / mark
    folder.mkdir()
    (folder / "greet.liquid").write_text(f"---\nname: {mark}/greet\nkind: partial\n---\nHello {{{{ name }}}}\n")
    mail = folder / "mail.liquid"
    mail.write_text(
        f"---\nname: {mark}/mail\nchannel: email\n---\n--- subject ---\nHi\n--- text ---\n"
        f"{{% render '{mark}/greet', name: name %}}, {{{{ n }}}}\n"
    )
    assert f"+--- takes in {mark}/greet (default) ---" in text(cli.run("templates", "sync", str(folder), "--check"), 1)
    saved = rows(cli.run("templates", "sync", str(folder), "--publish", "--json"))
    assert [(one["version"], one["changed"], one["published"]) for one in saved] == [(1, True, True)] * 2
    assert text(cli.run("templates", "sync", str(folder), "--check", "--publish")) == (
        "all 2 are stored as they are here\n"
    )
    mail.write_text(mail.read_text().replace("Hi\n", "Hello\n"))
    assert "-Hi\n+Hello\n" in text(cli.run("templates", "diff", f"{mark}/mail", "--file", str(mail)))
    assert text(cli.run("templates", "put", str(mail))) == f"template {mark}/mail: version 2 is saved\n"
    for words in (
        f"templates show {mark}/mail --version 1 --json",
        f"templates list --after {mark} --limit 1",
        f"templates preview {mark}/mail --locale de",
        f"templates preview {mark}/mail --variables {{}}",
        f"templates publish {mark}/mail --version 9",
    ):
        await same(serving, remote, *words.split())
    given = ("--file", str(mail), "--variables", '{"name": "Ann", "n": 1.50}', "--json")
    previewed = cli.run("templates", "preview", *given)
    assert '"n": 1.50' in text(previewed)
    (shown,) = rows(previewed)
    assert (shown["version"], shown["parts"]) == (None, {"subject": "Hello", "text": "Hello Ann, 1.5"})
    assert text(cli.run("templates", "publish", f"{mark}/mail")) == (
        f"template {mark}/mail: version 2 is published; version 1 was\n"
    )
    mail.write_text(mail.read_text().replace("email", "fax").replace("{{ n }}", "\n{% if %}"))
    refused = json.loads(talk(cli.run("templates", "put", str(mail), "--json"), 3))
    places = [one["path"] for one in refused["faults"]]
    assert f"{mail}:1" in places
    assert any("unknown channel" in one["message"] for one in refused["faults"])


async def test_schedules_are_saved_shown_switched_and_deleted(
    cli: Cli, serving: Program, remote: RemoteCli, tmp_path: Path
) -> None:
    name = f"{type(cli).__name__.lower()}/morning"
    file = tmp_path / "ticked.json"
    file.write_text(json.dumps(graph("ticked", WAIT)))
    text(serving.run("workflows", "put", str(file), "--activate"))
    put = ("schedules", "put", name, "--workflow", "ticked", "--time-zone", "Europe/Berlin", "--cron")
    assert "is saved; its next tick is 20" in text(cli.run(*put, "0 8 31 1 *", "--input", '{"n": 1.50}'))
    refused = json.loads(talk(cli.run(*put, "61 8 * * *", "--json"), 3))
    assert (refused["error"], len(refused["faults"])) == ("Refused", 1)
    assert text(cli.run("schedules", "deactivate", name)) == f"schedule {name} rests\n"
    assert "rested before" in text(cli.run("schedules", "deactivate", name))
    for words in ("show NAME", "show NAME --json", "next NAME -n 3 --json", "list --after e --limit 2"):
        await same(serving, remote, "schedules", *(name if word == "NAME" else word for word in words.split()))
    assert '"n": 1.50' in text(cli.run("schedules", "show", name))
    assert "is active; its next tick is 20" in text(cli.run("schedules", "activate", name, "--skip-missed"))
    assert text(cli.run("schedules", "delete", name)) == f"schedule {name} is deleted\n"
    assert f"there is no schedule {name}" in talk(cli.run("schedules", "next", name), 1)


async def test_pauses_are_listed_and_resumed(cli: Cli, serving: Program, remote: RemoteCli) -> None:
    name = f"promotion-{type(cli).__name__.lower()}"
    here = ("template", name, "--workspace", "default")
    assert text(cli.run("pause", *here, *WHY)) == f"template {name} of default/default is paused\n"
    assert "is paused already, since" in text(cli.run("pause", *here, *WHY))
    assert rows(cli.run("pause", *here, *WHY, "--json"))[0]["already"] is True
    assert name in await same(serving, remote, "pauses")
    await same(serving, remote, "pauses", "--json")
    assert text(cli.run("resume", *here, "--reason", "over")) == f"template {name} of default/default goes on\n"
    assert f"template {name} is not paused there; no template is" in talk(
        cli.run("resume", *here, "--reason", "over"), 1
    )
    assert "unknown channel" in talk(cli.run("pause", "channel", "fax", "--workspace", "default", *WHY), 3)
