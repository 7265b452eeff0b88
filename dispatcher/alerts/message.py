"""The text of an alert: numbers, times and names of our own; an exception's message stays in the log."""

from datetime import UTC, datetime

import msgspec

from dispatcher.alerts.collected import Batch, Kind, Seen
from dispatcher.base.values.counts import counted

# Longer than any name of ours, and than a channel's name.
NAME_CHARACTERS_MAX = 100
# Slack reads these as markup; a name must not notify a whole channel.
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def message(batch: Batch, environment: str, instance: str) -> bytes:
    """Return the JSON for an incoming webhook of Slack."""
    source = f"{environment}: {instance}" if environment else instance
    lines = [f"{source} has {counted(batch.errors, 'error')}"]
    lines += [f"• {_kind_text(kind)} ({_seen_text(seen)})" for kind, seen in batch.kinds.items()]
    if batch.left_out:
        lines.append(f"• and {batch.left_out} of further kinds, which only the log has")
    return msgspec.json.encode({"text": "\n".join(map(_escaped, lines))})


def _kind_text(kind: Kind) -> str:
    words = " ".join(_shortened(word) for word in (kind.event, kind.part) if word)
    error = " at ".join(_shortened(word) for word in (kind.error, kind.place) if word)
    return f"{words}: {error}" if error else words


def _seen_text(seen: Seen) -> str:
    first, last = (datetime.fromtimestamp(at, UTC) for at in (seen.first, seen.last))
    if seen.times == 1:
        return f"once, {first:%Y-%m-%d %H:%M:%S} UTC"
    until = f"{last:%H:%M:%S}" if last.date() == first.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    return f"{seen.times} times, {first:%Y-%m-%d %H:%M:%S} to {until} UTC"


def _shortened(word: str) -> str:
    return word if len(word) <= NAME_CHARACTERS_MAX else word[: NAME_CHARACTERS_MAX - 1] + "…"


def _escaped(line: str) -> str:
    return "".join(character for character in line if character.isprintable()).translate(_ESCAPED)
