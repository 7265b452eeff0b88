"""OB-17 and EM-05: who is suppressed or has unsubscribed gets nothing, and how one comes to be either."""

import http.client
import json
import re
from collections.abc import Mapping
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import pytest

from dispatcher.engine.rules.unsubscribe_links import Links, Subscription
from tests.conformance.outbox import Outbox, faults, hanging
from tests.support.program import Program
from tests.support.waits import until, until_heeded

PUBLIC = "https://mail.example.org/post"
SECRET = "a-secret-that-is-long-enough-for-links"
OLDER = "another-secret-that-signed-before-that"
LINKS = {"DISPATCHER_UNSUBSCRIBE__PUBLIC_URL": PUBLIC, "DISPATCHER_UNSUBSCRIBE__SECRETS": f"{SECRET} {OLDER}"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
ONE_CLICK = b"List-Unsubscribe=One-Click"
ANN = "ann@example.org"
_numbers = count(1)


async def _put(outbox: Outbox, topic: str | None = None, channel: str = "email", **columns: Any) -> int:
    """A delivery that may carry a topic."""
    row = {"idempotency_key": f"suppressed-{next(_numbers)}", "channel": channel, "recipient": ANN}
    row |= {"template": '{"subject": "s", "text": "t"}', "topic": topic} | columns
    places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    insert = f"INSERT INTO dispatcher.deliveries ({', '.join(row)}) VALUES ({places}) RETURNING id"
    return int(await outbox.connection.fetchval(insert, *row.values()))


def _cli(program: Program, *words: str, code: int = 0, stdin: bytes = b"") -> list[dict[str, Any]]:
    ended = program.run(*words, "--json", stdin=stdin)
    assert ended.returncode == code, ended.stderr.decode()
    return [json.loads(line) for line in (ended.stdout or ended.stderr).splitlines()]


def _asked(program: Program, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] = FORM) -> Any:
    """What the listener answers to a link, as a proxy hands it on: with the path's own prefix taken off."""
    parts = urlsplit(program.address)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    try:
        connection.request(method, url.removeprefix(PUBLIC), body or None, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


async def _skipped(outbox: Outbox, delivery: int, why: str) -> None:
    await outbox.until_life(delivery, "skipped", "failed", "sent")
    row = await outbox.row(delivery)
    assert (row["status"], row["error"], row["attempts"]) == ("skipped", why, 0)
    assert await outbox.captured(delivery) == []


async def test_OB_17_who_is_suppressed_gets_nothing_on_any_channel_and_in_any_lane(
    program: Program, outbox: Outbox
) -> None:
    await program.start(DISPATCHER_CHANNELS__PAGER__PROVIDER="capture")
    _cli(program, "suppressions", "add", "Ann@Example.org", "--reason", "asked", "--actor", "bob")
    for columns in ({"lane": 0}, {"lane": 2}, {"channel": "pager", "recipient": "Ann <ANN@example.org>"}):
        await _skipped(outbox, await _put(outbox, **columns), "suppressed: operator: asked")
    other = await _put(outbox, recipient="bob@example.org")
    await outbox.until_life(other, "sent")


async def test_OB_17_what_waits_is_skipped_at_once_by_every_interface(program: Program, outbox: Outbox) -> None:
    """Planned for another day, and behind a pause; said by an application's own INSERT."""
    await program.start()
    planned = await outbox.put("email", recipient=ANN, run_at=await _tomorrow(outbox))
    await outbox.connection.execute("SELECT dispatcher.pause_everywhere('tenant', 'default', 'me', 'x')")
    await until_heeded(outbox.connection)
    parked = await outbox.put("email", recipient="ANN@example.org")
    await outbox.until_life(parked, "parked")
    await outbox.connection.execute(
        "INSERT INTO dispatcher.suppressions (kind, address, reason) VALUES ('email', $1, 'moved away')", ANN
    )
    for delivery in (planned, parked):
        await _skipped(outbox, delivery, "suppressed: operator: moved away")


async def _tomorrow(outbox: Outbox) -> Any:
    return await outbox.connection.fetchval("SELECT now() + interval '1 day'")


async def test_OB_17_what_is_claimed_and_waits_for_its_turn_is_not_sent(program: Program, outbox: Outbox) -> None:
    """Behind a provider that hangs: claimed, and not marked yet."""
    few = {"DISPATCHER_CHANNELS__SMS__MARKED_MAX": "3", "DISPATCHER_INSTANCE__GRACE_SECONDS": "0.1"}
    await program.start(**hanging("sms"), **few)
    (first,) = await outbox.fill(1, "sms")
    await outbox.until_life(first, "sending")
    claimed = await outbox.put("sms", recipient="+49 170 12345")
    await outbox.until_life(claimed, "claimed")
    _cli(program, "suppressions", "add", "+4917012345", "--reason", "asked")
    assert await outbox.life(claimed) == "skipped"


async def test_OB_17_an_address_that_bounces_gets_nothing_more_and_one_that_is_refused_does(
    program: Program, outbox: Outbox
) -> None:
    await program.start(**faults("email", bounce=1), **faults("sms", refuse=1))
    delivery = await _put(outbox)
    await outbox.until_life(delivery, "failed")
    why = f"suppressed: bounce: delivery {delivery}: recipient: gone on purpose"
    await _skipped(outbox, await _put(outbox, lane=0), why)
    for number in range(2):
        refused = await outbox.put("sms", recipient="+4917012345", body=str(number))
        await outbox.until_life(refused, "failed")
    (said,) = _cli(program, "suppressions", "check", "+4917012345")
    assert (said["barred"], said["entries"]) == (False, [])


async def test_OB_17_the_list_ends_for_an_address_with_its_time_or_with_somebodys_word(
    program: Program, outbox: Outbox
) -> None:
    await program.start(DISPATCHER_JANITOR__INTERVAL_SECONDS="0.1")
    add = ("suppressions", "add", ANN, "--reason", "on holiday")
    assert _cli(program, *add, "--expires-at", "2001-01-01T00:00:00Z", code=2)
    _cli(program, *add, "--expires-at", "2040-01-01T00:00:00Z")
    await _skipped(outbox, await _put(outbox, lane=0), "suppressed: operator: on holiday")
    await outbox.connection.execute("UPDATE dispatcher.suppressions SET expires_at = now()")
    gone = "SELECT NOT EXISTS (SELECT FROM dispatcher.suppressions)"
    await until(lambda: outbox.connection.fetchval(gone), "its time is over")
    await outbox.until_life(await _put(outbox, lane=1), "sent")
    _cli(program, *add)
    _cli(program, "suppressions", "remove", ANN, "--reason", "is back", "--actor", "eve")
    await outbox.until_life(await _put(outbox, lane=2), "sent")
    (said,) = _cli(program, "suppressions", "check", ANN)
    assert [(row["action"], row["reason"]) for row in said["log"]][:2] == [
        ("release", "is back"),
        ("suppress", "on holiday"),
    ]
    assert said["log"][0]["actor"] == "eve"


async def test_OB_17_an_import_is_whole_or_not_at_all(program: Program, outbox: Outbox) -> None:
    await program.start()
    words = ("suppressions", "import", "-", "--reason", "from the old system", "--actor", "bob")
    bad = b"address,source,expires_at\nann@example.org,bounce,\nnobody,,\nbob@example.org,rumour,\n+4917012345,,soon\n"
    (refused,) = _cli(program, *words, code=3, stdin=bad)
    assert [fault["path"] for fault in refused["faults"]] == ["line 3", "line 4", "line 5"]
    assert await outbox.connection.fetchval("SELECT count(*) FROM dispatcher.suppressions") == 0
    good = b"address,source\nAnn <ann@example.org>,\nbob@b\xc3\xbccher.example,complaint\n+49 170 12345,\n"
    assert _cli(program, *words, stdin=good) == [{"imported": 3}]
    listed = _cli(program, "suppressions", "list")
    assert [(row["address"], row["source"], row["actor"], row["reason"]) for row in listed] == [
        (ANN, "import", "bob", "from the old system"),
        ("bob@xn--bcher-kva.example", "complaint", "bob", "from the old system"),
        ("+4917012345", "import", "bob", "from the old system"),
    ]
    await _skipped(outbox, await _put(outbox), "suppressed: import: from the old system")


@pytest.mark.parametrize("recipient", ["kim", "kim@", "kim@example.net, lee@example.net"])
async def test_OB_17_an_address_that_is_none_fails_with_its_reason(
    program: Program, outbox: Outbox, recipient: str
) -> None:
    await program.start(DISPATCHER_CHANNELS__EMAIL__OPTIONS__REFUSE_FAULTY_MAIL="true")
    delivery = await _put(outbox, recipient=recipient)
    await outbox.until_life(delivery, "failed", "sent", "skipped")
    row = await outbox.row(delivery)
    assert row["status"] == "failed"
    assert row["error"].startswith("recipient")
    assert recipient not in row["error"]


async def test_OB_17_topics_and_transactional_mail(program: Program, outbox: Outbox) -> None:
    """From a topic: that topic in every lane. From everything: all but what is transactional and has no topic."""
    await program.start()
    words = ("--reason", "asked", "--actor", "bob")
    _cli(program, "topics", "unsubscribe", "news", ANN, *words)
    await _skipped(outbox, await _put(outbox, "news", lane=0), "unsubscribed: from news")
    await outbox.until_life(await _put(outbox, "offers"), "sent")
    await outbox.until_life(await _put(outbox), "sent")
    assert [row["topic"] for row in _cli(program, "topics", "list", "--address", ANN)] == ["news"]
    _cli(program, "topics", "subscribe", "news", ANN, *words)
    await outbox.until_life(await _put(outbox, "news", lane=1), "sent")
    _cli(program, "suppressions", "add", ANN, "--source", "unsubscribe", *words)
    await _skipped(outbox, await _put(outbox, lane=2), "unsubscribed: from everything")
    await _skipped(outbox, await _put(outbox, "alarms", lane=0), "unsubscribed: from everything")
    await outbox.until_life(await _put(outbox, lane=0), "sent")


async def _link(outbox: Outbox, delivery: int) -> tuple[str, str]:
    """The link of a mail that was captured: in its option, and in its text."""
    await outbox.until_life(delivery, "sent")
    (row,) = await outbox.connection.fetch(
        "SELECT parts::text, options::text FROM dispatcher.captured_messages WHERE delivery_id = $1", delivery
    )
    return json.loads(row["options"])["list_unsubscribe"], json.loads(row["parts"])["text"]


LINKED = '{"subject": "s", "text": "{{ unsubscribe_url }}"}'


async def test_EM_05_a_mail_about_a_topic_carries_a_link_by_which_one_click_unsubscribes(
    program: Program, outbox: Outbox
) -> None:
    await program.start(**LINKS)
    url, text = await _link(outbox, await _put(outbox, "news", template=LINKED))
    assert url == text
    assert url.startswith(f"{PUBLIC}/u/")
    waiting = await _put(outbox, "news", scheduled_for=await _tomorrow(outbox))
    for _ in range(2):
        status, page, headers = _asked(program, "POST", url, ONE_CLICK)
        assert (status, headers["set-cookie"], headers["location"]) == (200, None, None)
        assert "You are unsubscribed" in page
    await _skipped(outbox, waiting, "unsubscribed: from news")
    await outbox.until_life(await _put(outbox, "offers"), "sent")
    (said,) = _cli(program, "suppressions", "check", ANN, "--topic", "news")
    assert [(row["action"], row["actor"]) for row in said["log"]] == [("unsubscribe", "recipient")]


async def test_EM_05_one_click_may_come_as_multipart(program: Program, outbox: Outbox) -> None:
    await program.start(**LINKS)
    url, _ = await _link(outbox, await _put(outbox, "news", template=LINKED))
    body = b'--b\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--b--\r\n'
    assert _asked(program, "POST", url, body, {"content-type": "multipart/form-data; boundary=b"})[0] == 200
    await _skipped(outbox, await _put(outbox, "news"), "unsubscribed: from news")


async def test_EM_05_looking_changes_nothing_and_the_pages_own_buttons_do(program: Program, outbox: Outbox) -> None:
    await program.start(**LINKS)
    url, _ = await _link(outbox, await _put(outbox, "news", template=LINKED))
    for method in ("GET", "HEAD"):
        status, page, headers = _asked(program, method, url)
        assert status == 200
        assert headers["cache-control"] == "no-store"
    status, page, _headers = _asked(program, "GET", url)
    assert ANN in page
    buttons = re.findall(r'<button name="(\w+)" value="(\w+)">', page)
    assert buttons == [("from", "topic"), ("from", "everything")]
    assert '<form method="post">' in page
    assert not re.search(r"<script|https?://|src=", page)
    assert _asked(program, "POST", url, b"anything=else")[0] == 400
    assert await outbox.connection.fetchval("SELECT count(*) FROM dispatcher.suppression_log") == 0
    assert _asked(program, "POST", url, b"from=everything")[0] == 200
    await _skipped(outbox, await _put(outbox, "offers"), "unsubscribed: from everything")
    await outbox.until_life(await _put(outbox, lane=0), "sent")


async def test_EM_05_a_link_that_is_not_ours_says_nothing_and_does_nothing(program: Program, outbox: Outbox) -> None:
    await program.start(**LINKS)
    url, _ = await _link(outbox, await _put(outbox, "news", template=LINKED))
    token = url.rpartition("/")[2]
    other = Links(PUBLIC, "x" * 40).url(Subscription("default", "email", ANN, "news"))
    changed = ("A" if token[5] != "A" else "B").join((token[:5], token[6:]))
    pages = set()
    for bad in (changed, token[:-1], token + "A", "x", "%00", "\u00fc", "A" * 5_000, other.rpartition("/")[2]):
        for method, body in (("GET", b""), ("POST", ONE_CLICK)):
            status, page, _headers = _asked(program, method, f"{PUBLIC}/u/{_escaped(bad)}", body)
            assert status == 404, bad
            pages.add(page)
    assert len(pages) == 1
    assert ANN not in pages.pop()
    assert _asked(program, "POST", url, b"x" * 100_000)[0] == 413
    assert await outbox.connection.fetchval("SELECT count(*) FROM dispatcher.suppression_log") == 0


def _escaped(text: str) -> str:
    return "".join(c if c.isascii() else "%C3%BC" for c in text)


async def test_EM_05_secrets_rotate(program: Program, outbox: Outbox) -> None:
    """The first signs, and what an older one has signed still works."""
    await program.start(**LINKS)
    news = Subscription("default", "email", ANN, "news")
    url, _ = await _link(outbox, await _put(outbox, "news", template=LINKED))
    assert url == Links(PUBLIC, SECRET).url(news)
    assert _asked(program, "POST", Links(PUBLIC, OLDER).url(news), ONE_CLICK)[0] == 200
    await _skipped(outbox, await _put(outbox, "news"), "unsubscribed: from news")


@pytest.mark.parametrize("hostile", ['<script>alert(1)</script>"@example.org', "ann'onload=x@example.org"])
async def test_EM_05_what_an_address_says_is_text_on_the_page(program: Program, outbox: Outbox, hostile: str) -> None:
    await program.start(**LINKS)
    url = Links(PUBLIC, SECRET).url(Subscription("default", "email", hostile, "news"))
    page = _asked(program, "GET", url)[1]
    assert hostile not in page
    assert "<script" not in page


async def test_EM_05_a_mail_has_a_link_when_it_asks_for_one_and_not_else(program: Program, outbox: Outbox) -> None:
    await program.start(**LINKS)
    asked = await _put(outbox, template=LINKED, options='{"unsubscribe": true}')
    url, _ = await _link(outbox, asked)
    assert _asked(program, "POST", url, ONE_CLICK)[0] == 200
    await _skipped(outbox, await _put(outbox, lane=1), "unsubscribed: from everything")
    plain = await _put(outbox, lane=0)
    await outbox.until_life(plain, "sent")
    options = "SELECT options::text FROM dispatcher.captured_messages WHERE delivery_id = $1"
    assert await outbox.connection.fetchval(options, plain) == "{}"


async def test_EM_05_without_links_configured_there_are_none(program: Program, outbox: Outbox) -> None:
    await program.start()
    failed = await _put(outbox, "news", template=LINKED)
    await outbox.until_life(failed, "failed")
    assert "'unsubscribe_url' is undefined" in (await outbox.row(failed))["error"]
    url = Links(PUBLIC, SECRET).url(Subscription("default", "email", ANN, "news"))
    assert _asked(program, "GET", url)[0] == _asked(program, "POST", url, ONE_CLICK)[0] == 404
