"""Properties of what commands say: answers in words, failures in a sentence, nothing that drives a terminal."""

import asyncpg
import pytest

from dispatcher.base.errors import ConfigError, Fault, InputError, RestartBudgetSpent, SchemaBehind, UnsafeDatabase
from dispatcher.cli.failures import FAILED, REFUSED, UNUSABLE, explain
from dispatcher.cli.terminal.console import plain
from dispatcher.features.deliveries.rules import COMMON_ANSWERS, DELIVERY_ANSWERS, delivery_sentence
from dispatcher.features.deliveries.store import readable


@pytest.mark.parametrize(("action", "answer"), [("retry", "reopened"), ("cancel", "cancelled"), ("move", "moved")])
def test_only_the_answer_that_means_done_is_done(action: str, answer: str) -> None:
    everything = {*COMMON_ANSWERS, "queued", "reopened", "cancelled", "moved"}
    assert [word for word in everything if delivery_sentence(action, 7, word)[0]] == [answer]


def test_every_answer_is_a_sentence_about_the_delivery() -> None:
    for action in DELIVERY_ANSWERS:
        for answer in (*DELIVERY_ANSWERS[action], *COMMON_ANSWERS):
            words = delivery_sentence(action, 7, answer)[1]
            assert words.startswith("delivery 7 ")
            assert words != f"delivery 7 {answer}"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ConfigError([Fault("a", "b")]), UNUSABLE, "faults"),
        (InputError([Fault("a", "b")]), REFUSED, "refused"),
        (SchemaBehind("0002_more"), FAILED, "migrate`"),
        (UnsafeDatabase("fsync is off"), FAILED, "fsync is off"),
        (ConnectionRefusedError("refused"), FAILED, "refused"),
        (asyncpg.InvalidCatalogNameError('database "x" does not exist'), FAILED, "does not exist"),
    ],
)
def test_an_expected_failure_is_one_sentence_with_its_code(error: Exception, code: int, words: str) -> None:
    for thrown in (error, ExceptionGroup("a group", [ExceptionGroup("inside", [error])])):
        (failure,) = explain(thrown) or []
        assert failure.exit_code == code
        assert words in failure.message


def test_a_bug_is_not_explained_away() -> None:
    assert explain(KeyError("x")) is None
    assert explain(ExceptionGroup("a group", [UnsafeDatabase(), KeyError("x")])) is None


def test_a_spent_budget_names_the_crashed_actor() -> None:
    spent = RestartBudgetSpent("listener crashed 6 times within 60 s")
    spent.__cause__ = ExceptionGroup("a group", [OSError("cannot listen on 127.0.0.1:80")])
    (failure,) = explain(ExceptionGroup("outside", [spent])) or []
    assert failure.message == "listener crashed 6 times within 60 s: OSError: cannot listen on 127.0.0.1:80"


def test_content_cannot_drive_a_terminal() -> None:
    assert plain("a\x1b[2Jb\nc\u202e") == r"a\x1b[2Jb\nc\u202e"
    assert plain("für ♥ Ann") == "für ♥ Ann"
    assert plain(None) == ""


def test_documents_are_shown_as_what_they_are() -> None:
    shown = readable({"lane": 0, "variables": '{"n":1}', "captured": [{"parts": '{"body":"x"}'}], "error": None})
    assert shown["lane"] == "transactional"
    assert bytes(shown["variables"]) == b'{"n":1}'
    assert bytes(shown["captured"][0]["parts"]) == b'{"body":"x"}'
