"""Properties of what operators' commands say: each answer of the schema in words, each invariant with its sentence."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from dispatcher.cli import root
from dispatcher.cli.options import confirm, require_words, who
from dispatcher.cli.session import SLOW_SESSION, Session
from dispatcher.cli.terminal.console import Output
from dispatcher.commands import COMMANDS
from dispatcher.db.database import SESSION
from dispatcher.db.health import checks
from dispatcher.features.held.commands import refusal_sentence
from dispatcher.features.held.models import HeldState
from dispatcher.process.check import says

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def state(life: str, actor: str | None = None, action: str | None = None) -> HeldState:
    """Where a delivery stands, and who settled it."""
    return HeldState(
        id=7,
        life=life,
        held_at=NOON,
        settle_after=NOON,
        error="unknown",
        wait_seconds=42.4,
        actor=actor,
        action=action,
        at=NOON if actor else None,
        reason="seen",
    )


@pytest.mark.parametrize("answer", ["early", "not held", "sent", "called", "posted", "failed", "skipped"])
def test_every_answer_but_settled_is_a_sentence(answer: str) -> None:
    said = refusal_sentence(answer, state("pending"))
    assert said.startswith("delivery 7 ")
    assert said != f"delivery 7 {answer}"


def test_the_actor_of_an_earlier_settlement_is_named() -> None:
    sent = refusal_sentence("sent", state("sent", "ann", "sent"))
    assert sent == "delivery 7 is sent already: ann settled it as sent at 2030-01-01 12:00:00 UTC (seen)"
    again = refusal_sentence("not held", state("claimed", "ann", "requeue"))
    assert again.startswith("delivery 7 is not held, it is claimed: ann requeued it at ")


def test_an_early_settlement_names_the_time() -> None:
    assert "before 2030-01-01 12:00:00 UTC (in 42 s)" in refusal_sentence("early", state("held"))


@pytest.mark.parametrize("invariant", checks.invariants())
def test_every_invariant_has_its_sentence(invariant: str) -> None:
    assert says(invariant)[0].isupper()
    assert says(invariant).endswith(".")
    assert "SELECT" not in says(invariant)


def test_slow_statements_are_planned_freely() -> None:
    assert not {name for name in SESSION if name.startswith("enable_")} & set(SLOW_SESSION)


@pytest.mark.parametrize("words", ["", "  ", "a\0b", "\udcff"])
def test_a_stored_reason_must_not_be_blank(words: str) -> None:
    with pytest.raises(typer.BadParameter):
        require_words("--reason", words)
    with pytest.raises(typer.BadParameter):
        who(Session(None, as_json=False), words)


@pytest.mark.parametrize("as_json", [True, False])
def test_without_a_terminal_there_is_no_confirmation_prompt(as_json: bool, capfd: pytest.CaptureFixture[str]) -> None:
    confirm(Output(as_json), True, 3, "3 would go")
    with pytest.raises(typer.Exit):
        confirm(Output(as_json), False, 3, "3 would go")
    assert "--yes" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("held resolve 1 --sent --failed --reason x", "exactly one"),
        ("held resolve 1 --sent", "--reason"),
        ("held resolve 1 --sent --reason=", "--reason"),
        ("held resolve 1 --sent --reason x --actor=", "--actor"),
        ("held resolve --sent --reason x", "--all"),
        ("held resolve 1 --all --sent --reason x", "--all"),
        ("held resolve 1 --channel sms --sent --reason x", "goes with --all"),
        ("held resolve 1 2 --sent --message-id m --reason x", "one ID"),
        ("held resolve 1 --failed --message-id m --reason x", "--sent"),
        ("held resolve 0 --sent --reason x", "ID"),
        ("held list --tenant \udcff", "not UTF-8"),
        ("pause lane sms --reason x", "channel, provider, tenant, template"),
        ("pause channel sms", "--reason"),
        ("quarantine --before 2020-01-01T00:00:00 --reason x", "zone"),
        ("dead list --kind mail", "run or delivery"),
        ("dead list --workflow welcome --channel sms", "nothing has both"),
        ("dead list --kind run --template welcome", "nothing has both"),
        ("dead list --before 7", "run:ID, delivery:ID or job:ID"),
        ("dead list --since yesterday", "RFC 3339"),
        ("dead show delivery:0", "run:ID, delivery:ID or job:ID"),
        ("dead replay run:1", "--reason"),
        ("dead replay run:1 --reason=", "--reason"),
        ("dead replay --reason x", "--all"),
        ("dead replay run:1 --all --reason x", "--all"),
        ("dead discard run:1 --tenant acme --reason x", "filters go with --all"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused_before_anything_is_asked(arguments: str, words: str) -> None:
    result = CliRunner().invoke(root.command_line([], COMMANDS), arguments.split())
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize("width", ["60", "200"])
def test_the_help_of_all_commands_is_that_of_each(width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    shown, real = (
        CliRunner().invoke(app, ["--help"]).output for app in (root.overview(COMMANDS), root.command_line([], COMMANDS))
    )
    assert shown == real
    commands = get_command(root.command_line([], COMMANDS)).commands  # type: ignore[attr-defined]  # a group has them
    summaries = {name: entry.summary for name, entry in COMMANDS.items()}
    assert summaries == {name: one.get_short_help_str(1_000) for name, one in commands.items()}


def _paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, and of every set of commands."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from _paths(inner, (*path, name))


def test_every_command_takes_the_short_form_of_help(capsys: pytest.CaptureFixture[str]) -> None:
    command = get_command(root.command_line([], COMMANDS))
    paths = list(_paths(command))
    assert len(paths) > len(COMMANDS) * 2
    for path in paths:
        command.main([*path, "-h"], prog_name="dispatcher", standalone_mode=False)
        assert capsys.readouterr().out.startswith(f"Usage: {' '.join(('dispatcher', *path))} ["), path


@pytest.mark.parametrize(
    ("words", "code", "said"), [("", 2, "Commands:"), ("rusn list", 2, "runs"), ("--version", 0, "")]
)
def test_a_command_line_that_names_no_command_is_answered(words: str, code: int, said: str) -> None:
    result = CliRunner().invoke(root.overview(COMMANDS), words.split())
    assert (result.exit_code, said in result.output) == (code, True)


def test_the_help_of_all_commands_loads_none_of_them() -> None:
    loaded = (
        "import sys, dispatcher.__main__; print(*sorted(one for one in sys.modules if one.startswith('dispatcher.')))"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    rooms = {f"dispatcher.{one}" for one in ("__main__", "base", "base.version", "cli", "cli.terminal", "commands")}
    assert set(done.stdout.split()) == rooms | {
        f"dispatcher.cli.{one}" for one in ("app", "root", "terminal.launcher", "terminal.standard_streams")
    }
