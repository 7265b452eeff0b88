"""Properties of the guard: nothing but public addresses, in whichever form they come, and what is allowed by name."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.shared.web.guard import AllowListGuard, Forbidden, Guard, OpenGuard, address_ranges, checked_url, guard_of

PRIVATE = [
    "0.0.0.0",  # noqa: S104 - nothing is bound to it
    "10.1.2.3",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
]
PRIVATE_V6 = [
    "::",
    "::1",
    "::7f00:1",
    "64:ff9b:1::7f00:1",
    "100::1",
    "2001::1",
    "2001:10::1",
    "2001:db8::1",
    "2002:a9fe:a9fe::",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%1",
    "fec0::1",
    "ff02::1",
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "9.255.255.255", "100.63.255.255", "172.32.0.1", "223.255.255.255"]
PUBLIC_V6 = ["2001:4860:4860::8888", "2606:4700::1111", "2a00:1450::1"]


def in_v6(address: str) -> list[str]:
    """An IPv4 address in the forms in which an IPv6 connection reaches it."""
    return [f"::ffff:{address}", f"64:ff9b::{address}"]


@pytest.mark.parametrize("address", [*PRIVATE, *PRIVATE_V6, *(form for one in PRIVATE for form in in_v6(one))])
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert not Guard().allows(ip_address(address))


@pytest.mark.parametrize("address", [*PUBLIC, *PUBLIC_V6, *(form for one in PUBLIC for form in in_v6(one))])
def test_public_addresses_are_allowed(address: str) -> None:
    assert Guard().allows(ip_address(address))


@given(st.ip_addresses(v=4))
def test_no_form_of_an_address_says_something_else_than_the_address(address: IPv4Address) -> None:
    for form in in_v6(str(address)):
        assert Guard().allows(ip_address(form)) == Guard().allows(address)


@given(st.ip_addresses())
def test_nothing_is_let_through_that_python_knows_to_be_private(address: IPv4Address | IPv6Address) -> None:
    if Guard().allows(address) and address not in ip_network("64:ff9b::/96"):
        assert not address.is_private or getattr(address, "ipv4_mapped", None)
        assert not any((address.is_multicast, address.is_loopback, address.is_link_local, address.is_unspecified))


def test_a_range_that_is_named_is_let_through_and_nothing_beside_it() -> None:
    guard = Guard("10.1.0.0/16 127.0.0.1 fd00::/8")
    for address in ("10.1.2.3", "127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::10.1.2.3", "fd12::1", "8.8.8.8"):
        assert guard.allows(ip_address(address))
    for address in ("10.2.0.1", "127.0.0.2", "::ffff:127.0.0.2", "fe80::1", "169.254.169.254"):
        assert not guard.allows(ip_address(address))


def test_without_tls_only_what_is_named_is_let_through() -> None:
    assert isinstance(guard_of("http://a.example/", "10.0.0.0/8"), AllowListGuard)
    assert type(guard_of("https://a.example/", "")) is Guard
    assert not guard_of("http://a.example/", "10.0.0.0/8").allows(ip_address("8.8.8.8"))
    assert guard_of("http://a.example/", "10.0.0.0/8").allows(ip_address("::ffff:10.0.0.1"))
    assert not guard_of("http://a.example/", "").allows(ip_address("8.8.8.8"))


def test_a_host_that_the_configuration_names_may_be_anywhere() -> None:
    assert OpenGuard().allows(ip_address("127.0.0.1"))


def test_no_socket_is_made_for_what_is_refused() -> None:
    with pytest.raises(Forbidden):
        Guard().socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80)))
    with pytest.raises(Forbidden):
        Guard().socket((socket.AF_INET6, socket.SOCK_STREAM, 0, "", ("::ffff:169.254.169.254", 80, 0, 0)))
    Guard().socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("8.8.8.8", 80))).close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "ftp://h/",
        "file:///etc/passwd",
        "https://",
        "https://u:p@h/",
        "https://u@h/",
        "http://h:0/",
        "//h/",
        "https://[::1/",
    ],
)
def test_invalid_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^it ") as caught:
        checked_url(url)
    assert "u:p" not in str(caught.value)


def test_ranges_are_what_stands_between_spaces() -> None:
    assert address_ranges("") == ()
    assert list(map(str, address_ranges(" 10.0.0.0/8\n::1 "))) == ["10.0.0.0/8", "::1/128"]
    with pytest.raises(ValueError, match="host bits"):
        address_ranges("10.0.0.1/8")
