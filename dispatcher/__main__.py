"""The entry point: `python -m dispatcher` is `dispatcher`."""

from typing import NoReturn

from dispatcher.cli import root
from dispatcher.commands import COMMANDS


def main() -> NoReturn:
    """Run the command line with every registered command."""
    root.main(COMMANDS)


if __name__ == "__main__":
    main()
