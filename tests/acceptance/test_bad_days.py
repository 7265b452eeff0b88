"""A command on a bad day: it says in a sentence what is wrong, in the form that was asked for, and how far it came."""

import json
from pathlib import Path

import pytest

from tests.acceptance.far import Far
from tests.acceptance.test_operate import talk
from tests.api.caller import make_key
from tests.program import Program


@pytest.mark.parametrize(
    ("words", "line", "counts"),
    [
        (
            ("send", "--file"),
            {"idempotency_key": "bad-day", "channel": "sms", "recipient": "1", "body": "x"},
            {"sent": 0, "duplicates": 0, "refused": 0},
        ),
        (("contacts", "import"), {"key": "bad-day"}, {"created": 0, "changed": 0, "same": 0, "refused": 0}),
    ],
)
async def test_how_far_a_file_came_is_json_where_that_was_asked_for(
    serving: Program, tmp_path: Path, words: tuple[str, ...], line: dict[str, str], counts: dict[str, int]
) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text(json.dumps(line))
    done = Far(serving, make_key(serving, "triggerOperator")).run(*words, str(file), "--json")
    stopped, why = map(json.loads, talk(done, 1).splitlines())
    assert (stopped, why["error"]) == ({"stopped": True, "line": 0, **counts}, "Forbidden")
