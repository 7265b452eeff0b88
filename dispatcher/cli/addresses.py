"""Addresses on the command line."""

from typing import Annotated

import typer

from dispatcher.base.values.addresses import KINDS, Address, parse_address
from dispatcher.cli.options import one_of, require_text

OfKind = Annotated[
    str | None,
    typer.Option(
        "--kind", help=f"One of {', '.join(KINDS)}; seen from the address without it.", callback=one_of(KINDS)
    ),
]


def addresses(texts: list[str], kind: str | None) -> list[Address]:
    """Return the addresses of the command line, without duplicates."""
    found: list[Address] = []
    for text in texts:
        require_text("ADDRESS", text)
        try:
            found.append(parse_address(text, kind))  # type: ignore[arg-type]  # one of the kinds, as `OfKind` takes no other
        except ValueError as fault:
            raise typer.BadParameter(f"{text!r} {fault}", param_hint="ADDRESS") from fault
    return list(dict.fromkeys(found))
