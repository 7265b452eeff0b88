"""The Mastodon channel: uploads a delivery's media, then makes one post under the delivery's key.

A key is kept in the instance's cache for an hour from the post on, "up to" that by its documentation. A repeat comes
half an hour after the first attempt at the latest: what is unknown then is held.
"""

import asyncio
import time
from collections.abc import Callable

from channels.contract import EXPIRED, Accepted, Envelope, Refused, Report, RetryAfter, Unready, Verdict
from channels.mastodon import answers
from channels.mastodon.media import Media
from channels.mastodon.options import MastodonOptions
from channels.mastodon.post import body_of
from channels.shared.mail.errors import MailFault
from channels.shared.web.answers import SERVER, TOO_MANY, succeeded
from channels.shared.web.client import Answer, Bounds, Call, LicenceOver, delivery_key
from channels.shared.web.host_channel import KEEP_SECONDS, Host, HostChannel
from channels.shared.web.post_channel import Unsendable

# Half of what is documented: the cache may be short of memory, and clocks of machines differ.
KEY_SECONDS = 1_800.0
# A post comes back as a whole, with its account and media.
ANSWER_BYTES_MAX = 256 * 1024


class Mastodon(HostChannel):
    """Posts as one account of one instance."""

    idempotency_key_seconds = KEY_SECONDS

    def __init__(self, options: MastodonOptions, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(Host(options.base_url), Bounds(options.connections, ANSWER_BYTES_MAX, KEEP_SECONDS))
        self._options = options
        self._headers = {"Authorization": f"Bearer {options.access_token}"}
        self._media = Media(options, self.client, self.shut, clock)
        # Of the deliveries whose post is being made, by their ids.
        self._numbers: dict[int, list[str]] = {}

    async def check(self) -> None:
        """Ask whose the token is. One that may post and not read is answered with 403, and is good all the same."""
        url = f"{self.host.url}/api/v1/accounts/verify_credentials"
        answer = await self.ask(Call([], url, self._headers, b"", self._options.timeout_seconds, method="GET"))
        if answer.status >= SERVER or answer.status == TOO_MANY:
            raise Unready(f"the instance answers {answer.status}")
        if not succeeded(answer) and not answers.may_post(answer):
            raise self.shut(answers.about_settings(answer) or f"options.url: {answers.no_instance(answer)}")

    def call(self, envelope: Envelope, target: Host) -> Call:
        body = body_of(envelope, self._options, self._numbers.get(envelope.delivery_id, ()))
        headers = self._headers | {"Idempotency-Key": delivery_key(envelope)}
        return Call([envelope], f"{target.url}/api/v1/statuses", headers, body, self._options.timeout_seconds)

    def verdict(self, envelope: Envelope, answer: Answer) -> Verdict:
        if reason := answers.about_settings(answer):
            self.shut(reason)
            return RetryAfter(reason, provider_fault=True)
        verdict = answers.verdict_of(answer, envelope)
        if isinstance(verdict, Accepted | Refused):
            self._media.forget(envelope)
        return verdict

    async def _deliver(self, envelope: Envelope, report: Report) -> None:
        if not envelope.options.get("attachments"):
            await super()._deliver(envelope, report)
            return
        found = await self._upload(envelope, report)
        if not isinstance(found, list):
            report(envelope, found)
            return
        self._numbers[envelope.delivery_id] = found
        try:
            await super()._deliver(envelope, report)
        finally:
            del self._numbers[envelope.delivery_id]

    async def _upload(self, envelope: Envelope, report: Report) -> list[str] | Verdict:
        if envelope.licence.expired():
            return EXPIRED
        try:
            # What cannot be posted is not uploaded either.
            body_of(envelope, self._options, ("",))
            return await self._media.upload(envelope)
        except (Unsendable, MailFault) as fault:
            return Refused(str(fault))
        except LicenceOver:
            return EXPIRED
        except asyncio.CancelledError:
            # An attempt is used up: an upload that never ends in time must not be begun for ever.
            report(envelope, RetryAfter("options.attachments: were not uploaded in time"))
            raise
