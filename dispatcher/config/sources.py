"""Where configuration comes from: one TOML file, and environment variables that override single values of it.

`DISPATCHER_SECTION__KEY` overrides `section.key`; with `_FILE` behind it the variable names a file that holds the
value, which is how secrets come in. A name without a double underscore is no section and is left alone
(`DISPATCHER_CONFIG`, `DISPATCHER_KEY`, what Kubernetes sets for a service called dispatcher), but for the alias
`DISPATCHER_DATABASE_URL`.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from dispatcher.base.errors import Fault, did_you_mean, quoted
from dispatcher.config.fields import Keys, Leaf, Node, Table, dotted, step

PREFIX = "DISPATCHER_"
FILE_SUFFIX = "_FILE"
ALIASES: Mapping[str, Keys] = {"DISPATCHER_DATABASE_URL": ("database", "url")}

# The annotated file has about 5 KiB; without a limit a path to a device would be read for ever.
FILE_BYTES_MAX = 256 * 1024
SECRET_BYTES_MAX = 64 * 1024


class Given(Struct, frozen=True):
    """A value that an environment variable gives. One that came from a file is not shown."""

    variable: str
    text: str
    hidden: bool = False


class _Target(Struct, frozen=True):
    """The meaning of a variable's name: the leaf that it sets, and whether by way of a file."""

    variable: str
    keys: Keys
    by_file: bool


def read_toml(path: Path) -> tuple[dict[str, object], list[Fault]]:
    """The file's tables, or the one fault that made it unreadable."""
    name = str(path)
    try:
        text = _read(path, FILE_BYTES_MAX)
    except (OSError, ValueError) as error:
        return {}, [Fault(name, f"cannot be read: {_reason(error)}")]
    try:
        return tomllib.loads(text), []
    except RecursionError:
        return {}, [Fault(name, "is nested too deeply")]
    except ValueError as error:
        return {}, [Fault(name, f"is not valid TOML: {_toml_reason(error, text)}")]


def _read(path: Path, bytes_max: int) -> str:
    with path.open("rb") as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise ValueError(f"it has more than {bytes_max} bytes")
    return data.decode("utf-8")


def _reason(error: OSError | ValueError) -> str:
    # Their own texts quote the file's name or bytes; a secret that was put where its file's name belongs would show.
    match error:
        case OSError():
            return error.strerror or type(error).__name__
        case UnicodeDecodeError():
            return f"it is not UTF-8 at byte {error.start}"
        case _:
            return str(error)


def _toml_reason(error: ValueError, text: str) -> str:
    if not isinstance(error, tomllib.TOMLDecodeError):
        # Integers of more than 4300 digits, dates that are none: Python's complaint, without a place.
        return "a number or date in it cannot be read"
    line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
    words = str(error)
    if place := re.search(r"\(at line (\d+), column (\d+)\)$", words):
        line, column = int(place[1]), int(place[2])
    return f"{words.rpartition(' (at ')[0]} at line {line}, column {column}"


def read_environ(environ: Mapping[str, str], root: Table) -> tuple[dict[Keys, Given], list[Fault]]:
    """Every value that a variable gives, by the leaf that it overrides."""
    faults: list[Fault] = []
    targets: dict[Keys, list[_Target]] = {}
    for variable in sorted(environ):
        match _target(variable, root):
            case Fault() as fault:
                faults.append(fault)
            case _Target() as target:
                targets.setdefault(target.keys, []).append(target)
            case None:
                pass
    values: dict[Keys, Given] = {}
    for keys, rivals in targets.items():
        match _value(rivals, environ):
            case Fault() as fault:
                faults.append(fault)
            case Given() as given:
                values[keys] = given
    return values, faults


def _target(variable: str, root: Table) -> _Target | Fault | None:
    plain = variable.removesuffix(FILE_SUFFIX)
    if plain in ALIASES:
        return _Target(variable, ALIASES[plain], by_file=plain != variable)
    if not variable.startswith(PREFIX) or "__" not in variable:
        return None
    # The name as it stands comes first: a key may itself end in _file.
    for name in (variable, plain):
        keys = _keys(name)
        if isinstance(_find(root, keys), Leaf):
            return _Target(variable, keys, by_file=name != variable)
    return _stray(variable, _keys(plain), root)


def _keys(variable: str) -> Keys:
    return tuple(variable.removeprefix(PREFIX).lower().split("__"))


def _find(root: Table, keys: Keys) -> Node | None:
    node: Node | None = root
    for key in keys:
        node = node and step(node, key)
    return node


def _stray(variable: str, keys: Keys, root: Table) -> Fault:
    """The fault of a name that leads to no leaf: named at the first key that is wrong."""
    node: Node = root
    for depth, key in enumerate(keys, start=1):
        below = step(node, key)
        if below is None:
            hint = did_you_mean(key, node.children) if isinstance(node, Table) else ""
            return Fault(dotted(keys[:depth]), f"unknown key {quoted(key)}{hint} (from {variable})")
        node = below
    return Fault(dotted(keys), f"is a table, not a value: name one of its keys (from {variable})")


def _value(rivals: Iterable[_Target], environ: Mapping[str, str]) -> Given | Fault:
    target, *others = rivals
    path, variable = dotted(target.keys), target.variable
    if others:
        names = ", ".join(rival.variable for rival in (target, *others))
        return Fault(path, f"is given more than once: keep one of {names}")
    text = environ[variable]
    if target.by_file:
        try:
            text = _read(Path(text), SECRET_BYTES_MAX).rstrip("\r\n")
        except (OSError, ValueError) as error:
            return Fault(path, f"the file that {variable} names cannot be read: {_reason(error)}")
    if not text:
        # An unset variable that compose or systemd passes on as "" must not turn a database URL into the embedded one.
        return Fault(path, f"is empty: give a value or unset the variable (from {variable})")
    if any("\ud800" <= character <= "\udfff" for character in text):
        return Fault(path, f"is not UTF-8 (from {variable})")
    return Given(variable, text, hidden=target.by_file)
