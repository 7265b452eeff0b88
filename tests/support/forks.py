"""Programs by fork: a process that has imported the program forks for each one that a test starts.

The suite starts over a thousand, and importing takes each of them a third of a second. A fork is a process like any
other: arguments, environment, directory and streams of its own, the same `main`, and the same end. What Python and
libraries read of the environment when they start is that of the process which forks: who needs another one starts anew.

Commands that come to their end by themselves run one after another in one fork: to copy the pages that a command
writes to took two thirds of its time. Each command is also tried in a process of its own, by test_fresh_interpreters.
"""

import asyncio
import atexit
import gc
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import structlog

import channels

ROOT = Path(__file__).parents[2]
# What a request carries: what is asked for, standard input, output and error, and where to write pid and end.
STREAMS = 5
NUMBER = struct.Struct("<i")
# Which test is under way: another one for each.
TEST = "PYTEST_CURRENT_TEST"
# They stay, or write logs: each is a fork of its own.
ALONE = frozenset({"serve", "selftest", "demo"})


def plain_environment() -> dict[str, str]:
    """The environment without what is meant for the program, which the tests may have as well, or for pytest."""
    kept = {name: text for name, text in os.environ.items() if not _is_ours(name) and name != TEST}
    return kept | {"PYTHONPATH": str(ROOT)}


def _is_ours(name: str) -> bool:
    # The pool of worker processes sets PYTHONSAFEPATH, in a test that uses one.
    return name.startswith("DISPATCHER_") or name in ("FAULT", "PYTHONSAFEPATH")


