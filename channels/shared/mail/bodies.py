"""Texts as body parts: line ends made CRLF, and an encoding that needs nothing of the server.

Nothing bare is left: a lone CR or LF of a text becomes a CRLF, so that no server sees an end of the message where there
is none. What is ASCII in lines that a server must take goes as it is; everything else is encoded.
"""

from binascii import b2a_base64, b2a_qp

from channels.shared.mail.errors import MailFault
from channels.shared.mail.header_encoding import no_surrogate

# What a server has to take (RFC 5321), without the CRLF.
LINE_OCTETS_MAX = 998
# What RFC 2045 allows a line of base64: 76 characters, made of 57 bytes.
ENCODED_LINE_MAX = 76
# Whole lines of it that are encoded in one go: beside an event loop none of its steps may last.
PIECE_OCTETS = 57 * 4_096
# Every boundary has it, and neither base64 nor quoted-printable can: what is sent as it is must not have it either.
BOUNDARY_MARK = "=_"

_HIGH = bytes(range(128, 256))
_SEVEN_BIT = "; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n\r\n"
_QUOTED = "; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
_BASE64 = "; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n"


def text_part(kind: str, text: str, field: str) -> str:
    """A text with its own headers, from its type to its last CRLF."""
    if "\0" in text:
        raise MailFault(field, "has a NUL character; remove it")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.endswith("\n"):
        text += "\n"
    if not text.isascii():
        no_surrogate(text, field)
    elif BOUNDARY_MARK not in text and (len(text) <= LINE_OCTETS_MAX or _longest(text) <= LINE_OCTETS_MAX):
        lines = text.replace("\n", "\r\n")
        return f"Content-Type: {kind}{_SEVEN_BIT}{lines}"
    octets = text.replace("\n", "\r\n").encode()
    # Quoted-printable makes three bytes of each that is not ASCII, base64 four of every three.
    if (len(octets) - len(octets.translate(None, _HIGH))) * 6 > len(octets):
        return f"Content-Type: {kind}{_BASE64}{base64_lines(octets)}"
    return f"Content-Type: {kind}{_QUOTED}{b2a_qp(octets, istext=True).decode('ascii')}"


def _longest(text: str) -> int:
    return max(map(len, text.split("\n")))


def base64_lines(octets: bytes) -> str:
    """Base64 in lines, the last one ended too."""
    pieces = [_base64_piece(octets[start : start + PIECE_OCTETS]) for start in range(0, len(octets), PIECE_OCTETS)]
    return "".join(pieces)


def _base64_piece(octets: bytes) -> str:
    line = b2a_base64(octets, newline=False).decode("ascii")
    lines = [line[start : start + ENCODED_LINE_MAX] for start in range(0, len(line), ENCODED_LINE_MAX)]
    return "\r\n".join([*lines, ""])
