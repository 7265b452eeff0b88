"""The settings of targets, which recipients name. Importing them needs no HTTP client."""

from typing import Literal, Protocol

from msgspec import Struct


class Target(Protocol):
    """A URL that is called by a name, and the addresses that are allowed beside public ones."""

    @property
    def url(self) -> str: ...
    @property
    def allow_addresses(self) -> str: ...


class FunctionTarget(Target, Protocol):
    """A function, as the configuration names it."""

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


class Receiver(Struct, frozen=True):
    """The URL at which a provider reports what became of messages."""

    url: str
