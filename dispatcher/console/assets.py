"""Assets: the stylesheet, the script and the icon, each under a name that has a hash of its content."""

from functools import cache
from hashlib import sha256
from importlib import resources

from msgspec import Struct

PATH = "/console/assets"
_MEDIA_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_FILES = ("console.css", "console.js", "icon.svg")
_HASH_CHARACTERS = 12


class Asset(Struct, frozen=True):
    """A file that never changes under its name."""

    name: str
    content: bytes
    media_type: str


@cache
def assets() -> dict[str, Asset]:
    """Return the assets by the names of their files."""
    found = {}
    for file in _FILES:
        content = resources.files(__package__).joinpath("assets", file).read_bytes()
        stem, _, suffix = file.rpartition(".")
        name = f"{stem}.{sha256(content).hexdigest()[:_HASH_CHARACTERS]}.{suffix}"
        found[file] = Asset(name, content, _MEDIA_TYPES[suffix])
    return found


@cache
def by_name() -> dict[str, Asset]:
    """Return the assets by their names in URLs."""
    return {one.name: one for one in assets().values()}


def asset(file: str) -> str:
    """Return the URL of an asset."""
    return f"{PATH}/{assets()[file].name}"
