"""The address of a server that commands call in place of a database, as the environment names it.

DISPATCHER_URL and DISPATCHER_KEY; the key may be in a file that DISPATCHER_KEY_FILE names. They go together: a command
that was meant for a server never works on a database by mistake, nor the other way round.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from dispatcher.base.errors import ConfigError, Fault
from dispatcher.http import bearer

URL, KEY, KEY_FILE, ALLOW_HTTP = (f"DISPATCHER_{name}" for name in ("URL", "KEY", "KEY_FILE", "ALLOW_HTTP"))
URL_CHARACTERS_MAX = 1_000
# A key has 60; reading a device would never end.
FILE_BYTES_MAX = 4_096


class Address(Struct, frozen=True):
    """The URL of a server, and the key for it. It does not print its key."""

    url: str
    key: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


def read(environ: Mapping[str, str]) -> Address | None:
    """Return the address, or None where none is named. Raises ConfigError with all faults."""
    given = [name for name in (URL, KEY, KEY_FILE) if name in environ]
    if not given:
        return None
    if URL in environ:
        faults = [Fault(URL, words) for words in _url_faults(environ[URL], environ.get(ALLOW_HTTP))]
    else:
        faults = [Fault(URL, f"is not set, and {given[0]} is: set both, or none of them")]
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
        return ["has characters that a URL cannot have"]
    try:
        parts = urlsplit(url)
        is_sound = bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:
        parts, is_sound = urlsplit(""), False
    if not is_sound or parts.scheme not in ("http", "https"):
        return ["expected https://HOST, with a port and a path where there are any"]
    faults = []
    if set(url) & set("@?#"):
        # It is not shown: before an @ there may be a password.
        faults.append("has to be without user, query and fragment")
    if parts.scheme == "http" and not is_loopback(parts.hostname or "") and allow_http != "yes":
        faults.append(f"would send the key in the clear: write https://, or set {ALLOW_HTTP}=yes in a private network")
    return faults


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _key(environ: Mapping[str, str], faults: list[Fault]) -> str:
    """Return the key, or add a fault, which never shows the key."""
    name, text = KEY, environ.get(KEY)
    if text is not None and KEY_FILE in environ:
        faults.append(Fault(KEY, f"is given more than once: keep one of {KEY}, {KEY_FILE}"))
        return ""
    if KEY_FILE in environ:
        try:
            with Path(environ[KEY_FILE]).open("rb") as file:
                name, text = KEY_FILE, file.read(FILE_BYTES_MAX).decode("ascii", "replace")
        except (OSError, ValueError) as fault:
            words = getattr(fault, "strerror", None) or "no such path"
            faults.append(Fault(KEY_FILE, f"the file that it names cannot be read: {words}"))
            return ""
    if text is None:
        faults.append(Fault(KEY, f"is not set, and {URL} is: `keys create` makes one on the server"))
    elif bearer.read(text.strip()) is None:
        faults.append(Fault(name, "is not a key: use dsp_…_…, as `keys create` shows it" if text else "is empty"))
    return (text or "").strip()
