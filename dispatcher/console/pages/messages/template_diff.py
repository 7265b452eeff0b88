"""What changed between two versions of a template: lines by part, with some unchanged ones around them."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

# Comparing takes more than linear time: of longer texts the first lines are compared.
LINES_MAX = 1_500
SHOWN_MAX = 400
AROUND = 3


class Line(Struct, frozen=True):
    """A line: its numbers in the old and the new text, where it stands there; a gap has neither."""

    old: int | None
    new: int | None
    text: str


class Change(Struct, frozen=True):
    """The lines of a part that changed; `is_cut` where there are more."""

    part: str
    lines: Sequence[Line]
    added: int
    removed: int
    is_cut: bool


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[Change]:
    """Return the parts that differ, in the order of the new version; those that are gone come last."""
    names = list(dict.fromkeys([*new, *old]))
    return [_change(name, old.get(name, ""), new.get(name, "")) for name in names if old.get(name) != new.get(name)]


def _change(part: str, old: str, new: str) -> Change:
    a, b = old.splitlines(), new.splitlines()
    is_cut = max(len(a), len(b)) > LINES_MAX
    a, b = a[:LINES_MAX], b[:LINES_MAX]
    lines: list[Line] = []
    for group in SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(AROUND):
        if lines:
            lines.append(Line(None, None, "…"))
        for tag, a0, a1, b0, b1 in group:
            if tag == "equal":
                lines += [Line(a0 + at + 1, b0 + at + 1, a[a0 + at]) for at in range(a1 - a0)]
                continue
            lines += [Line(at + 1, None, a[at]) for at in range(a0, a1)]
            lines += [Line(None, at + 1, b[at]) for at in range(b0, b1)]
    added = sum(one.old is None and one.new is not None for one in lines)
    removed = sum(one.new is None and one.old is not None for one in lines)
    return Change(part, lines[:SHOWN_MAX], added, removed, is_cut or len(lines) > SHOWN_MAX)
