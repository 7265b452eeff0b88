"""The configuration from outside: one file, the environment over it, and every fault of both found at once."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from dispatcher.base.errors import ConfigError
from dispatcher.config.fields import table_of
from dispatcher.config.reader import Reader
from dispatcher.config.redacted import show
from dispatcher.config.settings import Config
from dispatcher.config.sources import read_environ, read_toml

__all__ = ["load", "show"]


def load(path: Path | None, environ: Mapping[str, str], providers: Mapping[str, type[Struct]]) -> Config:
    """Defaults, the file over them, the environment over that. ConfigError names every fault there is.

    `providers` says which there are, and by a struct each which options it takes.
    """
    raw, file_faults = read_toml(path) if path else ({}, [])
    overrides, environ_faults = read_environ(environ, table_of(Config))
    reader = Reader(overrides)
    config = reader.read(raw, providers)
    if faults := [*file_faults, *environ_faults, *reader.faults]:
        raise ConfigError(faults)
    return config
