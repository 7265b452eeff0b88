"""Whatever stands in the file or the environment, loading it ends with a configuration or a ConfigError."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from channels.registry import PROVIDERS
from dispatcher.base.errors import ConfigError
from dispatcher.config import load, show
from dispatcher.config.settings import Config

# A busy machine is no failure.
unhurried = settings(deadline=None)

DEFAULTS = msgspec.to_builtins(Config())
# All real tables and keys, so that garbage gets past the first one.
KEYS = {key for table in DEFAULTS.values() for key in table}
NAMES = sorted({*DEFAULTS, *KEYS, *DEFAULTS["channels"]["sms"], "refuse", "ledger", "host", "port"})

TEXTS = st.text(st.characters(codec="utf-8"))
WORDS = st.sampled_from(NAMES) | TEXTS
SCALARS = st.booleans() | st.integers() | st.floats() | TEXTS | st.datetimes() | st.dates() | st.times()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner), max_leaves=20)
TREES = st.dictionaries(WORDS, VALUES | st.dictionaries(st.sampled_from(NAMES), SCALARS))


def toml_of(value: object) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{toml_of(key)} = {toml_of(inner)}" for key, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(toml_of, value)) + "]"
        case str():
            # TOML, other than JSON, wants DEL escaped and knows no surrogate pairs.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case _:
            return str(value).lower()


def raises_nothing_else(toml: str, environ: Mapping[str, str]) -> None:
    with TemporaryDirectory() as folder, suppress(ConfigError):
        path = Path(folder) / "dispatcher.toml"
        path.write_bytes(toml.encode())
        json.dumps(show(load(path, environ, PROVIDERS), PROVIDERS))


@unhurried
@given(TEXTS)
@example("x = " + "[" * 9_000)
@example("x = 25:61:61")
@example("a." * 1_000 + "a = 1")
def test_garbage_never_raises_anything_but_a_config_error(toml: str) -> None:
    raises_nothing_else(toml, {})


@unhurried
@given(TREES)
def test_garbage_in_valid_toml_never_raises_anything_but_a_config_error(tree: dict[str, object]) -> None:
    raises_nothing_else("\n".join(f"{toml_of(key)} = {toml_of(value)}" for key, value in tree.items()), {})


def variables() -> st.SearchStrategy[str]:
    sections = {key: table for key, table in DEFAULTS.items() if key != "channels"}
    known = [f"DISPATCHER_{section}__{key}".upper() for section, table in sections.items() for key in table]
    options = ("DISPATCHER_CHANNELS__SMS__OPTIONS__PORT", "DISPATCHER_CHANNELS__SMS__PROVIDER")
    real = st.sampled_from([*known, "DISPATCHER_DATABASE_URL", "DISPATCHER_CHANNELS__SMS__FAULTS__REFUSE", *options])
    return real | real.map("{}_FILE".format) | st.text().map("DISPATCHER_{}".format)


@unhurried
@given(st.dictionaries(variables(), st.text()))
@example({"DISPATCHER_CLAIM__BATCH_MAX": "9" * 5_000})
@example({"DISPATCHER_CLAIM__POLL_SECONDS": "nan"})
@example({"DISPATCHER_DATABASE_URL_FILE": "\0"})
def test_garbage_in_the_environment_never_raises_anything_but_a_config_error(environ: dict[str, str]) -> None:
    raises_nothing_else("", environ)
