"""The fault of a message: the field, and what to change."""


class MailFault(ValueError):  # noqa: N818 - a fault is what an author can correct
    """A message cannot be made of what was given. It never quotes what was given."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__(field, words)

    def __str__(self) -> str:
        return ": ".join(self.args)
