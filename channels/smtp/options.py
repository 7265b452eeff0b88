"""The options of the SMTP channel: the server, its security, and the limits of its use."""

import ipaddress
from typing import Annotated, Literal

from msgspec import Meta

from channels.shared.mail.settings import MailSettings

Seconds = Annotated[float, Meta(gt=0, le=3_600)]
# Ports at which TLS begins with the first byte; at all others it is asked for by STARTTLS.
IMPLICIT_TLS_PORTS = frozenset({465})

Tls = Literal["auto", "starttls", "implicit", "off"]


class SmtpOptions(MailSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A server and its limits. How a message is made is in the settings of mail, which stand beside these."""

    host: Annotated[str, Meta(min_length=1, max_length=255)]
    port: Annotated[int, Meta(ge=1, le=65_535)] = 587
    # auto: required, unless the server is on this very machine. Only `off` sends to another one without.
    tls: Tls = "auto"
    # Certificates that are trusted beside the system's: a PEM file, for a server with an authority of its own.
    ca_path: Annotated[str, Meta(max_length=4_096, extra={"expects": "the path of a PEM file"})] = ""
    username: Annotated[str, Meta(max_length=512, extra={"expects": "a user name"})] = ""
    password: Annotated[str, Meta(max_length=4_096, extra={"secret": True, "expects": "a password"})] = ""
    # The name by which we greet; empty: the host's own.
    helo: Annotated[
        str, Meta(max_length=255, pattern=r"^[A-Za-z0-9.:\[\]_-]*\Z", extra={"expects": "the name of a host"})
    ] = ""
    connections: Annotated[int, Meta(ge=1, le=200)] = 10
    # A connection is replaced after so many messages, after such a time, and when it was idle for as long as that:
    # servers close connections that are used without end, and relays behind one name alternate.
    messages_per_connection: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    connection_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 600.0
    idle_seconds: Seconds = 30.0
    connect_seconds_max: Seconds = 10.0
    # One message from its first command to the last answer. With the licence it must fit into call_seconds_max.
    answer_seconds_max: Seconds = 20.0
    # How long a domain rests after its server has said that it is too much.
    throttle_seconds: Seconds = 60.0
    # After so many failed connections in a row nothing is tried for a while; the while doubles up to ten minutes.
    breaker_failures: Annotated[int, Meta(ge=1, le=100)] = 3
    breaker_seconds: Seconds = 30.0
    # For a server that offers them and cannot do them.
    pipelining: bool = True
    chunking: bool = True

    @property
    def security(self) -> Literal["starttls", "implicit", "off"]:
        """How TLS begins, with `auto` decided."""
        if self.tls != "auto":
            return self.tls
        if self.port in IMPLICIT_TLS_PORTS:
            return "implicit"
        return "off" if is_loopback(self.host) else "starttls"


def is_loopback(host: str) -> bool:
    """Whether what goes to a host stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
