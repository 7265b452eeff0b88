"""Times that people write: RFC 3339, with an offset."""

from datetime import datetime


def moment(text: str) -> float | None:
    """Seconds since 1970; None for what is no such time."""
    try:
        read = datetime.fromisoformat(text.strip())
        return read.timestamp() if read.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
