"""Odd arguments locally and remotely: they are refused, or find nothing, in the same words and with the same code."""

import pytest

from tests.cli.test_operate import text
from tests.support.program import Program
from tests.support.remote_cli import RemoteCli, same

WHY = ("--reason", "to see")
LONG = "x" * 256


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("templates", "show", ""), 2),
        (("templates", "publish", " "), 2),
        (("templates", "show", "../.."), 1),
        (("workflows", "show", ""), 2),
        (("workflows", "delete", ""), 2),
        (("trigger", ""), 2),
        (("trigger", "%2e%2e/a\nb"), 3),
        (("runs", "signal", "1", ""), 2),
        (("runs", "list", "--workflow", ""), 2),
        (("runs", "list", "--key", LONG), 2),
        (("runs", "list", "--workflow", "\u00e4%\n/.."), 0),
        (("deliveries", "show", "--key", ""), 2),
        (("deliveries", "list", "--channel", LONG), 2),
        (("dead", "list", "--workflow", ""), 2),
        (("held", "list", "--channel", ""), 2),
        (("runs", "cancel", "1", "--reason", "x" * 1_001), 2),
        (("webhooks", "delete", "any", "--reason", "x" * 1_001), 2),
        (("webhooks", "delete", "any", "--reason", "\x1b[31m \u20ac & %00\n" + "\u20ac" * 900), 1),
        (("keys", "revoke", "any", "--reason", "x" * 1_001), 3),
        (("deliveries", "cancel", "1", "--reason", "x" * 1_001), 2),
        (("runs", "signal", "1", LONG), 2),
        (("templates", "list", "--after", "x" * 101), 2),
        (("workflows", "list", "--after", "x" * 101), 2),
        (("schedules", "list", "--after", "x" * 101), 2),
    ],
    ids=lambda one: "_".join(one)[:30].encode("unicode_escape").decode() if isinstance(one, tuple) else None,
)
async def test_odd_input_ends_alike_locally_and_remotely(
    serving: Program, remote: RemoteCli, words: tuple[str, ...], code: int
) -> None:
    await same(serving, remote, *words)
    assert remote.run(*words).returncode == code


async def test_a_name_does_not_drive_a_terminal(remote: RemoteCli) -> None:
    odd = ("template", "a\n\x1b[31mb", "--workspace", "default")
    assert text(remote.run("pause", *odd, *WHY)) == "template a\\n\\x1b[31mb of default/default is paused\n"
    assert (
        text(remote.run("resume", *odd, "--reason", "over")) == "template a\\n\\x1b[31mb of default/default goes on\n"
    )
