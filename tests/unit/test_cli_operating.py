"""Properties of what operators' commands say: each answer of the schema in words, each invariant with its sentence."""

from datetime import UTC, datetime

import pytest
import typer
from typer.testing import CliRunner

from dispatcher.cli import root
from dispatcher.cli.check import says
from dispatcher.cli.operating import confirm, require_words, who
from dispatcher.cli.session import Session
from dispatcher.cli.settling import sentence
from dispatcher.cli.slow import PLANNED
from dispatcher.cli.voice import Voice
from dispatcher.store import checks
from dispatcher.store.database import SESSION
from dispatcher.store.settling import Standing

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def standing(life: str, actor: str | None = None, action: str | None = None) -> Standing:
    """Where a delivery stands, and who settled it."""
    return Standing(life, NOON, NOON, "unknown", 42.4, actor, action, NOON if actor else None, "seen")


@pytest.mark.parametrize("answer", ["unknown", "early", "not held", "sent", "called", "posted", "failed", "skipped"])
def test_only_settled_is_done_and_every_other_answer_is_a_sentence(answer: str) -> None:
    said = sentence(7, answer, "sent", standing("pending"))
    assert not said.done
    assert said.message.startswith("delivery 7 ")
    assert said.message != f"delivery 7 {answer}"
    assert sentence(7, "settled", "sent", None).done


def test_who_settled_it_before_is_named() -> None:
    sent = sentence(7, "sent", "failed", standing("sent", "ann", "sent"))
    assert sent.message == "delivery 7 is sent already: ann settled it as sent at 2030-01-01 12:00:00 UTC (seen)"
    again = sentence(7, "not held", "failed", standing("claimed", "ann", "requeue"))
    assert again.message.startswith("delivery 7 is not held, it is claimed: ann requeued it at ")


def test_too_early_says_until_when() -> None:
    assert "before 2030-01-01 12:00:00 UTC (in 42 s)" in sentence(7, "early", "sent", standing("held")).message


@pytest.mark.parametrize("invariant", checks.invariants())
def test_every_invariant_has_its_sentence(invariant: str) -> None:
    assert says(invariant)[0].isupper()
    assert says(invariant).endswith(".")
    assert "SELECT" not in says(invariant)


def test_what_reads_whole_tables_is_planned_freely() -> None:
    assert not {name for name in SESSION if name.startswith("enable_")} & set(PLANNED)


@pytest.mark.parametrize("words", ["", "  ", "a\0b", "\udcff"])
def test_what_is_kept_for_others_has_to_say_something(words: str) -> None:
    with pytest.raises(typer.BadParameter):
        require_words("--reason", words)
    with pytest.raises(typer.BadParameter):
        who(Session(None, as_json=False), words)


@pytest.mark.parametrize("as_json", [True, False])
def test_without_a_terminal_nobody_is_asked(as_json: bool, capfd: pytest.CaptureFixture[str]) -> None:
    confirm(Voice(as_json), True, 3, "3 would go")
    with pytest.raises(typer.Exit):
        confirm(Voice(as_json), False, 3, "3 would go")
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
        (f"pause tenant {'x' * 101} --reason x", "100 characters"),
        ("quarantine --before 2020-01-01T00:00:00 --reason x", "zone"),
        ("dead list --kind mail", "run or delivery"),
        ("dead list --workflow welcome --channel sms", "nothing has both"),
        ("dead list --kind run --template welcome", "nothing has both"),
        ("dead list --before 7", "run:ID or delivery:ID"),
        ("dead list --since yesterday", "RFC 3339"),
        ("dead show delivery:0", "run:ID or delivery:ID"),
        ("dead replay run:1", "--reason"),
        ("dead replay run:1 --reason=", "--reason"),
        ("dead replay --reason x", "--all"),
        ("dead replay run:1 --all --reason x", "--all"),
        ("dead discard run:1 --tenant acme --reason x", "filters go with --all"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused_before_anything_is_asked(arguments: str, words: str) -> None:
    result = CliRunner().invoke(root.command_line([]), arguments.split())
    assert result.exit_code == 2
    assert words in result.output
