"""What is wrong among cells: the directory, compared with what each cell says of itself."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from dispatcher.base.directory import Directory

# Sequences of a cell that one fault names.
NAMED_MAX = 3


class Placement(Struct, frozen=True):
    """A tenant as one cell has it."""

    tenant_id: str
    cell: int
    url: str
    state: str
    version: int


class Seen(Struct, frozen=True, kw_only=True):
    """A cell as it was seen: by its database, if the directory has that, and by its API."""

    number: int
    url: str
    # What kept it from being seen; empty: nothing.
    database_fault: str = ""
    api_fault: str = ""
    # What its database says. None: it was not asked, or did not answer.
    own_number: int | None = None
    takes_unlisted: bool | None = None
    schema: str = ""
    outside: Sequence[str] = ()
    placements: Sequence[Placement] = ()
    waiting: int | None = None
    held: int | None = None
    # What its API says.
    served: int | None = None
    version: str = ""
    reasons: Sequence[str] = ()


def newest(directory: Directory, seen: Sequence[Seen]) -> Directory:
    """Return the directory with what cells know better, which is what has a greater version."""
    tenants, versions = dict(directory.tenants), dict.fromkeys(directory.tenants, directory.version)
    for one in seen:
        for placed in one.placements:
            # Before the end of a move both say that the tenant is where it was.
            number = one.number if placed.state in ("here", "leaving") else placed.cell
            if placed.state != "arriving" and placed.version > versions.get(placed.tenant_id, directory.version):
                tenants[placed.tenant_id], versions[placed.tenant_id] = number, placed.version
    version = max([directory.version, *versions.values()])
    # Placed in the default cell is the same as not at all.
    listed = {tenant: number for tenant, number in sorted(tenants.items()) if number != directory.default}
    return Directory(version, directory.default, directory.cells, listed)


def faults(directory: Directory, seen: Sequence[Seen]) -> list[str]:
    """Return everything that is wrong, each in a sentence."""
    found = [fault for one in seen for fault in _of_cell(directory, one)]
    return found + list(_differences(seen)) + list(_of_tenants(directory, seen))


def _of_cell(directory: Directory, one: Seen) -> Iterator[str]:
    cell = f"cell {one.number}"
    if one.database_fault:
        yield f"{cell}: its database: {one.database_fault}"
    if one.api_fault:
        yield f"{cell}: {one.url}: {one.api_fault}"
    if one.own_number is not None and one.own_number != one.number:
        yield f"{cell}: its database says that it is cell {one.own_number}: correct the directory"
    if one.served is not None and one.served != one.number:
        yield f"{cell}: {one.url} serves cell {one.served}: correct the directory"
    if one.takes_unlisted is not None and one.takes_unlisted != (one.number == directory.default):
        does = "takes" if one.takes_unlisted else "refuses"
        words = f"the default is cell {directory.default}: restart it with this directory"
        yield f"{cell}: it {does} tenants that are not listed, and {words}"
    if one.outside:
        named = ", ".join(one.outside[:NAMED_MAX]) + (", …" if len(one.outside) > NAMED_MAX else "")
        yield f"{cell}: sequences outside its range of ids: {named}: run migrate with cell.number = {one.number}"
    yield from (f"{cell}: it is not ready: {reason}" for reason in one.reasons)


def _differences(seen: Sequence[Seen]) -> Iterator[str]:
    for what, said in (("version", "version"), ("schema", "schema")):
        values: dict[str, list[int]] = {}
        for one in seen:
            if value := getattr(one, said):
                values.setdefault(value, []).append(one.number)
        if len(values) > 1:
            parts = ", ".join(f"{value[:12]} in {_numbers(numbers)}" for value, numbers in sorted(values.items()))
            yield f"cells differ in their {what}: {parts}"


def _of_tenants(directory: Directory, seen: Sequence[Seen]) -> Iterator[str]:
    rows: dict[str, dict[int, Placement]] = {}
    asked = {one.number: one for one in seen if one.own_number == one.number}
    for one in asked.values():
        for placed in one.placements:
            rows.setdefault(placed.tenant_id, {})[one.number] = placed
    for tenant in sorted({*rows, *directory.tenants}):
        yield from _of_tenant(directory, asked, tenant, rows.get(tenant, {}))


def _of_tenant(
    directory: Directory, asked: Mapping[int, Seen], tenant: str, rows: Mapping[int, Placement]
) -> Iterator[str]:
    home = directory.home(tenant).number
    moving = {number: row for number, row in rows.items() if row.state in ("leaving", "arriving")}
    if moving:
        states = ", ".join(f"{row.state} in cell {number}" for number, row in sorted(moving.items()))
        yield f"tenant {tenant} is being moved: {states}"
        return
    takes = [number for number, one in asked.items() if _takes(one, rows.get(number))]
    if len(takes) > 1:
        yield f"tenant {tenant} is at home in {_numbers(takes)}: place it in one"
    elif not takes and len(asked) == len(directory.cells):
        yield f"tenant {tenant} is at home in no cell, and the directory says cell {home}: place it"
    elif takes and takes != [home]:
        version = max((row.version for row in rows.values()), default=directory.version)
        yield (
            f"tenant {tenant} is in cell {takes[0]} (version {version}), and the directory says cell {home} "
            f"(version {directory.version}): write the directory anew"
        )


def _takes(one: Seen, row: Placement | None) -> bool:
    return bool(one.takes_unlisted) if row is None else row.state == "here"


def _numbers(numbers: Sequence[int]) -> str:
    return " and ".join(f"cell {number}" for number in sorted(numbers))