class Child:
    """A forked program; what `subprocess.Popen` tells of another one. One of several in a process may end with it."""

    def __init__(self, told: int, within: "Child | None" = None) -> None:
        self._told = os.fdopen(told, "rb", buffering=0)
        self._within = within
        self.pid = self._number()
        self.returncode: int | None = None

    def _number(self) -> int:
        told = self._told.read(NUMBER.size)
        if len(told or b"") != NUMBER.size:
            if self._within is not None:
                return self._within.wait()
            raise RuntimeError("the process that forks has ended")
        (number,) = NUMBER.unpack(told)
        return int(number)

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; its exit code."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._told, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired("dispatcher", timeout or 0)
            self.returncode = self._number()
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Forks:
    """The process that forks, from the side of the tests."""

    def __init__(self) -> None:
        self.environment = plain_environment()
        # What runs one command after another, and does not just now.
        self._idle: list[Commands] = []
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # Its standard input is a pipe, as the children's is: what is known of it when it starts holds for theirs.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forks", str(theirs.fileno())],
                env=self.environment,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.end)

    def suits(self, environment: dict[str, str]) -> bool:
        """Whether a program with this environment may be a fork."""
        return {name: text for name, text in environment.items() if not _is_ours(name)} == self.environment

    def start(
        self, arguments: Sequence[str] | None, environment: dict[str, str], streams: tuple[int, int, int]
    ) -> Child:
        """Fork a program with these standard streams; without arguments at all, what runs one command after another."""
        return Child(_ask(self._control, arguments, environment, streams))

    def run(
        self, arguments: Sequence[str], environment: dict[str, str], stdin: bytes, seconds: float
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run one to its end, with what it says."""
        said = [os.memfd_create("out"), os.memfd_create("err")]
        reads, writes = os.pipe()
        with self._starting(arguments, environment) as start:
            try:
                child = start(arguments, environment, (reads, said[0], said[1]))
            finally:
                os.close(reads)
            writing = threading.Thread(target=_write, args=(writes, stdin))
            writing.start()
            try:
                code = child.wait(seconds)
            except BaseException:
                child.kill()
                raise
            finally:
                writing.join()
                out, err = (_content(one) for one in said)
        return subprocess.CompletedProcess(list(arguments), code, out, err)

    @contextmanager
    def _starting(self, arguments: Sequence[str], environment: dict[str, str]) -> Iterator[Callable[..., Child]]:
        """How a program is started that comes to its end meanwhile: among the commands, unless it may not be one of
        them. What is made to die has a fork of its own, too."""
        if ALONE.intersection(arguments) or "FAULT" in environment:
            yield self.start
            return
        commands = self._take_idle()
        try:
            yield commands.start
        finally:
            self._idle.append(commands)

    def _take_idle(self) -> "Commands":
        while self._idle:
            commands = self._idle.pop()
            if commands.process.poll() is None:
                return commands
        return Commands(self)

    def end(self) -> None:
        """End it, and with it whatever it has forked."""
        self._control.close()
        self._process.communicate()


class Commands:
    """A fork that runs one command after another, from the side of the tests."""

    def __init__(self, forks: Forks) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = forks.start(None, {}, (theirs.fileno(), 1, 2))

    def start(self, arguments: Sequence[str], environment: dict[str, str], streams: tuple[int, int, int]) -> Child:
        """Begin a command with these standard streams."""
        return Child(_ask(self._control, arguments, environment, streams), within=self.process)


def _ask(
    control: socket.socket, arguments: Sequence[str] | None, environment: dict[str, str], streams: tuple[int, int, int]
) -> int:
    """Ask for a program. Answers where its pid and its end are told."""
    asked = os.memfd_create("asked")
    told, tells = os.pipe()
    try:
        with os.fdopen(os.dup(asked), "wb") as file:
            file.write(json.dumps([arguments, environment]).encode())
        socket.send_fds(control, [b"!"], [asked, *streams, tells])
    finally:
        os.close(asked)
        os.close(tells)
    return told


@cache
def forks() -> Forks:
    """The forking process of this process; it is started when it is first needed."""
    return Forks()


def _write(writes: int, content: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(writes, "wb") as file:
        file.write(content)


def _content(said: int) -> bytes:
    with os.fdopen(said, "rb") as file:
        file.seek(0)
        return file.read()


# The process that forks.


def _import_all() -> None:
    """Import what programs import, but for what does more than that when it is imported."""
    registry = import_module("dispatcher.commands")
    for name in sorted({entry.module for entry in registry.COMMANDS.values()}):
        import_module(name)
    for name in (
        "dispatcher.app",
        "dispatcher.cli.calls.local",
        "dispatcher.cli.calls.remote",
        "dispatcher.client.transport",
    ):
        import_module(name)
    for module in walk_packages(channels.__path__, "channels."):
        import_module(module.name)
    # What is made, or imported, when it is first needed.
    import_module("dispatcher.config.fields").table_of(import_module("dispatcher.config.settings").Config)
    import_module("typer._adapters")
    import_module("anyio._backends._asyncio")
    asyncio.run(_make_app())
    # Nothing of it is ever garbage, and who looked would copy its pages into each child.
    gc.collect()
    gc.freeze()


async def _make_app() -> None:
    """Make the program once, for what is kept then: the types in the signatures of its routes."""
    config = import_module("dispatcher.config.settings").Config()
    import_module("dispatcher.app").App(config, lambda: config)


def _serve(control: socket.socket) -> list[int] | None:
    """Fork for each request, and tell how each child ended. In a child the streams of its request; None at the end."""
    children: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd != control.fileno():
                    selector.unregister(key.fd)
                    _tell_end(key.fd, *children.pop(key.fd))
                    continue
                streams = socket.recv_fds(control, 1, STREAMS)[1]
                if not streams:
                    for pid, _tells in children.values():
                        os.kill(pid, signal.SIGKILL)
                    return None
                pid = os.fork()
                if pid == 0:
                    _forget(control, children)
                    return streams
                *ours, tells = streams
                for one in ours:
                    os.close(one)
                with suppress(BrokenPipeError):
                    os.write(tells, NUMBER.pack(pid))
                ended = os.pidfd_open(pid)
                children[ended] = pid, tells
                selector.register(ended, selectors.EVENT_READ)


def _tell_end(ended: int, pid: int, tells: int) -> None:
    os.close(ended)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError), os.fdopen(tells, "wb") as file:
        file.write(NUMBER.pack(code))


def _forget(control: socket.socket, children: dict[int, tuple[int, int]]) -> None:
    """A child has nothing of its parent's."""
    control.close()
    for ended, (_, tells) in children.items():
        os.close(ended)
        os.close(tells)


def _become(streams: list[int]) -> bool:
    """Be the program that was asked for, up to its first line; False where that is to run one command after another."""
    asked, *standard, tells = streams
    os.close(tells)
    arguments, environment = json.loads(_content(asked))
    for number, stream in enumerate(standard):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [str(ROOT / "dispatcher" / "__main__.py"), *(arguments or ())]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return arguments is not None


def _run_commands() -> None:
    """Run one command after another, until nobody is there to ask for one."""
    with socket.socket(fileno=os.dup(0)) as control:
        while streams := socket.recv_fds(control, 1, STREAMS)[1]:
            with os.fdopen(os.dup(streams[-1]), "wb", buffering=0) as tells:
                tells.write(NUMBER.pack(os.getpid()))
                _become(streams)
                code = _run_command()
                # What it has left to the garbage collector may still have something to say.
                gc.collect()
                sys.stdout.flush()
                sys.stderr.flush()
                tells.write(NUMBER.pack(code))


def _run_command() -> int:
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the command
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 - as above
    structlog.reset_defaults()
    try:
        import_module("dispatcher.__main__").main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    return 1


class _Leaving:
    """Ends a child once Python has done all that programs notice: to free each object would copy pages for 40 ms."""

    def __init__(self) -> None:
        self.code: int | None = None
        # The first to be registered is the last to be called.
        atexit.register(self._leave)

    def _leave(self) -> None:
        if self.code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


def main() -> None:
    """Be the process that forks, and each of its children."""
    leaving = _Leaving()
    # Ctrl-C is meant for the tests; they end this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    _import_all()
    streams = _serve(control)
    if streams is not None:
        try:
            if _become(streams):
                import_module("dispatcher.__main__").main()
            _run_commands()
        except SystemExit as end:
            leaving.code = end.code if isinstance(end.code, int) else None
            raise


if __name__ == "__main__":
    main()
