"""Addresses: read as RFC 5322 writes them, strict where a text could mean another mailbox, with clear faults.

Read are a bare address, one in angle brackets with a name before it (quoted or not), comments, and quoted local parts;
domains in any script (IDNA 2008) and local parts in any script (SMTPUTF8). Refused are groups, lists, routes, domain
literals, and everything invisible. No fault ever quotes what it is about.
"""

import re
import unicodedata
from functools import lru_cache

import idna
from msgspec import Struct

from channels.shared.mail.errors import MailFault
from channels.shared.mail.header_encoding import ENCODED_LINE_MAX, no_control, no_surrogate, phrase, quoted

# What RFC 5321 lets a server refuse: octets of the local part, of the domain, of both.
LOCAL_OCTETS_MAX = 64
DOMAIN_OCTETS_MAX = 253
LABEL_OCTETS_MAX = 63
ADDRESS_OCTETS_MAX = 254
# With its name and comments.
TEXT_CHARACTERS_MAX = 1_000
NAME_CHARACTERS_MAX = 320
DOMAINS_CACHED_MAX = 16_384

EXAMPLE = "write one address, like ann@example.org"
# Joiners are part of how some scripts and emoji are spelled; other invisible characters come from copying.
_JOINERS = frozenset("\u200c\u200d")

