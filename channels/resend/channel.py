"""The Resend channel: one call a message, or one for many, judged by phase, and never faster than the API allows.

A single message goes under a key of its own, by which the API de-duplicates for a day: an unknown outcome is asked for
again with the same bytes under the same key.

Messages of one call (`batch`) share its key, and only the very same call can be repeated under it.
Claims group deliveries anew, so it cannot be repeated later: a member that was sent again alone would come twice. So
 - a channel with batches declares no key at all, and whatever is unknown in it is held, through crashes too;
 - only first attempts go into a batch, so that what may have gone out alone is repeated alone, under its own key;
 - while its licence holds, a call whose answer was lost is repeated as it was, and what that says counts for all;
 - a call that was refused as a whole had none of them taken, so that each can go alone.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from channels.contract import (
    CUT_OFF,
    EXPIRED,
    BaseChannel,
    Envelope,
    Refused,
    Report,
    RetryAfter,
    Throttled,
    Unknown,
    Verdict,
)
from channels.resend import answers
from channels.resend.api import Api
from channels.resend.message import Message, Messages, batch_key
from channels.resend.options import ResendOptions
from channels.resend.rate_limit import RateLimit
from channels.shared.mail.errors import MailFault
from channels.shared.mail.weight import is_heavy
from channels.shared.web.answers import succeeded
from channels.shared.web.client import Answer, Call, LicenceOver, Lost, delivery_key

log = structlog.get_logger(__name__)

# For how long the API keeps a key.
KEY_SECONDS = 86_400.0
# A batch, encoded. The API has no word on it; this is far under what it takes for one message.
BATCH_BYTES_MAX = 5_000_000
# How long after a lost answer the same call is repeated: the first may still be at work there.
REPEATS_AFTER_SECONDS = (0.2, 1.0)


class Work:
    """The remaining messages of one `deliver`. The messages of a refused batch go alone."""

    def __init__(self, batch: Sequence[Envelope], report: Report) -> None:
        self.unsent = deque(batch)
        self.alone: set[int] = set()
        self.report = report

    def put_back(self, envelopes: Sequence[Envelope]) -> None:
        self.alone.update(envelope.delivery_id for envelope in envelopes)
        self.unsent.extendleft(reversed(envelopes))

    def give_up(self, verdict: Verdict) -> None:
        while self.unsent:
            self.report(self.unsent.popleft(), verdict)


class Resend(BaseChannel):
    """Calls the API of Resend."""

    def __init__(self, options: ResendOptions) -> None:
        self._options = options
        self.idempotency_key_seconds = 0.0 if options.batch else KEY_SECONDS
        self._messages = Messages(options)
        # Heavy messages are composed here, one after the other.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="compose")
        self._api = Api(options)
        self._rate_limit = RateLimit(time.monotonic)

    async def prepare(self, count: int) -> None:  # noqa: ARG002 - one connection shows that there can be more
        await self._api.open()

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Call as fast as the API allows, and report each verdict as it comes."""
        work = Work(batch, report)
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(len(batch), self._options.connections)):
                    workers.create_task(self._work(work))
        finally:
            work.give_up(CUT_OFF)

    async def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
        await self._api.close()

    async def _work(self, work: Work) -> None:
        while work.unsent:
            wait = await self._rate_limit.acquire()
            if wait:
                work.give_up(Throttled(wait))
                return
            heavy = bool(work.unsent) and is_heavy(work.unsent[0])
            call = await self._heavy(work) if heavy else self._next(work)
            if call is None:
                self._rate_limit.release()
            else:
                await self._call(call, work)

    async def _heavy(self, work: Work) -> Call | None:
        """The call of one message that is composed beside the event loop."""
        envelope = work.unsent.popleft()
        loop = asyncio.get_running_loop()
        try:
            message = await loop.run_in_executor(self._executor, self._message, envelope)
        except asyncio.CancelledError:
            work.report(envelope, CUT_OFF)
            raise
        if not isinstance(message, Message):
            work.report(envelope, message)
            return None
        return self._api.call([envelope], "/emails", delivery_key(envelope), message.data)

    def _next(self, work: Work) -> Call | None:
        """The next call: of one message, or of a batch."""
        envelopes: list[Envelope] = []
        bodies: list[bytes] = []
        while work.unsent and len(envelopes) < self._options.batch_max:
            envelope = work.unsent[0]
            if is_heavy(envelope):
                break
            message = self._message(envelope)
            if not isinstance(message, Message):
                work.report(work.unsent.popleft(), message)
                continue
            batchable = self._is_batchable(envelope, message, work)
            if envelopes and not (batchable and sum(map(len, bodies)) + len(message.data) <= BATCH_BYTES_MAX):
                break
            work.unsent.popleft()
            envelopes.append(envelope)
            bodies.append(message.data)
            if not batchable:
                break
        if not envelopes:
            return None
        if len(envelopes) == 1:
            return self._api.call(envelopes, "/emails", delivery_key(envelopes[0]), bodies[0])
        body = b"[" + b",".join(bodies) + b"]"
        return self._api.call(envelopes, "/emails/batch", batch_key(envelopes), body)

    def _is_batchable(self, envelope: Envelope, message: Message, work: Work) -> bool:
        first = envelope.attempt == 1 and envelope.delivery_id not in work.alone
        return self._options.batch and first and not message.files

    def _message(self, envelope: Envelope) -> Message | Verdict:
        if envelope.licence.expired():
            return EXPIRED
        try:
            return self._messages.make(envelope)
        except MailFault as fault:
            return Refused(str(fault))

    async def _call(self, call: Call, work: Work) -> None:
        """Make one call, which the rate limit has counted, and report on each of its messages."""
        try:
            answer = await self._post(call)
            if len(call.envelopes) > 1 and self._unsettled(answer, call.envelopes):
                answer = await self._repeated(call, answer)
        except LicenceOver:
            self._report_all(call, work.report, EXPIRED)
        except asyncio.CancelledError:
            if not call.written:
                self._report_all(call, work.report, CUT_OFF)
            raise
        else:
            self._judge(call, answer, work)

    async def _post(self, call: Call) -> Answer | Lost:
        """Call, and tell the rate limit what came back."""
        answer: Answer | Lost | None = None
        try:
            answer = await self._api.post(call)
        finally:
            self._rate_limit.answered(answer.headers if isinstance(answer, Answer) else None)
        if isinstance(answer, Answer) and answers.asks_to_wait(answer):
            self._wait(answer)
        return answer

    def _wait(self, answer: Answer) -> None:
        seconds = answers.wait_seconds(answer)
        self._rate_limit.close(seconds)
        if spent := answers.quota(answer):
            log.warning("resend.quota_spent", quota=spent, wait_seconds=seconds)
        else:
            log.info("resend.limited", status=answer.status, wait_seconds=seconds)

    async def _repeated(self, call: Call, answer: Answer | Lost) -> Answer | Lost:
        """The answer to the very same call under the same key, for one whose answer does not settle it.

        After the first, only a success says something: any other answer is about the repeat and not about the call.
        """
        for seconds in REPEATS_AFTER_SECONDS:
            await asyncio.sleep(seconds)
            if await self._rate_limit.acquire():
                break
            try:
                again = await self._post(call)
            except LicenceOver:
                break
            finally:
                # Whatever becomes of a repeat, the first call had begun.
                call.written = True
            if isinstance(again, Answer) and answers.batch_verdicts(again, call.envelopes, self._options) is not None:
                return again
        return answer

    def _judge(self, call: Call, answer: Answer | Lost, work: Work) -> None:
        envelopes, options = call.envelopes, self._options
        if isinstance(answer, Lost):
            lost = Unknown(f"no answer: {answer.why}") if answer.written else RetryAfter(f"no connection: {answer.why}")
            self._report_all(call, work.report, lost)
        elif len(envelopes) == 1:
            work.report(envelopes[0], answers.single_verdict(answer, envelopes[0], options))
        elif succeeded(answer):
            verdicts = answers.batch_verdicts(answer, envelopes, options)
            for index, envelope in enumerate(envelopes):
                work.report(envelope, verdicts[index] if verdicts else Unknown(f"{answer.status} without the ids"))
        elif answers.is_about_messages(answer):
            work.put_back(envelopes)
        else:
            for envelope in envelopes:
                work.report(envelope, answers.refusal(answer, envelope, options))

    def _report_all(self, call: Call, report: Report, verdict: Verdict) -> None:
        for envelope in call.envelopes:
            report(envelope, verdict)

    def _unsettled(self, answer: Answer | Lost, envelopes: Sequence[Envelope]) -> bool:
        """Whether the outcome of a call is unknown, and the same call again could tell."""
        if isinstance(answer, Lost):
            return answer.written
        if succeeded(answer):
            return answers.batch_verdicts(answer, envelopes, self._options) is None
        verdict = answers.refusal(answer, envelopes[0], self._options)
        return isinstance(verdict, Unknown) and not verdict.hold
