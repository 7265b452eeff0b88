"""The directory of cells: where each cell is, and in which of them a tenant is."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from dispatcher.base.errors import ConfigError, Fault

NUMBER_MAX = 1_023
# A file that was written is noticed within it.
LOOK_SECONDS = 1.0
# A million tenants have 30 MB.
BYTES_MAX = 64 * 1024 * 1024


class Entry(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A cell: its number, the address of its API, and for operators the URL of its database. It shows no password."""

    number: int
    url: str = ""
    database: str = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.number}, {self.url!r})"


class Directory(Struct, frozen=True, forbid_unknown_fields=True):
    """All cells, and the tenants that are not in the default one. Each change of it has a greater version."""

    version: int
    default: int
    cells: tuple[Entry, ...]
    tenants: Mapping[str, int] = {}

    def cell(self, number: int) -> Entry | None:
        """Return a cell by its number."""
        return next((one for one in self.cells if one.number == number), None)

    def home(self, tenant: str) -> Entry:
        """Return the cell of a tenant."""
        number = self.tenants.get(tenant, self.default)
        return next(one for one in self.cells if one.number == number)


_directory = msgspec.json.Decoder(Directory).decode


def read(text: bytes, name: str) -> Directory:
    """Return the directory that a JSON text is. Raises ConfigError with all faults, at paths below `name`."""
    try:
        found = _directory(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise ConfigError([Fault(name, f"is not a directory of cells: {fault}")]) from None
    if faults := [Fault(f"{name}: {path}", words) for path, words in _faults(found)]:
        raise ConfigError(faults)
    return found


def _faults(found: Directory) -> Iterator[tuple[str, str]]:
    numbers = [one.number for one in found.cells]
    if found.version < 1:
        yield "$.version", f"is {found.version}: expected 1 or more"
    if found.default not in numbers:
        yield "$.default", f"is {found.default}, which is not among the cells"
    for place, one in enumerate(found.cells):
        path = f"$.cells[{place}]"
        if not 1 <= one.number <= NUMBER_MAX:
            yield f"{path}.number", f"is {one.number}: expected 1 to {NUMBER_MAX}"
        if one.number in numbers[:place]:
            yield f"{path}.number", f"is {one.number}, as that of another cell"
        if one.url and not _is_address(one.url):
            yield f"{path}.url", "expected https://HOST, with a port where there is one, and no user or query"
    for tenant, number in found.tenants.items():
        if number not in numbers:
            yield f"$.tenants.{tenant}", f"is {number}, which is not among the cells"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not set(url) & set("@?#")
        )
    except ValueError:
        return False


class DirectoryFile:
    """A directory in a file, which is read again when it has changed. A faulty one changes nothing."""

    def __init__(self, path: str | os.PathLike[str], now: Callable[[], float] = time.monotonic) -> None:
        self.path = Path(path)
        self._now = now
        self._looked_at = float("-inf")
        self._changed: tuple[int, int] | None = None
        self._found: Directory | None = None

    def read(self) -> Directory:
        """Return the directory. Raises ConfigError where the file has never been sound."""
        now = self._now()
        if self._found is not None and now - self._looked_at < LOOK_SECONDS:
            return self._found
        self._looked_at = now
        try:
            changed = self.path.stat()
            known = changed.st_mtime_ns, changed.st_size
            if known != self._changed or self._found is None:
                self._found = self._newer(read(self._bytes(), str(self.path)))
                self._changed = known
        except (OSError, ConfigError) as fault:
            if self._found is None:
                raise _as_fault(self.path, fault) from None
        return self._found

    def _newer(self, found: Directory) -> Directory:
        """An older version never replaces a newer one."""
        return found if self._found is None or found.version >= self._found.version else self._found

    def _bytes(self) -> bytes:
        with self.path.open("rb") as file:
            return file.read(BYTES_MAX)


def _as_fault(path: Path, fault: OSError | ConfigError) -> ConfigError:
    if isinstance(fault, ConfigError):
        return fault
    return ConfigError([Fault(str(path), f"cannot be read: {fault.strerror or type(fault).__name__}")])