_DOT_ATOM = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x80-\U0010ffff-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x80-\U0010ffff-]+)*"
)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?").fullmatch
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[<>()@,;:\[\]]|[ \t]+|[^\s"<>()@,;:\[\]]+')
_is_plain_local = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*").fullmatch
_is_dot_atom = _DOT_ATOM.fullmatch
_UNESCAPE = re.compile(r"\\(.)")


class Address(Struct, frozen=True, gc=False):
    """One address. `spec` has its domain in ASCII and its local part as it is written on the wire."""

    spec: str
    domain: str
    name: str = ""

    @property
    def header(self) -> str:
        if not self.name:
            return self.spec
        shown = phrase(self.name)
        last = len(shown) - shown.rfind("\n")
        gap = " " if len("Reply-To: ,") + last + len(self.spec) + len("<>") < ENCODED_LINE_MAX else "\r\n "
        return f"{shown}{gap}<{self.spec}>"

    @property
    def smtputf8(self) -> bool:
        return not self.spec.isascii()


def parse(text: object, field: str) -> Address:
    """Read one address. Nearly all are plain, and known by one look."""
    if not isinstance(text, str):
        raise MailFault(field, f"is not a text; {EXAMPLE}")
    local, _, domain = text.rpartition("@")
    if len(local) <= LOCAL_OCTETS_MAX and len(text) <= ADDRESS_OCTETS_MAX and _is_plain_local(local):
        ascii_domain = _domain(domain)
        if ascii_domain and len(local) + 1 + len(ascii_domain) <= ADDRESS_OCTETS_MAX:
            return Address(f"{local}@{ascii_domain}", ascii_domain)
    return _read(text, field)


def _read(text: str, field: str) -> Address:
    """Read it token by token, and say what is wrong with it."""
    if not text.strip():
        raise MailFault(field, f"is empty; {EXAMPLE}")
    if len(text) > TEXT_CHARACTERS_MAX:
        raise MailFault(field, f"has more than {TEXT_CHARACTERS_MAX} characters; {EXAMPLE}")
    no_control(text, field)
    _no_invisible(text, field)
    tokens = _tokens(text, field)
    if ";" in tokens or (":" in tokens and "<" not in tokens):
        raise MailFault(field, f"is a group or a list of addresses; {EXAMPLE}")
    if "," in tokens:
        raise MailFault(field, "has a comma; write one address only, and a name with a comma in quotes")
    name, spec = _apart(tokens, field)
    local, domain = _spec(spec, field)
    return Address(f"{local}@{domain}", domain, _name(name, field))


def _no_invisible(text: str, field: str) -> None:
    if text.isascii():
        return
    for char in text:
        if char not in _JOINERS and unicodedata.category(char) in {"Cf", "Zl", "Zp"}:
            raise MailFault(field, f"has an invisible character (U+{ord(char):04X}); write it anew by hand")


def _tokens(text: str, field: str) -> list[str]:
    """The tokens of an address, comments left out."""
    tokens: list[str] = []
    position, depth = 0, 0
    while position < len(text):
        if depth and text[position] == "\\":
            position += 2
            continue
        found = None if depth else _TOKEN.match(text, position)
        piece = found[0] if found else text[position]
        position += len(piece)
        if piece == "(":
            depth += 1
        elif piece == ")" and depth:
            depth -= 1
        elif piece == ")" or not (depth or found or piece.isspace()):
            raise MailFault(field, f"has a quote or a parenthesis without its other half; {EXAMPLE}")
        elif not depth:
            tokens.append(piece)
    if depth:
        raise MailFault(field, f"has a parenthesis that is not closed; {EXAMPLE}")
    return tokens


def _apart(tokens: list[str], field: str) -> tuple[list[str], list[str]]:
    """The tokens of the name, and those of the address itself."""
    if "<" not in tokens and ">" not in tokens:
        return [], tokens
    if tokens.count("<") != 1 or tokens.count(">") != 1 or tokens.index(">") < tokens.index("<"):
        raise MailFault(field, "has angle brackets that are not one pair; write it like Ann <ann@example.org>")
    opened, closed = tokens.index("<"), tokens.index(">")
    if any(not token.isspace() for token in tokens[closed + 1 :]):
        raise MailFault(field, "has something behind its angle brackets; write it like Ann <ann@example.org>")
    if ":" in tokens[opened:]:
        raise MailFault(field, f"has a route in its angle brackets; {EXAMPLE}")
    if ":" in tokens[:opened]:
        raise MailFault(field, "has a colon before the address; write no group, and a name with a colon in quotes")
    return tokens[:opened], tokens[opened + 1 : closed]


def _name(tokens: list[str], field: str) -> str:
    name = " ".join("".join(_plain(token) for token in tokens).split())
    if len(name) > NAME_CHARACTERS_MAX:
        raise MailFault(field, f"has a name of more than {NAME_CHARACTERS_MAX} characters; make it shorter")
    return name


def _plain(token: str) -> str:
    return _UNESCAPE.sub(r"\1", token[1:-1]) if token.startswith('"') else token


def _spec(tokens: list[str], field: str) -> tuple[str, str]:
    while tokens and tokens[0].isspace():
        tokens = tokens[1:]
    while tokens and tokens[-1].isspace():
        tokens = tokens[:-1]
    count = tokens.count("@")
    if count != 1:
        trouble = "has more than one @" if count else "has no @"
        raise MailFault(field, f"{trouble}; {EXAMPLE}")
    if any(token.isspace() for token in tokens):
        raise MailFault(field, f"has a space; {EXAMPLE}")
    at = tokens.index("@")
    before, domain = tokens[:at], "".join(tokens[at + 1 :])
    local = _local(before, field)
    name = _domain(domain)
    if not name:
        raise MailFault(field, _why_no_domain(domain))
    if len(local.encode()) + 1 + len(name) > ADDRESS_OCTETS_MAX:
        raise MailFault(field, f"is longer than {ADDRESS_OCTETS_MAX} bytes; check it")
    return local, name


def _local(tokens: list[str], field: str) -> str:
    if len(tokens) == 1 and tokens[0].startswith('"'):
        text = _plain(tokens[0])
        if not text:
            raise MailFault(field, f"has nothing before its @; {EXAMPLE}")
        local = text if _is_dot_atom(text) else quoted(text)
    else:
        local = "".join(tokens)
        if not local:
            raise MailFault(field, f"has nothing before its @; {EXAMPLE}")
        if not _is_dot_atom(local):
            raise MailFault(field, "has a dot or a sign before its @ that may only stand there in quotes; check it")
    if any(char.isspace() and char != " " for char in local):
        raise MailFault(field, f"has a space; {EXAMPLE}")
    if len(local.encode()) > LOCAL_OCTETS_MAX:
        raise MailFault(field, f"has more than {LOCAL_OCTETS_MAX} bytes before its @; check it")
    return local


@lru_cache(maxsize=DOMAINS_CACHED_MAX)
def _domain(text: str) -> str | None:
    """A domain in lower-case ASCII, or None. Nearly all mail goes to few domains, hence the cache."""
    if len(text) > DOMAIN_OCTETS_MAX:
        return None
    name = text.lower()
    if not text.isascii() or "xn--" in name:
        try:
            name = idna.encode(text, uts46=True, std3_rules=True).decode("ascii").lower()
        except (idna.IDNAError, UnicodeError):
            return None
    if len(name) > DOMAIN_OCTETS_MAX:
        return None
    labels = name.split(".")
    return name if all(len(label) <= LABEL_OCTETS_MAX and _LABEL(label) for label in labels) else None


def _why_no_domain(text: str) -> str:
    """The fault of the text after an @."""
    if not text:
        return f"has nothing behind its @; {EXAMPLE}"
    if "[" in text:
        return "has an address in brackets behind its @; write the name of the domain"
    if any(len(label.encode()) > LABEL_OCTETS_MAX for label in text.split(".")):
        return f"has a part of more than {LABEL_OCTETS_MAX} characters between the dots of its domain; check the domain"
    if len(text.encode()) > DOMAIN_OCTETS_MAX:
        return f"has a domain of more than {DOMAIN_OCTETS_MAX} characters; check the domain"
    if not text.isascii():
        return "has a domain with a sign that no domain can have (emoji among them); check the domain"
    return "has a domain that cannot be one; check the part behind its @"


def domain(text: str, field: str) -> str:
    """A domain that was given by itself."""
    no_surrogate(text, field)
    name = _domain(text)
    if name is None:
        raise MailFault(field, "is not the name of a domain; write one, like example.org")
    return name
