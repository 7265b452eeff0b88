"""Walking: the rows of a list, page by page, through its cursors."""

from typing import Any

from tests.support.caller import Caller


def walk(caller: Caller, path: str, limit: int = 2) -> list[dict[str, Any]]:
    """Every row of a list."""
    seen: list[dict[str, Any]] = []
    join, cursor = "&" if "?" in path else "?", ""
    while True:
        answer = caller.get(f"{path}{join}limit={limit}{cursor}")
        assert answer.status == 200, answer
        (rows,) = (rows for name, rows in answer.json.items() if name != "next_cursor")
        assert len(rows) <= limit
        assert not any(row in seen for row in rows)
        seen += rows
        if answer.json["next_cursor"] is None:
            return seen
        assert len(rows) == limit
        cursor = f"&cursor={answer.json['next_cursor']}"
