"""What is wrong with a message that a person wrote: the field, and what to change."""


class MailFault(ValueError):  # noqa: N818 - a fault is what a person can correct
    """A message cannot be made of what was given. It never quotes what was given."""

    def __init__(self, field: str, words: str) -> None:
        self.field = field
        self.words = words
        super().__init__(f"{field}: {words}")

    @property
    def reason(self) -> str:
        """The field and the words, for a verdict."""
        return str(self)

    def __reduce__(self) -> tuple[type["MailFault"], tuple[str, str]]:
        # Exceptions are copied by calling the class with their message, which is not what this one takes.
        return type(self), (self.field, self.words)
