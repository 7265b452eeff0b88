"""Joint looks: what several ask at the same time is one statement, and nobody's trouble is the others'."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from dispatcher.db.joint_looks import JointLooks, until_poll
from tests.support.waits import until


class Asked:
    """Answers each question with its own length, and keeps the statements."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.fails = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def fetch(self, statement: str) -> Sequence[Any]:
        self.statements.append(statement)
        await self.gate.wait()
        if self.fails:
            self.fails -= 1
            raise ConnectionResetError("lost on purpose")
        return [tuple(len(question) for question in statement.removeprefix("SELECT (").removesuffix(")").split("), ("))]


QUESTIONS = ("SELECT 1", "SELECT 22", "SELECT 333")


async def test_questions_of_one_moment_are_one_statement_and_each_gets_its_answer() -> None:
    asked = Asked()
    looks = JointLooks(asked.fetch)
    answers = await asyncio.gather(*(looks.value(question) for question in (*QUESTIONS, QUESTIONS[0])))
    assert answers == [8, 9, 10, 8]
    assert asked.statements == ["SELECT (SELECT 1), (SELECT 22), (SELECT 333)"]


async def test_a_question_that_comes_while_others_are_answered_is_asked_anew() -> None:
    """An answer may be older than what the question is about."""
    asked = Asked()
    looks = JointLooks(asked.fetch)
    asked.gate.clear()
    first = asyncio.create_task(looks.value(QUESTIONS[0]))
    await until(lambda: asked.statements, "it is asked")
    second = asyncio.create_task(looks.value(QUESTIONS[0]))
    asked.gate.set()
    assert [await first, await second] == [8, 8]
    assert len(asked.statements) == 2


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_a_worker_that_is_cancelled_takes_no_answer_from_another(cancelled: int) -> None:
    asked = Asked()
    looks = JointLooks(asked.fetch)
    tasks = [asyncio.create_task(looks.value(question)) for question in QUESTIONS]
    await asyncio.sleep(0)
    tasks[cancelled].cancel()
    left = [task for number, task in enumerate(tasks) if number != cancelled]
    answers = [8, 9, 10]
    del answers[cancelled]
    assert await asyncio.gather(*left) == answers


async def test_a_failure_reaches_who_asked_and_the_others_ask_again() -> None:
    asked = Asked()
    asked.fails = 1
    looks = JointLooks(asked.fetch)
    first, *others = await asyncio.gather(*(looks.value(one) for one in QUESTIONS), return_exceptions=True)
    assert isinstance(first, ConnectionResetError)
    assert others == [9, 10]


def test_polls_of_one_interval_coincide(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.25]
    monkeypatch.setattr("dispatcher.db.joint_looks.time.monotonic", lambda: now[0])
    monkeypatch.setattr("dispatcher.db.joint_looks.PHASE", 0.0)
    assert until_poll(1.0) == 0.75
    now[0] += 0.5
    assert until_poll(1.0) == 0.25
    now[0] += 0.25
    assert until_poll(1.0) == 1.0
