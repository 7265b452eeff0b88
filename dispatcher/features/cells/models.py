"""Models of the answers about cells."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

CAPPED = "Counted to 10,000; null: its database is not in the directory, or does not answer."


class CellAddress(Struct, frozen=True, kw_only=True):
    """A cell in the directory."""

    number: int
    url: str


class CellDirectory(Struct, frozen=True, kw_only=True):
    """Where all cells are, and the tenants that are not in the default one."""

    version: int
    default: int
    cells: Sequence[CellAddress]
    tenants: Annotated[Mapping[str, int], Meta(description="To operators all, to others their own.")]


class CellState(Struct, frozen=True, kw_only=True):
    """A cell as it was seen just now."""

    number: int
    url: str
    faults: Annotated[Sequence[str], Meta(description="Why it could not be asked, or is not ready.")]
    version: Annotated[str, Meta(description="Of its program.")]
    tenants: Annotated[int | None, Meta(description="That were placed in it.")]
    waiting: Annotated[int | None, Meta(description=CAPPED)]
    held: Annotated[int | None, Meta(description=CAPPED)]


class Cells(Struct, frozen=True, kw_only=True):
    """All cells, and what is wrong among them."""

    directory_version: int
    cells: Sequence[CellState]
    faults: Sequence[str]


ADDRESSES = (CellAddress(number=1, url="https://one.example.org"), CellAddress(number=2, url="https://two.example.org"))
DIRECTORY = CellDirectory(version=3, default=1, cells=ADDRESSES, tenants={"acme": 2})
STATE = CellState(number=2, url="https://two.example.org", faults=[], version="0.1.0", tenants=1, waiting=12, held=0)
CELLS = Cells(directory_version=3, cells=[STATE], faults=[])
