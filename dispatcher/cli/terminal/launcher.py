"""The name by which this program is started."""

import os


def launcher() -> str:
    """Return the name by which this program is started, for the commands that it proposes."""
    return os.environ.get("DISPATCHER_LAUNCHER") or "dispatcher"
