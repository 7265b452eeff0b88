"""The `keys` commands as whoever types them sees them."""

import pytest

from dispatcher.http import bearer
from tests.cli.test_operate import rows, text
from tests.support.program import Program

WHY = ("--reason", "asked", "--actor", "bob")


async def test_a_key_is_shown_once_rotated_and_revoked(program: Program) -> None:
    made = program.run("keys", "create", "shop", "--role", "triggerOperator", *WHY)
    secret = made.stdout.decode().strip()
    shown = bearer.read(secret)
    assert shown is not None
    assert b"only now" in made.stderr
    listed = program.run("keys", "list")
    assert shown.prefix in text(listed)
    assert secret not in text(listed)
    assert "triggerOperator" in text(listed)
    (second,) = rows(program.run("keys", "rotate", "shop", "--overlap", "2h", *WHY, "--json"))
    (row,) = rows(program.run("keys", "list", "--json"))
    assert sorted(row["prefixes"]) == sorted([shown.prefix, second["prefix"]])
    assert (row["state"], row["last_used_at"]) == ("live", None)
    assert text(program.run("keys", "revoke", "shop", *WHY)).strip() == "key shop is revoked"
    assert "no keys" in text(program.run("keys", "list"))
    (gone,) = rows(program.run("keys", "list", "--revoked", "--json"))
    assert gone["state"] == "revoked"
    assert [row["action"] for row in rows(program.run("keys", "log", "shop", "--json"))] == [
        "revoke",
        "rotate",
        "create",
    ]


@pytest.mark.parametrize(
    ("words", "code", "fault"),
    [
        (("create", "shop", "--role", "root", *WHY), 2, "triggerOperator"),
        (("create", "a b", "--role", "systemAdmin", *WHY), 3, "$.name: expected 1 to 100 letters"),
        (("create", "shop", "--role", "systemAdmin", "--reason", " "), 3, "$.reason: "),
        (("create", "shop", "--role", "systemAdmin", "--expires-at", "2001-01-01T00:00:00Z", *WHY), 3, "in the past"),
        (("create", "shop", "--role", "systemAdmin", "--expires-at", "soon", *WHY), 3, "RFC3339"),
        (("create", "shop", "--role", "systemAdmin", "--tenant", "t" * 101, *WHY), 2, "longer than 100 characters"),
        (("rotate", "shop", *WHY), 1, "there is no key shop"),
        (("rotate", "shop", "--overlap", "ever", *WHY), 2, "expected a duration"),
        (("rotate", "shop", "--overlap", "91d", *WHY), 3, "$.overlap_seconds: "),
        (("revoke", "shop", *WHY), 1, "there is no key shop"),
    ],
)
async def test_impossible_actions_are_refused_with_a_sentence(
    program: Program, words: tuple[str, ...], code: int, fault: str
) -> None:
    ended = program.run("keys", *words)
    assert (ended.returncode, ended.stdout) == (code, b"")
    assert fault in ended.stderr.decode()


async def test_a_taken_name_is_refused(program: Program) -> None:
    create = ("keys", "create", "shop", "--role", "systemAdmin", *WHY)
    (made,) = rows(program.run(*create, "--json"))
    shown = bearer.read(made["key"])
    assert shown is not None
    assert (made["name"], made["role"], made["prefix"]) == ("shop", "systemAdmin", shown.prefix)
    ended = program.run(*create)
    assert ended.returncode == 1
    assert b"there is a key shop" in ended.stderr
    assert rows(program.run("keys", "revoke", "shop", *WHY, "--json")) == [{"name": "shop", "revoked": True}]
