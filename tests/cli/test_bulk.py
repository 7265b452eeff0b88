"""Properties of bulk commands: they act on as many as were counted, and say how far they came."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from dispatcher.cli.calls.bulk import Matched, act_on_all
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.terminal.console import Output
from dispatcher.endpoints import ENDPOINTS
from dispatcher.features.held.commands import WORDS
from dispatcher.http.bulk import NotDone, Swept

MORE = "next"


def _caller(asked: list[dict[str, Any]], *answers: Swept) -> Caller:
    left = iter(answers)

    def ask(_endpoint: object, body: dict[str, Any]) -> Swept:
        asked.append(body)
        return next(left)

    return cast("Caller", SimpleNamespace(output=Output(as_json=True), ask=ask))


def _swept(done: int, refused: int = 0, next_cursor: str | None = MORE) -> Swept:
    problems = [NotDone(one, "early", "not yet") for one in range(refused)]
    return Swept(done=done, not_done=refused, refused=problems, next_cursor=next_cursor)


def test_no_more_are_acted_on_than_were_counted(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[dict[str, Any]] = []
    caller = _caller(asked, _swept(500), _swept(100))
    act_on_all(caller, WORDS, [Matched(600, ENDPOINTS[0], {"reason": "x"})], yes=True)
    assert [(one["limit"], one["cursor"]) for one in asked] == [(500, None), (100, MORE)]
    assert json.loads(capsys.readouterr().out) == {"held": 600, "settled": 600, "not_settled": 0}


def test_refused_items_are_shown_with_their_kind(capsys: pytest.CaptureFixture[str]) -> None:
    caller = _caller([], _swept(1, refused=1, next_cursor=None), _swept(2, next_cursor=None))
    matched = [Matched(2, ENDPOINTS[0], {}, {"kind": "run"}), Matched(2, ENDPOINTS[0], {}, {"kind": "delivery"})]
    with pytest.raises(typer.Exit):
        act_on_all(caller, WORDS, matched, yes=True)
    said, told = capsys.readouterr()
    assert json.loads(said) == {"held": 4, "settled": 3, "not_settled": 1}
    assert json.loads(told) == {"id": 0, "done": False, "answer": "early", "message": "not yet", "kind": "run"}
