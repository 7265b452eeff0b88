"""The length of a post as Mastodon counts it: in characters that are seen, a link as 23, a mention without its domain.

It counts by Unicode's grapheme clusters; here marks, joiners and the like are left out, which comes to the same or to
less. So nothing is refused that the instance would take, and it has the last word.
"""

import re
import unicodedata

LINK_CHARACTERS = 23
# Links are looked for in no longer text: that far beyond any limit it does not matter.
SEARCHED_CHARACTERS_MAX = 200_000

_LINK = re.compile(r"https?://(?:[\w-]+\.)+[^\W\d_]{2,}(?::\d+)?(?:[/?#]\S*)?", re.IGNORECASE)
_MENTION = re.compile(r"(?<![\w/])(@\w+)@[\w.-]+\w")
_JOINER = "\u200d"
# Characters that belong to the one before: the joiners, skin tones, tags of flags, vowels and finals of Hangul.
_EXTENDS = re.compile("[\u200c\u200d\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\u1160-\u11ff]")
_FLAG_HALF = re.compile("[\U0001f1e6-\U0001f1ff]")


def length_of(text: str, spoiler_text: str = "") -> int:
    """How many characters of the limit a post takes, at least."""
    if len(text) > SEARCHED_CHARACTERS_MAX:
        return len(text)
    counted = _MENTION.sub(r"\1", _LINK.sub("x" * LINK_CHARACTERS, text))
    return _seen(spoiler_text) + _seen(counted)


def too_long(length: int, characters_max: int) -> str:
    return (
        f"is too long: {length} characters, and the instance takes {characters_max} (characters_max), with the spoiler"
        " text, and a link counted as 23; shorten it"
    )


def _seen(text: str) -> int:
    text = text.replace("\r\n", "\n")
    if text.isascii():
        return len(text)
    count = 0
    before = ""
    for character in text:
        if not (unicodedata.category(character)[0] == "M" or _EXTENDS.match(character) or before == _JOINER):
            count += 1
        before = character
    # Two halves are one flag.
    return count - len(_FLAG_HALF.findall(text)) // 2
