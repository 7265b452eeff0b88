"""Headers as they go over the wire: folded lines, encoded words (RFC 2047), and phrases before an address."""

import re
from binascii import b2a_base64

from channels.shared.mail.errors import MailFault

# A line should have 78 characters at the most, and one with an encoded word 76 (RFC 5322, RFC 2047).
LINE_MAX = 78
ENCODED_LINE_MAX = 76
# A word that cannot be broken may make its line longer, up to this: 998 is what a server has to take.
WORD_MAX = 900
HEADER_CHARACTERS_MAX = 2_000

# Q is for texts that are nearly ASCII, B for the others. What is left as it is, is what a phrase allows.
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!*+-/")
_Q = {byte: chr(byte) if byte in _PLAIN else "_" if byte == ord(" ") else f"={byte:02X}" for byte in range(256)}
_OPEN_Q, _OPEN_B, _CLOSE = "=?utf-8?q?", "=?utf-8?b?", "?="
_FRAME = len(_OPEN_Q) + len(_CLOSE)

_WORDS = re.compile(r" *[^ ]+")
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]+").fullmatch
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]").search


def one_line(text: str, field: str) -> str:
    """A text without what cannot stand in a header. Line breaks and tabs become a space each, with the blanks around
    them: templates end in a line break, and are wrapped. A control character is refused."""
    if len(text) > HEADER_CHARACTERS_MAX:
        raise MailFault(field, f"has more than {HEADER_CHARACTERS_MAX} characters; make it shorter")
    if not (text.isascii() and text.isprintable()):
        text = " ".join(filter(None, (line.strip(" ") for line in text.replace("\t", " ").splitlines())))
        no_control(text, field)
    return text.strip(" ")


def no_control(text: str, field: str) -> None:
    """Refuse control characters, and halves of surrogate pairs, which no encoding has."""
    if found := _CONTROL(text):
        raise MailFault(field, f"has a control character (U+{ord(found[0]):04X}); remove it")
    no_surrogate(text, field)


def no_surrogate(text: str, field: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MailFault(field, "has half of a surrogate pair, which is no character; remove it") from None


def unstructured(name: str, text: str) -> str:
    """The value of a header that is free text, folded behind its name. It has been made one line before."""
    if not text.isascii() or "=?" in text:
        return encoded(text, ENCODED_LINE_MAX - len(name) - 2)
    return text if len(name) + 2 + len(text) <= LINE_MAX else _folded(text, LINE_MAX - len(name) - 2)


def _folded(text: str, room: int) -> str:
    """Break before blanks, so that unfolding gives the same text. No line is blank, for each has a word."""
    lines: list[str] = []
    line = ""
    for word in _WORDS.findall(text):
        if len(word) > WORD_MAX:
            return encoded(text, room)
        if line and len(line) + len(word) > room:
            lines.append(line)
            line, room = word, LINE_MAX
        else:
            line += word
    return "\r\n".join([*lines, line])


def encoded(text: str, room: int) -> str:
    """A text as encoded words, with so much room on the first line. A character is never split between two words, and
    the breaks between them are not part of the text."""
    utf8 = text.encode()
    in_q = utf8.decode("latin-1").translate(_Q)
    if len(in_q) * 3 <= len(utf8) * 4:
        if len(in_q) + _FRAME <= room:
            return f"{_OPEN_Q}{in_q}{_CLOSE}"
        pieces = _pieces([char.encode().decode("latin-1").translate(_Q) for char in text], room, ENCODED_LINE_MAX - 1)
        return "\r\n ".join(f"{_OPEN_Q}{piece}{_CLOSE}" for piece in pieces)
    first, following = _base64_room(room), _base64_room(ENCODED_LINE_MAX - 1)
    if len(utf8) <= first:
        return _b_word(utf8.decode("latin-1"))
    pieces = _pieces([char.encode().decode("latin-1") for char in text], first + _FRAME, following + _FRAME)
    return "\r\n ".join(map(_b_word, pieces))


def _base64_room(room: int) -> int:
    return (room - _FRAME) // 4 * 3


def _b_word(piece: str) -> str:
    return f"{_OPEN_B}{b2a_base64(piece.encode('latin-1'), newline=False).decode()}{_CLOSE}"


def _pieces(characters: list[str], room: int, following: int) -> list[str]:
    """Whole characters in pieces that fit their line."""
    pieces: list[str] = []
    piece = ""
    for character in characters:
        if piece and len(piece) + len(character) + _FRAME > room:
            pieces.append(piece)
            piece, room = "", following
        piece += character
    return [*pieces, piece]


def phrase(name: str) -> str:
    """A display name: words, a quoted string, or encoded words where it is long or not ASCII."""
    # The longest header name before it, and what stays readable on one line.
    room = ENCODED_LINE_MAX - len("Reply-To: ")
    if not name.isascii() or "=?" in name or len(name) > room:
        return encoded(name, room)
    return name if _ATOMS(name) and "  " not in name else quoted(name)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
