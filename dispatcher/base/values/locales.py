"""Locales: the names of languages, in the one form in which they are kept."""

import re
from collections.abc import Collection

# As BCP 47 has them: a language, then script, region and the like.
LOCALE = r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8}){0,6}"
_FORM = re.compile(LOCALE)
# Where a template names no language: then it has only this one.
UNNAMED = "default"
# What is longer is no locale: no more of it is looked at.
ASKED_MAX = 100


def canonical(text: str) -> str | None:
    """A locale as it is kept (`pt_br` is `pt-BR`); None for what is none."""
    if not _FORM.fullmatch(text):
        return None
    language, *others = text.replace("_", "-").split("-")
    return "-".join([language.lower(), *map(_piece, others)])


def _piece(piece: str) -> str:
    if piece.isalpha() and len(piece) == 2:  # noqa: PLR2004 - a region
        return piece.upper()
    if piece.isalpha() and len(piece) == 4:  # noqa: PLR2004 - a script
        return piece.title()
    return piece.lower()


def nearest(asked: str | None, locales: Collection[str], default: str) -> str:
    """The one of these locales that comes nearest: itself, else without its last pieces, else the default.

    Deliveries are frozen by the schema's function `nearest_locale`, which decides alike.
    """
    known = {locale.lower(): locale for locale in locales}
    rest = (asked or "")[:ASKED_MAX].replace("_", "-").lower()
    while rest:
        if rest in known:
            return known[rest]
        rest = rest.rpartition("-")[0]
    return default
