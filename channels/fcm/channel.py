"""The FCM channel: one call a device, with the service account's token, judged by FCM's error codes.

Before anything is marked, FCM is asked to validate a message that goes nowhere: it tells whether the account may send.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec

from channels.contract import Accepted, Envelope, Unready, Verdict
from channels.fcm import answers
from channels.fcm.message import body_of
from channels.fcm.options import FcmOptions
from channels.fcm.tokens import Tokens
from channels.shared.web.answers import SERVER
from channels.shared.web.client import Answer, Bounds, Call
from channels.shared.web.host_channel import KEEP_SECONDS, Host, HostChannel

# The longest real answer is an error with its details.
ANSWER_BYTES_MAX = 16 * 1024
# Validated, never sent: a topic needs no device.
_CHECK = msgspec.json.encode({"validate_only": True, "message": {"topic": "dispatcher", "data": {"check": "1"}}})


class Fcm(HostChannel):
    """Calls the HTTP v1 API of Firebase Cloud Messaging."""

    def __init__(self, options: FcmOptions, clock: Callable[[], float] = time.time) -> None:
        super().__init__(Host(options.base_url), Bounds(options.connections, ANSWER_BYTES_MAX, KEEP_SECONDS))
        account = options.account()
        self._clock = clock
        self._seconds = options.timeout_seconds
        self._url = f"{options.base_url}/v1/projects/{account.project_id}/messages:send"
        self._tokens = Tokens(account, self.ask, self.shut, lambda: asyncio.get_running_loop().time())
        # Whether FCM has taken a message since the channel was opened.
        self._proven = False

    async def authorize(self) -> None:
        await self._tokens.renew()

    async def check(self) -> None:
        """Ask FCM to validate a message. Only what it says about the account counts, and that it answers."""
        answer = await self.ask(self._call([], _CHECK))
        if reason := answers.about_settings(answer):
            self._tokens.drop()
            raise self.shut(reason)
        if answer.status >= SERVER:
            raise Unready(f"FCM answers {answer.status}")
        if not answers.is_fcm(answer):
            raise self.shut(f"options.url: {answers.foreign(answer)}")

    def call(self, envelope: Envelope, target: Host) -> Call:  # noqa: ARG002 - there is one
        return self._call([envelope], body_of(envelope, self._clock()))

    def verdict(self, envelope: Envelope, answer: Answer) -> Verdict:
        judged = answers.judged(envelope, answer)
        if judged.settings:
            self._tokens.drop()
            self.shut(judged.settings)
        elif judged.mismatched and not self._proven:
            # It may be this device, or every one: until one takes a message, the account is the likelier fault.
            return self.refuses(answers.OTHER_PROJECT)
        self._proven = self._proven or isinstance(judged.verdict, Accepted)
        return judged.verdict

    async def close(self) -> None:
        await self._tokens.close()
        await super().close()

    def _call(self, envelopes: list[Envelope], body: bytes) -> Call:
        return Call(envelopes, self._url, {"Authorization": self._tokens.bearer}, body, self._seconds)
