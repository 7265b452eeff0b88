"""Media of posts: uploaded before the post, and known until it is made.

An upload that belongs to no post is seen by nobody, and the instance deletes it after a day. So a lost answer to one is
no unknown outcome, and nothing here needs a key. What was uploaded for a delivery is kept in mind: videos are worked on
for longer than a licence lasts, and the next attempt finds them done.
"""

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from channels.contract import Envelope, Refused, RetryAfter, Throttled, Verdict
from channels.mastodon import answers
from channels.mastodon.options import MastodonOptions
from channels.shared.mail import attachments as files
from channels.shared.mail.errors import MailFault
from channels.shared.web.answers import TOO_MANY, succeeded
from channels.shared.web.client import Answer, Call, Client, Lost, delivery_key

FILES_MAX = 4
# What Mastodon allows where nobody changed it.
DESCRIPTION_CHARACTERS_MAX = 1_500
# Uploads that are kept in mind.
UPLOADS_MAX = 10_000
# For how long an upload can be used. The instance deletes one that belongs to no post after a day.
UPLOAD_SECONDS_MAX = 3_600.0
# How long after an upload that is still worked on it is asked for.
WORK_SECONDS = 15.0
_PARTIAL, _ACCEPTED, _NOT_FOUND, _TOO_LARGE = 206, 202, 404, 413
_IMAGE_ENDINGS = {"image/jpeg": "jpg", "image/png": "png", "image/gif": "gif", "image/webp": "webp", "video/mp4": "mp4"}

# A delivery's number, and which of its files it is.
Place = tuple[int, int]


class Upload(Struct, frozen=True):
    """What the instance calls an upload, whether it has done its work on it, and when it was made."""

    number: str
    ready: bool
    at: float


class _Taken(Struct, frozen=True):
    id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]


_decode = msgspec.json.Decoder(_Taken).decode


class Media:
    """The uploads of deliveries. `shut` is told where the instance refuses the settings."""

    def __init__(
        self,
        options: MastodonOptions,
        client: Client,
        shut: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._client = client
        self._shut = shut
        self._headers = {"Authorization": f"Bearer {options.access_token}"}
        self._clock = clock
        self._uploads: OrderedDict[Place, Upload] = OrderedDict()

    async def upload(self, envelope: Envelope) -> list[str] | Verdict:
        """The instance's numbers of a delivery's media, all ready, or the verdict where that could not be.

        MailFault where a file is faulty.
        """
        numbers: list[str] = []
        each = list(files.each(envelope.options["attachments"], "attachment", FILES_MAX))
        for place, (field, one) in enumerate(each):
            key = (envelope.delivery_id, place)
            known = self._uploads.get(key)
            if known is None or self._clock() - known.at >= UPLOAD_SECONDS_MAX:
                answer = await self._client.post(self._upload_call(envelope, one, field))
                verdict = self._uploaded(key, field, envelope, answer)
            elif not known.ready:
                answer = await self._client.post(self._question(envelope, known.number))
                verdict = self._worked_on(key, field, envelope, answer)
            else:
                verdict = known.number
            if not isinstance(verdict, str):
                return verdict
            numbers.append(verdict)
        return numbers

    def forget(self, envelope: Envelope) -> None:
        for place in range(FILES_MAX):
            self._uploads.pop((envelope.delivery_id, place), None)

    def _upload_call(self, envelope: Envelope, one: Mapping[str, Any], field: str) -> Call:
        content = files.given_content(one, field)
        data = content if isinstance(content, bytes) else files.decoded(content, field)
        # The same on every attempt, and not to be guessed by who wrote the file.
        secret = self._options.access_token.encode()
        boundary = hmac.new(secret, delivery_key(envelope).encode(), hashlib.sha256).hexdigest()
        body = _form(boundary, data, files.media_type(one, field), _description(one, field))
        headers = self._headers | {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return Call([envelope], f"{self._options.base_url}/api/v2/media", headers, body, self._options.timeout_seconds)

    def _question(self, envelope: Envelope, number: str) -> Call:
        url = f"{self._options.base_url}/api/v1/media/{number}"
        return Call([envelope], url, self._headers, b"", self._options.timeout_seconds, method="GET")

    def _uploaded(self, key: Place, field: str, envelope: Envelope, answer: Answer | Lost) -> str | Verdict:
        if isinstance(answer, Lost) or not succeeded(answer):
            return self._failed(field, envelope, answer)
        try:
            number = _decode(answer.body or b"").id
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return RetryAfter(f"{field}: the instance answered {answer.status} without a number to the upload")
        ready = answer.status != _ACCEPTED
        self._uploads[key] = Upload(number, ready, self._clock())
        while len(self._uploads) > UPLOADS_MAX:
            self._uploads.popitem(last=False)
        return number if ready else _still(field)

    def _worked_on(self, key: Place, field: str, envelope: Envelope, answer: Answer | Lost) -> str | Verdict:
        if isinstance(answer, Lost):
            return self._failed(field, envelope, answer)
        if answer.status == _PARTIAL:
            return _still(field)
        known = self._uploads.pop(key, None)
        if succeeded(answer) and known is not None:
            self._uploads[key] = Upload(known.number, True, known.at)
            return known.number
        if answer.status == _NOT_FOUND or known is None:
            return RetryAfter(f"{field}: the instance has lost the upload")
        return self._failed(field, envelope, answer)

    def _failed(self, field: str, envelope: Envelope, answer: Answer | Lost) -> Verdict:
        """The verdict of an upload that was not taken. Nothing was posted by it."""
        if isinstance(answer, Lost):
            return RetryAfter(f"{field}: no answer to the upload: {answer.why}")
        if reason := answers.about_settings(answer):
            self._shut(reason)
            return RetryAfter(reason)
        if answer.status == TOO_MANY:
            return Throttled(answers.wait_seconds(answer))
        if answer.status == _TOO_LARGE:
            return Refused(f"{field}: is too large for the instance; make it smaller")
        verdict = answers.refusal(answer, envelope)
        if not isinstance(verdict, Refused):
            return RetryAfter(f"{field}: the instance answered {answer.status} to the upload")
        reason = f"{field}: {verdict.reason}"
        # It says nothing about a post that an earlier attempt may have made.
        return Refused(reason) if envelope.attempt == 1 else RetryAfter(reason)


def _still(field: str) -> Verdict:
    return RetryAfter(f"{field}: the instance is still at work on it", WORK_SECONDS)


def _form(boundary: str, data: bytes, media_type: str, description: str) -> bytes:
    # The instance looks at the content; of a name it keeps nothing but its ending.
    name = f"file.{_IMAGE_ENDINGS.get(media_type.lower(), 'bin')}"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
    pieces = [f"{head}Content-Type: {media_type}\r\n\r\n".encode(), data]
    if description:
        pieces.append(f'\r\n--{boundary}\r\nContent-Disposition: form-data; name="description"\r\n\r\n'.encode())
        pieces.append(description.encode())
    pieces.append(f"\r\n--{boundary}--\r\n".encode())
    return b"".join(pieces)


def _description(one: Mapping[str, Any], field: str) -> str:
    text = one.get("description") or ""
    if not isinstance(text, str) or len(text) > DESCRIPTION_CHARACTERS_MAX or not _is_unicode(text):
        words = f"is not a text of at most {DESCRIPTION_CHARACTERS_MAX} characters; shorten it"
        raise MailFault(f"{field}.description", words)
    return text


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
