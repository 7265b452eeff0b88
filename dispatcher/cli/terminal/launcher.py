"""The program as it speaks of itself: its version, and how it is started."""

import os


def launcher() -> str:
    """How this program is started, for the commands that it proposes."""
    return os.environ.get("DISPATCHER_LAUNCHER") or "dispatcher"
