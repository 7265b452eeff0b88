"""Labels: a node in a few words, for drawings."""

from dispatcher.base.values.durations import format_duration
from dispatcher.plans.plan import Branch, Call, Day, Delay, Digest, Join, Node, Send, Wait

LABEL_CHARACTERS_MAX = 72


def label(node: Node) -> str:
    """The label of a node."""
    otherwise = "" if node.on_failure == "retry" else f" ({node.on_failure})"
    return short(_words(node), LABEL_CHARACTERS_MAX - len(otherwise)) + otherwise


def _words(node: Node) -> str:
    match node:
        case Send():
            return _send(node)
        case Call():
            return f"http {node.function}/{node.action}"
        case Delay():
            return f"delay {format_duration(node.seconds)}" if node.seconds is not None else f"delay until {node.until}"
        case Day() | Wait():
            return _waits(node)
        case Digest():
            return f"digest by {node.key}, {format_duration(node.window_seconds)}"
        case Branch() | Join():
            return type(node).__name__.lower()


def _waits(node: Day | Wait) -> str:
    if isinstance(node, Wait):
        limit = "" if node.timeout_seconds is None else f", {format_duration(node.timeout_seconds)} at most"
        return f"wait for {node.event}{limit}"
    zone = "the contact's zone" if node.contact_zone else node.zone
    return f"day {node.days}" + (f" at {node.hour:02}:00 {zone}" if node.hour is not None else "")


def _send(node: Send) -> str:
    to = ", ".join(node.to[:3]) + (f" and {len(node.to) - 3} more" if node.to[3:] else "")
    if node.contact_kind is not None:
        to = "the contact"
    content = f": {node.template}" if node.template is not None else ""
    return f"{node.channel}{f' to {to}' if to else ''}{content}"


def short(text: str, characters_max: int = LABEL_CHARACTERS_MAX) -> str:
    """A text in one line, cut where it gets long, without what a terminal would obey."""
    line = "".join(one if one.isprintable() else "�" for one in " ".join(text.split()))
    return line if len(line) <= characters_max else line[: characters_max - 1] + "…"
