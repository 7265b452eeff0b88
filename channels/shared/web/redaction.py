"""A provider's own words, redacted: what it says about a message may repeat the message."""

import re
from collections.abc import Iterable, Mapping

# Enough for any of its explanations; the rest of a page of HTML is of no use.
CHARACTERS_MAX = 240
HIDDEN = "…"

_TOKEN = re.compile(r"[^\W_]+")
# A word with everything that hangs on to it by an @: an address, whole.
_ADDRESS = re.compile(r"\S*@\S*")
_HIDDEN_RUN = re.compile(rf"{HIDDEN}(?:\W*{HIDDEN})+")
# What an API says about fields, accounts and limits. These words give nothing away when a message has them too; any
# other word that occurs in the message is hidden.
_PLAIN = frozenset(
    _TOKEN.findall(
        """
        a about above access account add address addresses again all allowed already an and another any api are array
        as at attached attachment attachments authorization be been before between but by bytes can cannot cc bcc
        character characters check content could day daily define domain domains does doesn email emails empty error
        exceed exceeded exceeds expected false field fields file filename follow following for format found from full
        has have header headers html id if in instead invalid is issue it json key large least length limit list long
        many max maximum message method min missing month monthly more must name needs no non not null number object of
        one only or other own parameter parameters path payload permission please plan property provide provided quota
        quotas rate reached received recipient recipients reply request requests required restricted same scheduled
        security see send sender sending sent set short should size string subject support supported t tag tags team
        template test testing text than that the this to too true type unable undefined unknown unsupported update
        upgrade url use used valid value values variables verified verify was with without you your
        """
    )
)


def redacted(words: object, message: Iterable[str], known: str = "") -> str:
    """The answer on one line and bounded, without any word of the message but plain ones and those of `known`."""
    if not isinstance(words, str):
        return ""
    # Bounded before anything looks at it, and by characters that can be shown.
    text = "".join(character if character.isprintable() else " " for character in words[:CHARACTERS_MAX])
    text = _ADDRESS.sub(HIDDEN, " ".join(text.split()))
    haystack = "\n".join(message).casefold()
    spared = _PLAIN | {token.casefold() for token in _TOKEN.findall(known)}

    def judged(match: "re.Match[str]") -> str:
        token = match[0].casefold()
        return match[0] if token in spared or token not in haystack else HIDDEN

    return _HIDDEN_RUN.sub(HIDDEN, _TOKEN.sub(judged, text))


def texts(*values: object, names: bool = True) -> list[str]:
    """Every text in values as JSON has them, their numbers and, where asked for, the names of their members."""
    found: list[str] = []
    waiting = list(values)
    while waiting:
        match waiting.pop():
            case str() as text:
                found.append(text)
            case Mapping() as members:
                found.extend(map(str, members) if names else ())
                waiting.extend(members.values())
            case list() | tuple() as items:
                waiting.extend(items)
            case bool() | int() | float() as number:
                found.append(str(number))
            case _:
                pass
    return found
