"""Phone numbers as providers take them: E.164, apart from the punctuation that people write."""

import re

NUMBER_WORDS = (
    "is not a number with its country: write +, the country's code and 4 to 15 digits in all, such as +4917012345"
)

is_number = re.compile(r"\+[1-9][0-9]{3,14}").fullmatch
# In parentheses stands a trunk prefix, which is not dialled from abroad: a number with them is not guessed.
_PUNCTUATION = re.compile(r"[ .\-/\u00a0]")


def number_of(text: str) -> str | None:
    """Return the number that a text is; None where it is not one."""
    number = _PUNCTUATION.sub("", text.strip())
    if number.startswith("00"):
        number = "+" + number[2:]
    return number if is_number(number) else None
