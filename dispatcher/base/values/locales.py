"""Locales: names of languages in one normal form."""

import re
from collections.abc import Collection

# As BCP 47 has them: a language, then script, region and the like.
LOCALE = r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8}){0,6}"
_FORM = re.compile(LOCALE)
# Where a template names no language: then it has only this one.
UNNAMED = "default"
# Longer texts are cut.
ASKED_MAX = 100


def canonical(text: str) -> str | None:
    """Return the normal form of a locale (`pt_br` is `pt-BR`); None for a text that is not a locale."""
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
    """Return the nearest of these locales: itself, else without its last parts, else the default.

    Deliveries are frozen by the schema's function `nearest_locale`, which decides alike.
    """
    known = {locale.lower(): locale for locale in locales}
    rest = (asked or "")[:ASKED_MAX].replace("_", "-").lower()
    while rest:
        if rest in known:
            return known[rest]
        rest = rest.rpartition("-")[0]
    return default
