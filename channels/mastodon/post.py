"""A post as Mastodon takes it: one JSON object, the same for every attempt but for the numbers of its media."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from channels.contract import Envelope
from channels.mastodon.length import length_of, too_long
from channels.mastodon.options import LANGUAGE, VISIBILITIES, MastodonOptions
from channels.shared.web.post_channel import Unsendable, encoded

_is_language = re.compile(LANGUAGE).fullmatch
_encode = msgspec.json.Encoder(order="deterministic").encode


def body_of(envelope: Envelope, options: MastodonOptions, media: Sequence[str]) -> bytes:
    """The request for one envelope. Unsendable names the field and what to change."""
    parts = envelope.parts
    name = "body" if "body" in parts else "text"
    text = parts.get(name, "").strip()
    if not text and not media:
        raise Unsendable("body: is missing or empty; write a text, or attach a picture")
    encoded(text, name)
    fields: dict[str, object] = {"status": text, "visibility": _visibility(envelope.options, options)}
    spoiler = _text(envelope.options, "spoiler_text")
    if spoiler:
        fields["spoiler_text"] = spoiler
    if language := _language(envelope.options, options):
        fields["language"] = language
    if media:
        fields["media_ids"] = list(media)
    if envelope.options.get("sensitive") is True:
        fields["sensitive"] = True
    if (length := length_of(text, spoiler)) > options.characters_max:
        raise Unsendable(f"{name}: {too_long(length, options.characters_max)}")
    return _encode(fields)


def _visibility(given: Mapping[str, Any], options: MastodonOptions) -> str:
    visibility = given.get("visibility", options.visibility)
    if not isinstance(visibility, str) or visibility not in VISIBILITIES:
        raise Unsendable(f"options.visibility: is none of {', '.join(VISIBILITIES)}; write one of them")
    return visibility


def _language(given: Mapping[str, Any], options: MastodonOptions) -> str:
    language = _text(given, "language")
    if language and not _is_language(language):
        raise Unsendable("options.language: is not the code of a language, such as en or pt-BR; write one")
    return language or options.language


def _text(given: Mapping[str, Any], name: str) -> str:
    text = given.get(name) or ""
    if not isinstance(text, str):
        raise Unsendable(f"options.{name}: is not a text; write one")
    encoded(text, f"options.{name}")
    return text
