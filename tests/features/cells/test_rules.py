"""What is wrong among cells: each fault is found, and nothing is said of cells that agree."""

from typing import Any

import pytest
from msgspec import structs

from dispatcher.base.directory import Directory, Entry
from dispatcher.features.cells.rules import Placement, Seen, faults, newest

CELLS = (Entry(1, "https://one"), Entry(2, "https://two"))
FOUND = Directory(3, 1, CELLS, {"acme": 2})


def seen(number: int, *rows: tuple[str, int, str, int], **more: Any) -> Seen:
    """A cell as the directory wants it, but for some of it."""
    placed = tuple(Placement(tenant, cell, "", state, version) for tenant, cell, state, version in rows)
    one = Seen(number=number, url="", own_number=number, takes_unlisted=number == 1, served=number, placements=placed)
    return structs.replace(one, **more)


HERE = (seen(1, ("acme", 2, "elsewhere", 3)), seen(2, ("acme", 2, "here", 3)))


def test_nothing_is_wrong_where_all_agree() -> None:
    assert faults(FOUND, HERE) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"database_fault": "refused", "own_number": None}, "cell 2: its database: refused"),
        ({"api_fault": "refused", "served": None}, "refused"),
        ({"own_number": 7}, "its database says that it is cell 7"),
        ({"served": 7}, "serves cell 7"),
        ({"takes_unlisted": True}, "cell 2: it takes tenants that are not listed"),
        ({"outside": ["deliveries_id_seq"]}, "outside its range of ids: deliveries_id_seq"),
        ({"reasons": ["draining"]}, "it is not ready: draining"),
        ({"version": "9"}, "cells differ in their version: 1 in cell 1, 9 in cell 2"),
        ({"schema": "b"}, "cells differ in their schema: a in cell 1, b in cell 2"),
    ],
)
def test_what_is_wrong_with_a_cell_is_named(changed: dict[str, Any], words: str) -> None:
    one, two = (structs.replace(cell, version="1", schema="a") for cell in HERE)
    assert any(words in fault for fault in faults(FOUND, (one, structs.replace(two, **changed))))


@pytest.mark.parametrize(
    ("one", "two", "words"),
    [
        (seen(1, ("acme", 1, "here", 3)), HERE[1], "tenant acme is at home in cell 1 and cell 2"),
        (seen(1), HERE[1], "tenant acme is at home in cell 1 and cell 2"),
        (HERE[0], seen(2), "tenant acme is at home in no cell, and the directory says cell 2"),
        (
            seen(1, ("acme", 2, "leaving", 4)),
            seen(2, ("acme", 2, "arriving", 4)),
            "acme is being moved: leaving in cell 1",
        ),
        (
            seen(1, ("acme", 1, "here", 4)),
            seen(2, ("acme", 1, "elsewhere", 4)),
            "tenant acme is in cell 1 (version 4), and the directory says cell 2 (version 3)",
        ),
    ],
)
def test_a_tenant_in_two_cells_or_none_or_elsewhere_is_named(one: Seen, two: Seen, words: str) -> None:
    (fault,) = faults(FOUND, (one, two))
    assert words in fault


def test_a_cell_that_does_not_answer_is_not_taken_for_one_without_tenants() -> None:
    dead = Seen(number=2, url="", database_fault="refused")
    assert faults(FOUND, (HERE[0], dead)) == ["cell 2: its database: refused"]


def test_what_cells_know_better_is_in_the_directory_that_is_written_anew() -> None:
    moved = (
        seen(1, ("acme", 1, "here", 5), ("beta", 2, "elsewhere", 6), ("gamma", 2, "leaving", 7)),
        seen(2, ("acme", 1, "elsewhere", 5), ("beta", 2, "here", 6), ("gamma", 2, "arriving", 7)),
    )
    assert newest(FOUND, moved) == Directory(7, 1, CELLS, {"beta": 2})
    # Neither does an older table change it.
    old = (seen(1, ("acme", 1, "here", 2)), seen(2, ("acme", 1, "elsewhere", 2)))
    assert newest(FOUND, old) == FOUND
