"""Attachments and inline images: what the options name, checked, encoded, and cached."""

import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from channels.shared.mail.bodies import base64_lines
from channels.shared.mail.errors import MailFault
from channels.shared.mail.header_encoding import no_control, quoted

NAME_CHARACTERS_MAX = 200
TYPE_CHARACTERS_MAX = 200
# The same logo goes with every message of a campaign: what was encoded is cached, up to so many characters.
CACHED_CHARACTERS_MAX = 32 * 1024 * 1024
# A line of a file name that is not ASCII.
SEGMENT_MAX = 60

_WORD = r"[A-Za-z0-9!#$&^_.+-]+"
_TYPE = re.compile(rf'({_WORD})/{_WORD}(?:; ?{_WORD}=(?:{_WORD}|"[A-Za-z0-9 ./:=_+-]*"))*').fullmatch
_CID = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,100}(?:@[A-Za-z0-9.-]{1,100})?").fullmatch
_DEFAULT_TYPE = "application/octet-stream"
# The system's own table differs from one machine to the next, and the same delivery has to be the same bytes.
_TYPES = {
    "csv": "text/csv",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "gif": "image/gif",
    "html": "text/html",
    "ics": "text/calendar",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "pdf": "application/pdf",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "webp": "image/webp",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "application/xml",
    "zip": "application/zip",
}

Disposition = Literal["attachment", "inline"]


class Files:
    """Makes the parts of files. Encoded contents are cached, those used last."""

    def __init__(self, files_max: int, bytes_max: int) -> None:
        self._files_max = files_max
        self._bytes_max = bytes_max
        self._encoded: OrderedDict[str | bytes, str] = OrderedDict()
        self._cached = 0

    def parts(self, given: object, disposition: Disposition) -> list[str]:
        """The parts of one option, each from its type to its last CRLF."""
        parts: list[str] = []
        cids: set[str] = set()
        size = 0
        for field, one in each(given, disposition, self._files_max):
            heads = [f"Content-Type: {media_type(one, field)}\r\n", _disposition(one, disposition, field)]
            if disposition == "inline":
                heads.append(f"Content-ID: <{content_id(one.get('cid'), cids, field)}>\r\n")
            content = self._content(one, field)
            size += len(content)
            if size > self._bytes_max:
                raise MailFault(field, f"is too large: a message has {self._bytes_max} bytes at the most; link to it")
            parts.append("".join([*heads, "Content-Transfer-Encoding: base64\r\n\r\n", content]))
        return parts

    def _content(self, one: Mapping[str, Any], field: str) -> str:
        content = given_content(one, field)
        # Base64 makes four bytes of three; far past the bound nothing is encoded at all.
        if len(content) > self._bytes_max:
            raise MailFault(field, f"is too large: a message has {self._bytes_max} bytes at the most; link to it")
        if content in self._encoded:
            self._encoded.move_to_end(content)
            return self._encoded[content]
        encoded = base64_lines(content if isinstance(content, bytes) else decoded(content, field))
        self._encoded[content] = encoded
        self._cached += len(content) + len(encoded)
        while self._cached > CACHED_CHARACTERS_MAX:
            old, gone = self._encoded.popitem(last=False)
            self._cached -= len(old) + len(gone)
        return encoded


def each(given: object, disposition: Disposition, files_max: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The files of one option, each with the name of its field."""
    option = "options.attachments" if disposition == "attachment" else "options.inline"
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise MailFault(option, "is not a list; write it as one, with an object for each file")
    if len(given) > files_max:
        raise MailFault(option, f"has more than {files_max} files; leave some out, or link to them")
    for index, one in enumerate(given):
        if not isinstance(one, Mapping):
            raise MailFault(f"{option}[{index}]", "is not an object; give it a name, a type and its content")
        yield f"{option}[{index}]", one


def given_content(one: Mapping[str, Any], field: str) -> str | bytes:
    """The content of a file: a text in base64, or the bytes of a stored object."""
    content = one.get("content")
    if content is None:
        words = (
            "names a stored object that was not loaded; put its content here"
            if "object" in one
            else "is missing; write it in base64"
        )
        raise MailFault(f"{field}.object" if "object" in one else f"{field}.content", words)
    if not isinstance(content, str | bytes):
        raise MailFault(f"{field}.content", "is not a text in base64; write it as one")
    return content


def decoded(content: str, field: str) -> bytes:
    try:
        return a2b_base64("".join(content.split()).encode("ascii"), strict_mode=True)
    except (NotBase64, UnicodeEncodeError):
        raise MailFault(f"{field}.content", "is not base64; encode the file again") from None


def media_type(one: Mapping[str, Any], field: str) -> str:
    """The media type of a file: as given, or by the ending of its name."""
    given = one.get("type")
    if given is None:
        name = one.get("name")
        ending = name.rpartition(".")[2].lower() if isinstance(name, str) else ""
        return _TYPES.get(ending, _DEFAULT_TYPE)
    found = _TYPE(given) if isinstance(given, str) and len(given) <= TYPE_CHARACTERS_MAX else None
    if not found:
        raise MailFault(f"{field}.type", "is not a media type; write one, like application/pdf")
    if found[1].lower() in {"multipart", "message"}:
        raise MailFault(f"{field}.type", f"cannot be a multipart or a message; use {_DEFAULT_TYPE}")
    return str(given)


def _disposition(one: Mapping[str, Any], disposition: Disposition, field: str) -> str:
    name = file_name(one, disposition, field)
    if name is None:
        return f"Content-Disposition: {disposition}\r\n"
    return f"Content-Disposition: {disposition};\r\n {_name_parameter(name)}\r\n"


def file_name(one: Mapping[str, Any], disposition: Disposition, field: str) -> str | None:
    """The name of a file, which an inline image may leave out."""
    name = one.get("name")
    if name is None:
        if disposition == "attachment":
            raise MailFault(f"{field}.name", "is missing; give the file a name")
        return None
    if not isinstance(name, str) or not name.strip():
        raise MailFault(f"{field}.name", "is empty, or no text; give the file a name")
    if len(name) > NAME_CHARACTERS_MAX:
        raise MailFault(f"{field}.name", f"has more than {NAME_CHARACTERS_MAX} characters; make it shorter")
    no_control(name, f"{field}.name")
    if "/" in name or "\\" in name:
        raise MailFault(f"{field}.name", "has a slash; write the name without its folder")
    return name.strip()


def _name_parameter(name: str) -> str:
    """As a parameter: quoted where it is ASCII, by RFC 2231 in segments where it is not."""
    if name.isascii() and "=?" not in name:
        return f"filename={quoted(name)}"
    escaped = quote(name, safe="")
    if len(escaped) <= SEGMENT_MAX:
        return f"filename*=utf-8''{escaped}"
    pieces = ["utf-8''"]
    for character in name:
        # A character is not split: some readers decode each segment by itself.
        one = quote(character, safe="")
        if len(pieces[-1]) + len(one) > SEGMENT_MAX:
            pieces.append("")
        pieces[-1] += one
    return ";\r\n ".join(f"filename*{index}*={piece}" for index, piece in enumerate(pieces))


def content_id(cid: object, seen: set[str], field: str) -> str:
    """The id by which an html names an inline image."""
    if not isinstance(cid, str) or not _CID(cid):
        raise MailFault(f"{field}.cid", "is not a content id; write what the html has behind its `cid:`, like logo")
    if cid in seen:
        raise MailFault(f"{field}.cid", "is there twice; each image has its own")
    seen.add(cid)
    return cid
