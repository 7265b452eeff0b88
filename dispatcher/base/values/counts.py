"""Counts for sentences: a number with its noun."""


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: `1 step`, `2,000 steps`. `many` is for nouns whose plural is not with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
