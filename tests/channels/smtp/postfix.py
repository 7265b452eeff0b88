"""A real Postfix with a configuration, queue and mailboxes of its own, on a free port of 127.0.0.1."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from email.message import Message
from pathlib import Path
from textwrap import dedent
from typing import Self

from tests.channels.mailbox import parsed
from tests.support.waits import until

POSTFIX = shutil.which("postfix", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))
SECONDS_MAX = 60.0

MAIN = """\
    compatibility_level = 3.6
    queue_directory = {folder}/queue
    data_directory = {folder}/data
    maillog_file = {folder}/log
    maillog_file_prefixes = {folder}
    myhostname = postfix.example
    mydestination =
    mynetworks = 127.0.0.0/8
    inet_interfaces = 127.0.0.1
    inet_protocols = ipv4
    virtual_mailbox_domains = example.org
    virtual_mailbox_base = {folder}/mail
    virtual_mailbox_maps = texthash:{folder}/boxes
    virtual_uid_maps = static:{uid}
    virtual_gid_maps = static:{gid}
    virtual_minimum_uid = 1
    smtpd_recipient_restrictions = reject_unauth_destination
    smtpd_delay_reject = no
    smtpd_peername_lookup = no
    smtpd_tls_security_level = may
    smtpd_tls_received_header = yes
    smtpd_tls_chain_files = {folder}/tls.pem
    message_size_limit = 1000000
    # Commands that travel where they may not are refused, as every server that faces the world does it.
    smtpd_data_restrictions = reject_unauth_pipelining
    {more}
"""
MASTER = """\
    127.0.0.1:{port} inet n - n - - smtpd
    cleanup unix n - n - 0 cleanup
    qmgr unix n - n 300 1 qmgr
    rewrite unix - - n - - trivial-rewrite
    bounce unix - - n - 0 bounce
    defer unix - - n - 0 bounce
    trace unix - - n - 0 bounce
    error unix - - n - - error
    retry unix - - n - - error
    discard unix - - n - - discard
    proxymap unix - - n - - proxymap
    virtual unix - n n - - virtual
    anvil unix - - n - 1 anvil
    tlsmgr unix - - n 1000? 1 tlsmgr
    postlog unix-dgram n - n - 1 postlogd
"""


def why_not() -> str:
    """Why there is none on this machine; empty where there is."""
    if POSTFIX is None or shutil.which("openssl") is None:
        return "postfix or openssl is not installed"
    return "" if os.geteuid() == 0 else "expected: Postfix starts as root only"


class Postfix:
    """Delivers to `ann@example.org` and `bob@example.org`; everybody else is unknown."""

    def __init__(self, certificate: bytes, **settings: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="dispatcher-postfix-"))
        self._certificate = certificate
        self._settings = settings
        self.port = 0

    def __enter__(self) -> Self:
        # Its daemons are other users, and must get through.
        self._folder.chmod(0o755)
        nobody, postfix = pwd.getpwnam("nobody"), pwd.getpwnam("postfix")
        for name in ("etc", "queue", "data", "mail"):
            (self._folder / name).mkdir()
        os.chown(self._folder / "data", postfix.pw_uid, postfix.pw_gid)
        os.chown(self._folder / "mail", nobody.pw_uid, nobody.pw_gid)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (self._folder / "tls.pem").write_bytes(self._certificate)
        (self._folder / "boxes").write_text("ann@example.org ann/\nbob@example.org bob/\n")
        more = "\n".join(f"{name} = {value}" for name, value in self._settings.items())
        known = {"folder": self._folder, "uid": nobody.pw_uid, "gid": nobody.pw_gid, "port": self.port, "more": more}
        for name, text in (("main.cf", MAIN), ("master.cf", MASTER)):
            (self._folder / "etc" / name).write_text(dedent(text).format(**known))
        try:
            self._command("start")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._command("abort", check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _command(self, word: str, check: bool = True) -> None:
        assert POSTFIX is not None
        done = subprocess.run(
            [POSTFIX, "-c", str(self._folder / "etc"), word], capture_output=True, timeout=SECONDS_MAX, check=False
        )
        if check and done.returncode:
            raise AssertionError(f"postfix {word}: {done.stderr.decode()}\n{self.log()}")

    def log(self) -> str:
        """Its log."""
        path = self._folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def mailbox(self, name: str) -> list[bytes]:
        """The messages of a mailbox, the oldest first."""
        folder = self._folder / "mail" / name / "new"
        if not folder.exists():
            return []
        return [path.read_bytes() for path in sorted(folder.iterdir(), key=lambda one: (one.stat().st_mtime_ns, one))]

    async def messages(self, name: str, count: int) -> list[Message]:
        """Wait until so many lie there; answers them parsed by the standard library."""
        await until(lambda: len(self.mailbox(name)) >= count, f"{count} messages for {name}", SECONDS_MAX)
        return [parsed(data) for data in self.mailbox(name)]
