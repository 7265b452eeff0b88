"""Standard streams: each is open, also where the caller has closed it."""

import os
import sys
from errno import EBADF
from fcntl import F_GETFL, fcntl
from io import BufferedReader


def hold() -> None:
    """Open closed standard streams, so that no socket gets their numbers and with them our output.

    Output to a closed stream is lost. Reading a closed input is an error, rather than an empty file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # It becomes the lowest number that is free, which is this one.
            os.open(os.devnull, os.O_WRONLY)
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays
            setattr(sys, ("stdin", "stdout", "stderr")[number], stream)


def standard_input() -> BufferedReader:
    """Return the standard input, which `-` names. Raises OSError where it is closed."""
    if fcntl(sys.stdin.fileno(), F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
        raise OSError(EBADF, "it is closed")
    return sys.stdin.buffer  # type: ignore[return-value]  # typed as any binary stream, and a buffered reader in fact
