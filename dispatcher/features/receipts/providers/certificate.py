"""RSA keys of certificates, and the check of their signatures: RSASSA-PKCS1-v1_5 (RFC 8017).

Certificates are configured, hence trusted: only their key is read. Checks with a public key need no constant time.
"""

import hashlib
import re
from base64 import b64decode
from binascii import Error
from typing import Literal

from msgspec import Struct

Digest = Literal["sha1", "sha256"]

KEY_BITS_MIN = 2_048
KEY_BITS_MAX = 8_192
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----")
_INTEGER, _BITS, _OID, _SEQUENCE, _VERSION = 0x02, 0x03, 0x06, 0x30, 0xA0
_LONG, _LENGTH_BYTES_MAX = 0x80, 4
_RSA = bytes.fromhex("2a864886f70d010101")
# Where the key stands in a certificate: behind its number, algorithm, issuer, validity and subject.
_FIELDS_BEFORE_THE_KEY = 5
# The prefix of a digest names its algorithm.
_DIGEST_INFO: dict[Digest, bytes] = {
    "sha1": bytes.fromhex("3021300906052b0e03021a05000414"),
    "sha256": bytes.fromhex("3031300d060960864801650304020105000420"),
}


class Key(Struct, frozen=True):
    """A public key."""

    modulus: int
    exponent: int

    def has_signed(self, data: bytes, signature: bytes, digest: Digest) -> bool:
        """Whether this key made this signature of the data: the expected block is built, and compared."""
        size = (self.modulus.bit_length() + 7) // 8
        number = int.from_bytes(signature, "big")
        if len(signature) != size or number >= self.modulus:
            return False
        ending = _DIGEST_INFO[digest] + hashlib.new(digest, data, usedforsecurity=False).digest()
        expected = b"\0\1" + b"\xff" * (size - len(ending) - 3) + b"\0" + ending
        return pow(number, self.exponent, self.modulus).to_bytes(size, "big") == expected


def keys(pem: str) -> list[Key]:
    """Return the keys of concatenated certificates. Raises ValueError for one that cannot be used."""
    try:
        found = [_key(b64decode("".join(body.split()), validate=True)) for body in _PEM.findall(pem)]
    except (Error, IndexError) as fault:
        raise ValueError("it is no certificate") from fault
    if not found:
        raise ValueError("it has no certificate")
    return found


def _key(der: bytes) -> Key:
    (_, certificate), _ = _element(der, 0)
    (_, signed), _ = _element(certificate, 0)
    at = _element(signed, 0)[1] if signed[0] == _VERSION else 0
    for _ in range(_FIELDS_BEFORE_THE_KEY):
        at = _element(signed, at)[1]
    algorithm, bits = _elements(_of(_SEQUENCE, _element(signed, at)[0]))[:2]
    if _elements(_of(_SEQUENCE, algorithm))[0] != (_OID, _RSA):
        raise ValueError("its key is not RSA")
    packed = _of(_BITS, bits)
    modulus, exponent = (
        int.from_bytes(_of(_INTEGER, one), "big") for one in _elements(_of(_SEQUENCE, _element(packed, 1)[0]))
    )
    if not KEY_BITS_MIN <= modulus.bit_length() <= KEY_BITS_MAX or not 2 < exponent < 1 << 32:  # noqa: PLR2004 - 1 and 2 sign anything
        raise ValueError("its key is too short or too long")
    return Key(modulus, exponent)


_Element = tuple[int, bytes]


def _of(tag: int, element: _Element) -> bytes:
    if element[0] != tag:
        raise ValueError("it is no certificate")
    return element[1]


def _elements(data: bytes) -> list[_Element]:
    found, at = [], 0
    while at < len(data):
        element, at = _element(data, at)
        found.append(element)
    return found


def _element(data: bytes, at: int) -> tuple[_Element, int]:
    """One element of DER, and where the next one begins."""
    tag, length = data[at], data[at + 1]
    start = at + 2
    if length >= _LONG:
        count = length - _LONG
        if not 0 < count <= _LENGTH_BYTES_MAX:
            raise ValueError("it is no certificate")
        length = int.from_bytes(data[start : start + count], "big")
        start += count
    if start + length > len(data):
        raise ValueError("it is no certificate")
    return (tag, data[start : start + length]), start + length
