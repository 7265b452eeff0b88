"""The SMTP channel: a queue of messages, persistent connections that pull from it, and a breaker."""

import asyncio
import math
import re
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from channels.contract import CUT_OFF, EXPIRED, BaseChannel, Envelope, NotCalled, Refused, Report, RetryAfter, Verdict
from channels.shared.batch_calls import Calls
from channels.shared.breaker import Breaker
from channels.shared.mail.composer import Composed, Composer
from channels.shared.mail.errors import MailFault
from channels.shared.mail.weight import is_heavy
from channels.smtp.connect import Connector, Features, NoConnection
from channels.smtp.message import Work
from channels.smtp.options import SmtpOptions
from channels.smtp.session import Session

# Another connection is worth its handshake when so many messages would have to wait for each other otherwise.
MESSAGES_A_CONNECTION = 5
# One that was quiet for as long is asked whether it is still there before anything is marked for it.
PROBE_IDLE_SECONDS = 10.0
PROBE_SECONDS_MAX = 3.0
TICK_SECONDS = 1.0

# The composer has seen to it already; this is what keeps a command from becoming two.
_PATH = re.compile(
    r'(?:"[^"\x00-\x1f\x7f\ud800-\udfff]*"|[^"<>\s\x00-\x1f\x7f\ud800-\udfff]+)@[^"<>\s\x00-\x1f\x7f\ud800-\udfff]+'
)


