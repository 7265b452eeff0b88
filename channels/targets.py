"""Targets: what a recipient can name that has a URL. Who only reads settings needs no HTTP client for them."""

from typing import Protocol


class Target(Protocol):
    """Something that is called by a name."""

    @property
    def url(self) -> str: ...
    @property
    def allow_addresses(self) -> str: ...
