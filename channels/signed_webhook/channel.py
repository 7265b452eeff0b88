"""The signed webhook channel: POSTs each message to one URL, signed as Standard Webhooks ask, and reads the answer."""

import time
from collections.abc import Callable

from aiohttp.abc import AbstractResolver

from channels.contract import Envelope, Verdict
from channels.shared.web.answers import is_redirect
from channels.shared.web.client import Answer, Bounds, Call, delivery_key
from channels.shared.web.guard import guard_of
from channels.shared.web.host_channel import Host, HostChannel
from channels.shared.web.post_channel import KEEP_SECONDS, trace_headers
from channels.signed_webhook import answers
from channels.signed_webhook.body import body_of
from channels.signed_webhook.form import Form
from channels.signed_webhook.options import SignedWebhookOptions
from channels.webhooks import signing

ANSWER_BYTES_MAX = 64 * 1024


class SignedWebhook(HostChannel):
    """Posts to the URL of its options."""

    # What a HEAD would do at somebody's URL is not known.
    reaches = False

    def __init__(
        self,
        options: SignedWebhookOptions,
        resolver: Callable[[], AbstractResolver] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        guard = guard_of(options.url, options.allow_addresses)
        super().__init__(
            Host(options.url), Bounds(options.connections, ANSWER_BYTES_MAX, KEEP_SECONDS), guard, resolver
        )
        self.idempotency_key_seconds = options.key_seconds
        self._options = options
        self._secrets = options.secrets.split()
        self._form = Form(options.body)
        self._clock = clock

    def call(self, envelope: Envelope, target: Host) -> Call:
        """The body as the options have it, signed at the time of the call."""
        body = body_of(envelope, self._form)
        headers = {**signing.headers(delivery_key(envelope), int(self._clock()), body, self._secrets)}
        if self._options.authorization:
            headers["Authorization"] = self._options.authorization
        headers |= trace_headers(envelope)
        return Call([envelope], target.url, headers, body, self._options.timeout_seconds)

    def verdict(self, envelope: Envelope, answer: Answer) -> Verdict:
        if answer.status == answers.UNAUTHORIZED:
            reason = "options.authorization, options.secrets: answered with 401; correct whichever the receiver checks"
            return self.refuses(reason)
        if is_redirect(answer):
            reason = (
                f"options.url: answered with {answer.status}, a redirect, and those are not followed; write the new URL"
            )
            return self.refuses(reason)
        return answers.judged(envelope, answer, self._options)
