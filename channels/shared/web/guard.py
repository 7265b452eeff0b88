"""The guard: which addresses an outgoing URL may lead to, judged on the very address that is connected to.

A name is resolved by its owner, and may lead to another place each time. So nothing is judged before the
resolution, nor twice: what makes the socket for one address judges that address, whether it stood in the URL, came
from a resolver, or hides an IPv4 address in an IPv6 one.
"""

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp import AddrInfoType
from yarl import URL

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The registry of special addresses, spelled out: `ipaddress.is_global` differs from one Python to the next, and takes
# multicast, IETF's own range and addresses inside of others for global.
_DENIED_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",
            "100.64.0.0/10",  # between a provider and its customers; clouds have services there
            "127.0.0.0/8",
            "168.63.129.16/32",  # public by its number, and the host of every machine in Azure
            "169.254.0.0/16",  # link-local, and the metadata of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments, and Oracle's metadata
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
# All that is global in IPv6 is in here, without what follows.
_GLOBAL_V6 = IPv6Network("2000::/3")
_DENIED_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: whatever IPv4 address is inside
            "3fff::/20",  # documentation
        ),
    )
)
# Where DNS64 is used, every IPv4 address comes in this form: it is judged by what is inside.
_NAT64 = IPv6Network("64:ff9b::/96")


class Forbidden(OSError):  # noqa: N818 - what the address is
    """The URL leads to an address that it may not lead to."""


class Guard:
    """Judges addresses. `allowed` are ranges that may be connected to although they are not public."""

    def __init__(self, allowed: str = "") -> None:
        self._allowed = address_ranges(allowed)

    def socket(self, info: AddrInfoType) -> socket.socket:
        """A socket for one address, where it may be connected to: Forbidden otherwise."""
        family, kind, protocol, _, where = info
        if not self.allows(ip_address(str(where[0]))):
            # The same words for each address: several of them become one error.
            raise Forbidden("the address is not a public one")
        return socket.socket(family=family, type=kind, proto=protocol)

    def allows(self, address: Address) -> bool:
        """Whether an address may be connected to."""
        inside = _inside(address)
        return self.names(address) or self.names(inside) or _public(inside)

    def names(self, address: Address) -> bool:
        """Whether an address is in one of the ranges that are allowed by name."""
        return any(address in network for network in self._allowed)


class AllowListGuard(Guard):
    """Lets through the allowed ranges only: for URLs without TLS, where secrets can be read on the way."""

    def allows(self, address: Address) -> bool:
        return self.names(address) or self.names(_inside(address))


class OpenGuard(Guard):
    """Lets everything through: for a provider's one host, which is named in the configuration."""

    def allows(self, address: Address) -> bool:  # noqa: ARG002 - whichever it is
        return True


def guard_of(url: str, allowed: str) -> Guard:
    return Guard(allowed) if checked_url(url).scheme == "https" else AllowListGuard(allowed)


def address_ranges(text: str) -> tuple[Network, ...]:
    """Ranges of addresses with spaces between them. ValueError for anything else."""
    return tuple(ip_network(one) for one in text.split())


def checked_url(url: str) -> URL:
    """A URL that may be called, if its addresses may. ValueError says what is wrong with it, without repeating it."""
    try:
        parsed = URL(url)
        port = parsed.port
    except ValueError:
        raise ValueError("it is no URL") from None
    if parsed.scheme not in ("http", "https") or not parsed.host or not port:
        raise ValueError("it begins with neither https:// nor http:// and a host")
    if parsed.user is not None or parsed.password is not None:
        raise ValueError("it carries a login")
    return parsed


def _inside(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it does; else the address."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else address


def _public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _DENIED_V4)
    return address in _GLOBAL_V6 and not any(address in network for network in _DENIED_V6)
