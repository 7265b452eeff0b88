"""What the functions channel must know of a function, and of itself."""

from typing import Literal, Protocol

from msgspec import Struct

from channels.targets import Target


class FunctionSettings(Target, Protocol):
    """One function, as the configuration names it."""

    @property
    def token(self) -> str: ...
    @property
    def timeout_seconds(self) -> float: ...
    @property
    def idempotent(self) -> bool: ...
    @property
    def retry(self) -> Literal["transient", "never", "always"]: ...
    @property
    def answer_bytes_max(self) -> int: ...
    @property
    def connections(self) -> int: ...


class FunctionsOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """There is nothing to set: each function has its own settings."""
