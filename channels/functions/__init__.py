"""Functions: deliveries that call a function of the operator's by its name, and bring back what it answers.

The options alone: the channel brings an HTTP client with it, which who only reads a configuration does without.
"""

from channels.functions.settings import FunctionSettings, FunctionsOptions

__all__ = ["FunctionSettings", "FunctionsOptions"]
