"""The command line: thin commands over the configuration, the store and the composition root."""

from dispatcher.cli.root import main

__all__ = ["main"]
