"""A session: one persistent connection, over which messages go one behind the other, each with a verdict of its own.

    MAIL RCPT DATA ─▶                    the envelope; in one piece where the server offers PIPELINING
                    ◀─ 250 250 354
    body . MAIL RCPT DATA ─▶             the next message's envelope travels with this one's final dot
                    ◀─ 250 250 250 354   one round trip a message

So at most two messages are under way: one whose dot was handed over (`_sent`), one whose envelope was (`_open`). Only
the first can end as unknown. With CHUNKING the body goes behind `BDAT n LAST`, after the answer to RCPT: no dots are
stuffed, and the envelope still comes first, so that a refused recipient costs no body and leaves nothing unknown.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from channels.contract import Accepted, NotCalled, RetryAfter, Verdict
from channels.shared.batch_calls import Calls
from channels.smtp.connect import Features
from channels.smtp.message import FINAL_DOT, PIECE_BYTES, Body, Work, commands, message_id
from channels.smtp.options import SmtpOptions
from channels.smtp.verdicts import Step, judge, lost_body, lost_envelope

# An answer's line has 512 bytes by the standard, and 2,000 in the wild.
LINE_BYTES_MAX = 8 * 1024
ANSWER_LINES_MAX = 100
CODE_DIGITS = 3
# A server that does not answer QUIT is not waited for any longer.
CLOSE_SECONDS_MAX = 2.0
RSET, MAIL, RCPT, DATA, DOT, EMPTY, NOOP = Step.RSET, Step.MAIL, Step.RCPT, Step.DATA, Step.DOT, Step.EMPTY, Step.NOOP
GOOD = ord("2")
OK = b"250 "
BAD = frozenset(b"45")
GO_ON = b"354"
CLOSING = b"421"


class Session(asyncio.Protocol):
    """One connection. `pull` gives the next message, `changed` is called when it is gone."""

    def __init__(
        self,
        options: SmtpOptions,
        features: Features,
        pull: Callable[["Session"], Work | None],
        changed: Callable[["Session"], None],
    ) -> None:
        self.features = features
        self._options = options
        self._pull = pull
        self._changed = changed
        self._time = asyncio.get_running_loop().time
        self._transport: asyncio.Transport
        # What the server still owes answers to, in order.
        self._steps: deque[Step] = deque()
        self._later: deque[tuple[Step, bytes]] = deque()
        self._sent: Work | None = None
        self._open: Work | None = None
        # The open one has its verdict; what the server still says about it is not asked for.
        self._refused = False
        self._reset = False
        # The answer after which nothing is to be done, where all commands went out at once and none was refused.
        self._passing = MAIL if features.chunking else RCPT
        self._rest = b""
        self._lines: list[bytes] = []
        self._body: Body | None = None
        self._paused = False
        self._probe: asyncio.Future[None] | None = None
        self._closing = self._over = False
        self._opened_at = self.quiet_since = self._time()
        self.messages = 0
        # Whether the server has answered anything since it was ours, and why it was lost, where it was.
        self.proven = False
        self.lost = ""
        self.gone = asyncio.Event()

    # What the channel asks and tells

    def attach(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=PIECE_BYTES)
        transport.set_protocol(self)

    @property
    def usable(self) -> bool:
        """Whether messages may begin on it, now or later."""
        return not self._over and not self._transport.is_closing() and not self._used_up()

    @property
    def idle(self) -> bool:
        return not self._steps and self._open is None and self._sent is None and self._body is None

    def carries(self, calls: Calls) -> bool:
        """Whether a message of this batch is under way."""
        return any(work is not None and work.calls is calls for work in (self._sent, self._open))

    def wake(self) -> None:
        if self._over or self._open is not None or self._body is not None or self._probe is not None:
            return
        if self._sent is not None and not self.features.pipelining:
            return
        if group := self._next():
            self._transport.write(group)
        elif self._used_up() and self.idle:
            self.quit()

    async def probe(self, seconds: float) -> None:
        """Send NOOP, and close where no answer comes in time."""
        if not self.idle or self._over:
            return
        self._steps.append(NOOP)
        self._probe = asyncio.get_running_loop().create_future()
        self._transport.write(b"NOOP\r\n")
        try:
            async with asyncio.timeout(seconds):
                await self._probe
        except TimeoutError:
            self.lose(f"no answer to NOOP within {seconds:g} s")
        finally:
            self._probe = None

    def quit(self) -> None:
        """Send QUIT and close. Only for an idle session."""
        if not self._over:
            self._over = True
            self._transport.write(b"QUIT\r\n")
            self._transport.close()
            self._changed(self)

    async def ended(self) -> None:
        """Return when a connection that was closed is gone, by force after a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self.gone.wait()
                return
        self._transport.abort()
        await self.gone.wait()

    def give_up(self, calls: Calls) -> None:
        """Close for a batch that was given up: report what is known of its messages."""
        if self._open is not None and self._open.calls is calls and not self._refused:
            self._open.settle(RetryAfter(f"given up at {self._steps[0].value}" if self._steps else "given up"))
            self._refused = True
        self.lose("given up", ours=True)

    def overdue(self, now: float) -> bool:
        waiting = self._sent or self._open
        return waiting is not None and now >= waiting.deadline

    def lose(self, why: str, ours: bool = False) -> None:
        """Abort the connection: everything under way gets its verdict."""
        if self._over:
            return
        self._over = True
        self.lost = why
        sent, opened = self._sent, self._open
        self._sent = self._open = self._body = None
        if sent is not None:
            sent.settle(lost_body(why, sent.handed))
        if opened is not None and not self._refused:
            # It was not looked at, on a connection that has carried others: not its fault, and not an endless loop.
            untouched = MAIL in self._steps and (sent is not None or self.messages > 0)
            opened.settle(lost_envelope(why, self._steps, ours or untouched))
        self._steps.clear()
        if self._probe is not None and not self._probe.done():
            self._probe.set_result(None)
        self._transport.abort()
        self._changed(self)

    def _used_up(self, under_way: int = 0) -> bool:
        options = self._options
        full = self.messages + under_way >= options.messages_per_connection
        return full or self._time() - self._opened_at >= options.connection_seconds

    # What goes out

    def _next(self) -> bytes:
        """The next message's envelope, or as much of it as may go before an answer; nothing where there is none."""
        # The message under way counts: with it the connection may be used up.
        work = None if self._closing or self._used_up(self._sent is not None) else self._pull(self)
        if work is None:
            return b""
        work.deadline = self._time() + self._options.answer_seconds_max
        self._open, self._refused = work, False
        mail, rcpt = commands(work.composed, self.features)
        if self._reset:
            self._later.append((RSET, b"RSET\r\n"))
            self._reset = False
        self._later.extend(((MAIL, mail), (RCPT, rcpt)))
        if not self.features.chunking:
            self._later.append((DATA, b"DATA\r\n"))
        group = self._one_later()
        while self._later and self.features.pipelining:
            group += self._one_later()
        return group

    def _one_later(self) -> bytes:
        step, command = self._later.popleft()
        self._steps.append(step)
        return command

    def _send(self, work: Work) -> None:
        """The body, with the next envelope behind it."""
        self._sent, self._open = work, None
        self._steps.append(DOT)
        self._body = Body(work.composed.data, chunking=self.features.chunking)
        self._pump()

    def _pump(self) -> None:
        """As much of a body as the connection takes; its end only when all before it was taken."""
        while self._body is not None and not self._paused and not self._over:
            piece = self._body.piece()
            if not self._body.is_over:
                self._transport.write(piece)
                continue
            self._body = None
            if self._sent is not None:
                self._sent.handed = True
            self._transport.write(piece + self._next() if self.features.pipelining else piece)

    # What the loop calls

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._pump()

    def data_received(self, data: bytes) -> None:
        lines = (self._rest + data if self._rest else data).split(b"\n")
        self._rest = lines.pop()
        steps = self._steps
        for line in lines:
            if steps and not self._later and not self._lines and self._expected(steps[0], line):
                continue
            if len(line) > LINE_BYTES_MAX or len(self._lines) >= ANSWER_LINES_MAX:
                self.lose("the server's answer is endless")
            elif line[3:4] == b"-":
                self._lines.append(line)
            else:
                self._answer(line)
            if self._over:
                return
        if len(self._rest) > LINE_BYTES_MAX:
            self.lose("the server's answer is endless")

    def connection_lost(self, _exc: Exception | None) -> None:
        self.lose("the connection was lost")
        self.gone.set()

    # What comes in

    def _expected(self, step: Step, line: bytes) -> bool:
        """Handle the usual answers, which are nearly all lines, by a short path."""
        if line.startswith(OK):
            if step is MAIL or step is self._passing:
                self._steps.popleft()
                return True
            if step is DOT and self._sent is not None and self._body is None:
                self._steps.popleft()
                self._accepted(self._sent, line)
                return True
        elif step is DATA and line.startswith(GO_ON) and self._open is not None and not self._refused:
            self._steps.popleft()
            self.proven = True
            self._send(self._open)
            return True
        return False

    def _answer(self, line: bytes) -> None:
        earlier, self._lines = self._lines, []
        code = line[:3]
        if (
            not code.isdigit()
            or len(code) != CODE_DIGITS
            or line[3:4] not in b" \r"
            or any(one[:3] != code for one in earlier)
        ):
            self.lose("the server's answer makes no sense")
        elif not self._steps:
            # Nothing was asked; it says that it closes, or has lost the thread.
            self.lose("the server closes the connection")
        else:
            self._match(self._steps[0], code, [*earlier, line] if earlier else [line])

    def _match(self, step: Step, code: bytes, lines: list[bytes]) -> None:
        good = code == GO_ON if step is DATA else code[0] == GOOD
        if not good and code[0] not in BAD and not (step is DATA and self._refused):
            # Not taken off the steps: it is what has no answer.
            self.lose("the server's answer makes no sense")
            return
        self._steps.popleft()
        self.proven = True
        self._closing = code == CLOSING
        if step is DOT and self._sent is not None:
            self._dotted(self._sent, good, lines)
        elif (step is DATA or step is MAIL or step is RCPT) and self._open is not None:
            self._enveloped(self._open, step, good, lines)
        elif step is NOOP:
            if self._probe is not None and not self._probe.done():
                self._probe.set_result(None)
            self.quiet_since = self._time()
        elif step is EMPTY:
            self._open = None
            self._go_on()
        elif self._later:
            self._transport.write(self._one_later())
        if self._closing:
            self.lose("the server closes the connection")

    def _enveloped(self, work: Work, step: Step, good: bool, lines: list[bytes]) -> None:
        if not good and not self._refused:
            self._refused = True
            work.settle(self._verdict(step, lines, work))
            self._later.clear()
        if self._later:
            self._transport.write(self._one_later())
        elif step is (RCPT if self.features.chunking else DATA) or (self._refused and not self.features.pipelining):
            self._enveloped_all(work, step is DATA and good)

    def _enveloped_all(self, work: Work, may_send: bool) -> None:
        if not self._refused:
            self._send(work)
        elif may_send:
            # RFC 2920: no recipient was accepted, but the body is expected. A dot ends it, and nothing is sent by it.
            self._steps.append(EMPTY)
            self._transport.write(FINAL_DOT)
        else:
            self._open, self._reset = None, True
            self._go_on()

    def _dotted(self, work: Work, good: bool, lines: list[bytes]) -> None:
        self._sent = None
        if self._body is not None:
            # It speaks before the end was said. What it says counts, and nothing behind it can be matched any more.
            early = RetryAfter("the server answered before the end of the message")
            work.settle(early if good else self._verdict(DOT, lines, work))
            self.lose("the server answered out of turn")
            return
        if good:
            self._accepted(work, lines[-1])
            return
        self.messages += 1
        work.settle(self._verdict(DOT, lines, work))
        self._go_on()

    def _accepted(self, work: Work, line: bytes) -> None:
        self._sent = None
        self.messages += 1
        self.proven = True
        work.settle(Accepted(message_id(line, work.composed.data)))
        self._go_on()

    def _go_on(self) -> None:
        """Take the next message, where none is under way already."""
        if self._open is None:
            self.quiet_since = self._time()
            self.wake()

    def _verdict(self, step: Step, lines: list[bytes], work: Work) -> Verdict:
        if step is MAIL and lines[-1].startswith(CLOSING) and self.messages:
            # It has had enough of this connection, not of this message.
            return NotCalled("the server closes the connection")
        composed = work.composed
        return judge(step, lines, composed.recipient, composed.domain, self._options.throttle_seconds)