class Smtp(BaseChannel):
    """Sends mail through one relay or submission server."""

    def __init__(self, options: SmtpOptions) -> None:
        self._options = options
        self._composer = Composer(options)
        # Heavy messages have a composer and a thread of their own.
        self._heavy_composer = Composer(options)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="compose")
        self._connector = Connector(options)
        self._breaker = Breaker(options.breaker_failures, options.breaker_seconds)
        self._queue: deque[tuple[Calls, Envelope, Composed | Verdict | None]] = deque()
        self._sessions: set[Session] = set()
        self._leaving: set[Session] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        # The server gives no more connections than there are; not asked again before this.
        self._enough_until = float("-inf")
        self._ticking: asyncio.TimerHandle | None = None
        self._closed = False

    async def prepare(self, count: int) -> None:
        """Return when there is a connection that answers. Further ones are opened meanwhile, and join in."""
        await self._probe()
        if not self._usable():
            await self._first()
        self._supply(len(self._queue) + count)

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Queue all, and wait until each has its verdict."""
        if not batch:
            return
        calls = Calls(report)
        calls.begin(len(batch))
        heavy: deque[Envelope] = deque()
        for envelope in batch:
            if is_heavy(envelope):
                heavy.append(envelope)
            else:
                self._queue.append((calls, envelope, None))
        try:
            self._kick()
            while heavy:
                composed = await self._composed_in_thread(heavy[0])
                self._queue.append((calls, heavy.popleft(), composed))
                self._kick()
            await calls.ended()
        finally:
            for envelope in heavy:
                calls.settle(envelope, CUT_OFF)
            if calls.unanswered:
                self._give_up(calls)

    async def _composed_in_thread(self, envelope: Envelope) -> Composed | Verdict:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, _composed, self._heavy_composer, envelope)

    async def close(self) -> None:
        self._closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)
        for task in self._connecting:
            task.cancel()
        if self._connecting:
            await asyncio.wait(self._connecting)
        if self._ticking is not None:
            self._ticking.cancel()
        for session in tuple(self._sessions):
            if session.idle:
                session.quit()
            else:
                session.lose("the channel was closed", ours=True)
        for session in tuple(self._leaving):
            await session.ended()

    # Connections

    def _usable(self) -> bool:
        return any(session.usable for session in self._sessions)

    async def _probe(self) -> None:
        """Ask those that were quiet for long whether they are still there."""
        quiet = asyncio.get_running_loop().time() - PROBE_IDLE_SECONDS
        stale = [session for session in self._sessions if session.idle and session.quiet_since < quiet]
        if stale:
            await asyncio.gather(*(session.probe(PROBE_SECONDS_MAX) for session in stale))
            self._kick()

    async def _first(self) -> None:
        """Open one connection; alone, so that a host that is away is tried by one."""
        if not self._connecting:
            wait = self._breaker.wait(asyncio.get_running_loop().time())
            if wait > 0:
                raise NoConnection(f"{self._breaker.words}; tried again in {math.ceil(wait)} s")
            self._begin_connecting()
        while self._connecting and not self._usable():
            # Not awaited itself: a caller's cancellation must not cancel it for others.
            await asyncio.wait(self._connecting, return_when=asyncio.FIRST_COMPLETED)
        if not self._usable():
            raise NoConnection(self._breaker.words or "the connection was lost at once")

    def _supply(self, messages: int) -> None:
        """Open the connections that so many messages need."""
        if self._closed or asyncio.get_running_loop().time() < self._enough_until:
            return
        wanted = min(self._options.connections, math.ceil(messages / MESSAGES_A_CONNECTION))
        for _ in range(wanted - sum(one.usable for one in self._sessions) - len(self._connecting)):
            self._begin_connecting()

    def _begin_connecting(self) -> None:
        task = asyncio.create_task(self._connect())
        self._connecting.add(task)
        task.add_done_callback(self._connected)

    async def _connect(self) -> None:
        now = asyncio.get_running_loop().time
        try:
            transport, features = await self._connector.open()
        except NoConnection as trouble:
            if self._usable():
                # There are some, so the host is well: it gives us no more.
                self._enough_until = now() + self._options.breaker_seconds
            else:
                self._breaker.failed(now(), str(trouble), trouble.final)
            return
        session = Session(self._options, features, self._pull, self._lost)
        session.attach(transport)
        self._sessions.add(session)
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        session.wake()

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._connecting.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._breaker.failed(asyncio.get_running_loop().time(), f"connecting raised {type(bug).__name__}", False)
        if self._queue:
            self._kick()

    def _lost(self, session: Session) -> None:
        """A session ended, or takes no further messages."""
        if session.proven:
            self._breaker.succeeded()
        elif session.lost and not self._closed:
            # It greeted us and then answered nothing: that is no better than no connection.
            words = f"{self._options.host}:{self._options.port}: {session.lost} before its first answer"
            self._breaker.failed(asyncio.get_running_loop().time(), words, False)
        self._sessions.discard(session)
        self._leaving = {one for one in self._leaving if not one.gone.is_set()} | {session}
        if self._queue and not self._closed:
            self._kick()

    def _tick(self) -> None:
        """Close connections that are overdue or no longer needed."""
        self._ticking = None
        now = asyncio.get_running_loop().time()
        for session in tuple(self._sessions):
            if session.overdue(now):
                session.lose(f"no answer within {self._options.answer_seconds_max:g} s")
            elif session.idle and (now - session.quiet_since >= self._options.idle_seconds or not session.usable):
                session.quit()
        if self._sessions and not self._closed:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    # Messages

    def _kick(self) -> None:
        """Have a session take what is queued; where none can, it goes back."""
        for session in tuple(self._sessions):
            if not self._queue:
                return
            session.wake()
        if not self._queue or self._connecting:
            return
        if self._usable():
            self._supply(len(self._queue))
        elif not self._closed and self._breaker.wait(asyncio.get_running_loop().time()) <= 0:
            self._begin_connecting()
        else:
            queued, self._queue = self._queue, deque()
            for calls, envelope, _ in queued:
                calls.settle(envelope, NotCalled("no connection"))

    def _pull(self, session: Session) -> Work | None:
        """The next message that may be sent over a session; what cannot be has its verdict."""
        if session.messages == 1:
            self._breaker.succeeded()
        while self._queue:
            calls, envelope, composed = self._queue.popleft()
            composed = composed or _composed(self._composer, envelope)
            if not isinstance(composed, Composed):
                calls.settle(envelope, composed)
            elif refusal := unfit(composed, session.features):
                calls.settle(envelope, Refused(refusal))
            elif envelope.licence.expired():
                calls.settle(envelope, EXPIRED)
            else:
                return Work(calls, envelope, composed)
        return None

    def _give_up(self, calls: Calls) -> None:
        """Give a batch up: calls that have not begun go back, and those that have are cut off."""
        mine = [envelope for owner, envelope, _ in self._queue if owner is calls]
        self._queue = deque(entry for entry in self._queue if entry[0] is not calls)
        for envelope in mine:
            calls.settle(envelope, CUT_OFF)
        for session in tuple(self._sessions):
            if session.carries(calls):
                session.give_up(calls)
        calls.given_up = True


def _composed(composer: Composer, envelope: Envelope) -> Composed | Verdict:
    try:
        return composer.compose(envelope)
    except MailFault as fault:
        return Refused(str(fault))
    except Exception as bug:
        # A bug in one message must not stand in the way of the others.
        return RetryAfter(f"the message could not be built ({type(bug).__name__})")


def unfit(composed: Composed, features: Features) -> str:  # noqa: PLR0911 - one return a reason
    """The reason why a message cannot go to a server, for its author; empty where it can."""
    data = composed.data
    if composed.smtputf8 and not features.smtputf8:
        return "recipient: an address that is not ASCII before its @ needs SMTPUTF8, which the server does not offer"
    if composed.eight_bit and not features.eight_bit:
        return "message: it has 8-bit text, and the server does not take that (8BITMIME)"
    if features.size and len(data) > features.size:
        return f"message: it has {len(data)} bytes, and the server takes {features.size} at most: make it smaller"
    # A line end that is none to us may be one to the next server, and a message would become two.
    lines = data.count(b"\r\n")
    if data.count(b"\n") != lines or data.count(b"\r") != lines or not data.endswith(b"\r\n"):
        return "message: it has a line end that is not CRLF"
    if not _PATH.fullmatch(composed.recipient):
        return "recipient: it has a character that no address has"
    if composed.sender and not _PATH.fullmatch(composed.sender):
        return "from: it has a character that no address has"
    return ""
