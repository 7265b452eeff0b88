"""The address of a server that commands speak to in place of a database, as the environment names it.

DISPATCHER_URL and DISPATCHER_KEY; the key may be in a file that DISPATCHER_KEY_FILE names. They go together: a command
that was meant for a server never works on a database by mistake, nor the other way round.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from dispatcher.base.errors import ConfigError, Fault
from dispatcher.http import bearer

URL, KEY, KEY_FILE, ALLOW_HTTP = (
    "DISPATCHER_URL",
    "DISPATCHER_KEY",
    "DISPATCHER_KEY_FILE",
    "DISPATCHER_ALLOW_HTTP",
)
URL_CHARACTERS_MAX = 1_000
# A key has 60; a path to a device would be read for ever.
FILE_BYTES_MAX = 4_096


class Address(Struct, frozen=True):
    """Where a server is, and the key that it is shown. It does not print its key."""

    url: str
    key: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


def read(environ: Mapping[str, str]) -> Address | None:
    """The address; None where none is named. Raises ConfigError with everything that is wrong with it."""
    given = [name for name in (URL, KEY, KEY_FILE) if name in environ]
    if not given:
        return None
    faults: list[Fault] = []
    if URL not in environ:
        faults.append(Fault(URL, f"is not set, and {given[0]} is: set both, or none of them"))
    else:
        faults += (Fault(URL, words) for words in _url_faults(environ[URL], environ.get(ALLOW_HTTP)))
    key = _key(environ, faults)
    if faults:
        raise ConfigError(faults)
    return Address(environ[URL].rstrip("/"), key)


def _url_faults(url: str, allow_http: str | None) -> list[str]:
    if not url:
        return ["is empty: give a value or unset the variable"]
    if len(url) > URL_CHARACTERS_MAX:
        return [f"has more than {URL_CHARACTERS_MAX} characters"]
    if not (url.isascii() and url.isprintable()) or " " in url:
        return ["has characters that stand in no URL"]
    place = _parts(url)
    if place is None:
        return ["expected https://HOST, with a port and a path where there are any"]
    faults = []
    if set(url) & set("@?#"):
        # It is not shown: what stands before an @ may be a password.
        faults.append("has to be without user, query and fragment")
    if place.scheme == "http" and not is_loopback(place.hostname or "") and allow_http != "yes":
        faults.append(f"would send the key in the clear: write https://, or set {ALLOW_HTTP}=yes in a network of yours")
    return faults


def _parts(url: str) -> SplitResult | None:
    try:
        place = urlsplit(url)
        sound = place.scheme in ("http", "https") and bool((place.hostname or "").encode("idna")) and place.port != 0
    except ValueError:
        return None
    return place if sound else None


def is_loopback(host: str) -> bool:
    """Whether nobody else can listen on the way to a host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _key(environ: Mapping[str, str], faults: list[Fault]) -> str:
    """The key, or a fault more. No fault says what was given."""
    if KEY in environ and KEY_FILE in environ:
        faults.append(Fault(KEY, f"is given more than once: keep one of {KEY}, {KEY_FILE}"))
        return ""
    if KEY_FILE in environ:
        name, text = KEY_FILE, _content(environ[KEY_FILE], faults)
        if text is None:
            return ""
    elif KEY in environ:
        name, text = KEY, environ[KEY]
    else:
        faults.append(Fault(KEY, f"is not set, and {URL} is: `keys create` makes one on the server"))
        return ""
    if bearer.read(text.strip()) is None:
        words = "is no key: it has the form dsp_…_…, as `keys create` shows it" if text else "is empty"
        faults.append(Fault(name, words))
    return text.strip()


def _content(path: str, faults: list[Fault]) -> str | None:
    try:
        with Path(path).open("rb") as file:
            return file.read(FILE_BYTES_MAX).decode("ascii", "replace")
    except (OSError, ValueError) as fault:
        words = getattr(fault, "strerror", None) or "no such path"
        faults.append(Fault(KEY_FILE, f"the file that it names cannot be read: {words}"))
        return None
