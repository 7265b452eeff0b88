"""TE-01, TE-02 and TE-05: stored templates, through the command line and as deliveries carry them out."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.outbox import Outbox
from tests.support.forks import ROOT
from tests.support.program import Program
from tests.support.scene import Connection

Done = subprocess.CompletedProcess[bytes]

MANUAL = "dispatcher/liquid/README.md"
SMS = """---
channel: sms
locale: en
---
--- body ---
Hello {{ name }}
--- body de ---
Hallo {{ name }}
"""


def files(folder: Path, **said: str) -> Path:
    """A folder of template files."""
    folder.mkdir(exist_ok=True)
    for name, text in said.items():
        (folder / f"{name}.liquid").write_text(text)
    return folder


def text(done: Done, code: int = 0) -> str:
    """Standard output of a command that ended with this code."""
    assert done.returncode == code, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done.stdout.decode()


def rows(done: Done, code: int = 0) -> list[dict[str, Any]]:
    """Standard output as JSON lines."""
    return [json.loads(line) for line in text(done, code).splitlines()]


def faults(done: Done) -> list[str]:
    """What a refusal names, one a fault."""
    assert text(done, 3) == ""
    return [line.strip() for line in done.stderr.decode().splitlines()[1:]]


async def everything(connection: Connection) -> list[object]:
    """All that could have been written about templates."""
    tables = ("templates", "template_versions", "template_publications", "deliveries")
    return [await connection.fetch(f"SELECT * FROM dispatcher.{table}") for table in tables]


async def sent(program: Program, outbox: Outbox, delivery: int) -> dict[str, str]:
    """What a delivery said, once it is sent."""
    await outbox.until_life(delivery, "sent")
    (found,) = await outbox.connection.fetch(
        "SELECT parts FROM dispatcher.captured_messages WHERE delivery_id = $1", delivery
    )
    said: dict[str, str] = json.loads(found["parts"])
    return said


async def test_TE_01_a_delivery_says_the_version_that_was_published_when_it_was_inserted(
    program: Program, outbox: Outbox, tmp_path: Path
) -> None:
    await outbox.connection.execute("SELECT dispatcher.pause_everywhere('template', 'welcome', 'ann', 'first look')")
    folder = files(tmp_path / "t", welcome=SMS)
    text(program.run("templates", "sync", str(folder)))
    named: dict[str, Any] = {"template": None, "template_name": "welcome", "variables": '{"name": "Ann"}'}
    early = await outbox.put(**named)
    assert (await outbox.row(early))["error"] == "template_name: 'welcome' has no published version"
    text(program.run("templates", "publish", "welcome"))
    first, german = await outbox.put(**named), await outbox.put(**named, locale="de-AT")
    files(folder, welcome=SMS.replace("Hello", "Good day"))
    text(program.run("templates", "put", str(folder / "welcome.liquid"), "--publish"))
    second = await outbox.put(**named, locale="fr")
    text(program.run("templates", "publish", "welcome", "--version", "1"))
    back = await outbox.put(**named)
    await program.start()
    # What is stored can be paused by its name as well.
    await outbox.until_life(first, "parked")
    await outbox.connection.execute("SELECT dispatcher.resume_everywhere('template', 'welcome', 'ann')")
    said = [(await sent(program, outbox, one))["body"] for one in (first, german, second, back)]
    assert said == ["Hello Ann", "Hallo Ann", "Good day Ann", "Hello Ann"]
    (shown,) = rows(program.run("deliveries", "show", str(second), "--json"))
    assert (shown["template_name"], shown["template_version"], shown["locale"]) == ("welcome", 2, "en")


async def test_TE_01_the_same_name_is_another_template_in_another_workspace_and_tenant(
    program: Program, outbox: Outbox, tmp_path: Path
) -> None:
    places = ("default", "default"), ("default", "two"), ("acme", "default")
    deliveries = []
    for number, (tenant, workspace) in enumerate(places):
        folder = files(tmp_path / str(number), welcome=SMS.replace("Hello", f"{tenant} {workspace}"))
        where = ("--tenant", tenant, "--workspace", workspace)
        text(program.run("templates", "sync", str(folder), "--publish", *where))
        (listed,) = rows(program.run("templates", "list", "--json", *where))
        assert (listed["name"], listed["latest"], listed["published"]) == ("welcome", 1, 1)
        columns: dict[str, Any] = {"template": None, "template_name": "welcome", "variables": '{"name": "Ann"}'}
        deliveries.append(await outbox.put(**columns, tenant_id=tenant, workspace_id=workspace))
    await program.start()
    said = [(await sent(program, outbox, one))["body"] for one in deliveries]
    assert said == [f"{tenant} {workspace} Ann" for tenant, workspace in places]


async def test_TE_01_sync_check_shows_what_differs_and_writes_nothing(
    program: Program, connection: Connection, tmp_path: Path
) -> None:
    folder = files(tmp_path / "t", welcome=SMS, footer="---\nkind: partial\n---\nOld Ltd")
    checked = text(program.run("templates", "sync", str(folder), "--check"), 1)
    assert "+Hello {{ name }}" in checked
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.templates") == 0

    text(program.run("templates", "sync", str(folder)))
    assert text(program.run("templates", "sync", str(folder), "--check")) == "all 2 are stored as they are here\n"
    drafts = text(program.run("templates", "sync", str(folder), "--check", "--publish"), 1)
    assert "welcome: version 1 is not published" in drafts
    text(program.run("templates", "sync", str(folder), "--publish"))

    files(folder, welcome=SMS.replace("Hallo", "Guten Tag"), stray=SMS)
    (folder / "footer.liquid").unlink()
    before = await everything(connection)
    checked_again = program.run("templates", "sync", str(folder), "--check")
    shown = text(checked_again, 1)
    assert "-Hallo {{ name }}\n+Guten Tag {{ name }}\n" in shown
    assert "+++ stray.liquid" in shown
    assert "not in the folder: footer" in checked_again.stderr.decode()
    assert await everything(connection) == before


async def test_TE_01_two_that_sync_at_once_both_succeed(
    program: Program, tmp_path: Path, connection: Connection
) -> None:
    one = files(tmp_path / "one", **dict.fromkeys("abc", SMS))
    two = files(tmp_path / "two", **dict.fromkeys("cba", SMS.replace("Hello", "Hi")))
    running = [
        subprocess.Popen(  # noqa: ASYNC220 - forking takes a moment, and nothing else runs
            program.command("templates", "sync", str(folder), "--publish"),
            env=program.environment_with({}),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for folder in (one, two)
    ]
    ended = [(process.communicate(timeout=60)[1], process.returncode) for process in running]
    assert [code for _, code in ended] == [0, 0], ended
    latest = await connection.fetch("SELECT latest, published FROM dispatcher.templates")
    assert [row["latest"] for row in latest] == [2, 2, 2]
    newest = await connection.fetchval(
        """SELECT count(*) FROM dispatcher.templates t JOIN dispatcher.template_versions v ON v.id = t.published
            WHERE v.number = t.latest"""
    )
    assert newest == 3


async def test_TE_01_the_manuals_example_does_what_it_says(program: Program, outbox: Outbox, tmp_path: Path) -> None:
    page = (ROOT / MANUAL).read_text()
    section = page[page.index("## Template files") : page.index("## Syntax")]
    for name, content in re.findall(r"`(templates/\S+)`:\n\n```\n(.*?)```\n", section, re.DOTALL):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    folder = str(tmp_path / "templates")
    assert text(program.run("templates", "sync", folder, "--check"), 1)
    text(program.run("templates", "sync", folder, "--publish"))
    preview = text(program.run("templates", "preview", "order_confirmation", "--locale", "de"))
    assert preview == "--- subject ---\nBestellung 17\n--- text ---\nDanke, Ann Sample. Beispiel GmbH, Musterstadt\n"
    (statement,) = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    await outbox.connection.execute(statement)
    delivery = await outbox.connection.fetchval("SELECT id FROM dispatcher.deliveries")
    (command,) = re.findall(r"run (send .*)\n", section)
    answer = text(program.run(*shlex.split(command)))
    await program.start()
    assert await sent(program, outbox, delivery) == {
        "subject": "Bestellung 17",
        "text": "Danke, Ann. Beispiel GmbH, Musterstadt",
    }
    said = await sent(program, outbox, int(re.findall(r"delivery (\d+)", answer)[0]))
    assert said["html"].startswith("<p>Thank you, <b>Ann</b>.</p>\n<ul></ul>\n<p>Example Ltd")


async def test_TE_02_a_folder_with_faults_is_refused_whole_with_every_one_and_its_line(
    program: Program, connection: Connection, tmp_path: Path
) -> None:
    folder = files(
        tmp_path / "t",
        fine=SMS,
        email="---\nchannel: email\n---\n--- subject ---\nHi {{ name\n--- html ---\n<p>\n{% if x %}\n{{ y }}\n",
        form="---\nchanel: sms\nchannel: sms\nlocale: d e\n---\nx",
        other="---\nchannel: smms\n---\nx",
        two="---\nchannel: sms\n---\n--- title ---\nx",
    )
    before = await everything(connection)
    for option in ("--check", "--publish"):
        found = "\n".join(faults(program.run("templates", "sync", str(folder), option)))
        for words in (
            'form.liquid:2: unknown key "chanel"; did you mean "channel"?',
            "form.liquid:4: d e is no locale",
            "email.liquid:5: subject:1: ",
            ": html:",
            'other.liquid:1: unknown channel "smms"; did you mean "sms"?',
            "two.liquid:5: title: is no part of sms, which takes body",
            "two.liquid:1: default: needs body",
        ):
            assert words in found
        assert "fine" not in found
    assert await everything(connection) == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("---\nchannel: email\n---\n--- subject ---\nx\n--- html ---\nx\n{{ a | safe }}", "html:2: "),
        ("---\nchannel: sms\n---\nx\ny {% render 'nobody' %}", "body:2: there is no published partial nobody"),
        ("---\nchannel: sms\nrights: [everything]\n---\nx", "there is no right everything; there are raw_html"),
        ("---\nchannel: sms\n---\n" + "x" * 300_000, "has 300000 bytes with all that it takes in, over 262144"),
        ("---\nchannel: sms\n---\nx\0", "body:1: has a NUL character"),
        ("---\nchannel: sms\n- x\n---\nx", "is no YAML: "),
        ("hello", "has no front matter"),
    ],
)
async def test_TE_02_a_save_is_refused_with_its_fault_and_line(
    program: Program, connection: Connection, tmp_path: Path, content: str, words: str
) -> None:
    file = tmp_path / "one.liquid"
    file.write_text(content)
    (fault,) = faults(program.run("templates", "put", str(file), "--publish"))
    assert fault.startswith(f"{file}:")
    assert words in fault
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.templates") == 0


async def test_TE_02_what_a_version_reads_is_computed_and_kept(
    program: Program, connection: Connection, tmp_path: Path
) -> None:
    content = SMS + "{% assign mine = order.total %}{{ mine }}{% for item in order.items %}{{ item.title }}{% endfor %}"
    text(program.run("templates", "sync", str(files(tmp_path / "t", welcome=content))))
    (shown,) = rows(program.run("templates", "show", "welcome", "--json"))
    assert shown["variables"] == ["name", "order.items", "order.total"]
    kept = await connection.fetchval("SELECT variables FROM dispatcher.template_versions")
    assert kept == shown["variables"]


async def test_TE_05_a_preview_renders_with_given_or_made_up_variables_and_writes_nothing(
    program: Program, connection: Connection, tmp_path: Path
) -> None:
    content = "---\nchannel: email\n---\n--- subject ---\nOrder {{ order.id }}\n--- html ---\n" + (
        "<b>{{ name }}</b>{% for item in order.items %}{{ item.price }},{% endfor %}"
    )
    folder = files(tmp_path / "t", order=content)
    text(program.run("templates", "sync", str(folder)))
    before = await everything(connection)
    page = tmp_path / "page.html"
    (made_up,) = rows(program.run("templates", "preview", "order", "--json", "--html", str(page)))
    assert made_up["parts"] == {"subject": "Order 17", "html": "<b>Ann Sample</b>12,12,"}
    assert made_up["made_up"]
    assert page.read_text() == "<b>Ann Sample</b>12,12,"

    given = '{"name": "<Bob>", "order": {"id": 3, "items": []}}'
    (tmp_path / "given.json").write_text(given)
    for source in (given, str(tmp_path / "given.json")):
        shown = text(program.run("templates", "preview", "order", "--variables", source))
        assert shown == "--- subject ---\nOrder 3\n--- html ---\n<b>&lt;Bob&gt;</b>\n"
    missing = program.run("templates", "preview", "order", "--variables", '{"name": "Bob"}')
    assert text(missing, 1) == ""
    assert "missing variable: order" in missing.stderr.decode()

    files(folder, order=content.replace("Order {{", "Your order {{"))
    (draft,) = rows(program.run("templates", "preview", "--file", str(folder / "order.liquid"), "--json"))
    assert (draft["parts"]["subject"], draft["version"]) == ("Your order 17", None)
    assert await everything(connection) == before
