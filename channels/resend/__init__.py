"""Resend: hands e-mail to Resend's HTTP API, one message a call or many, under keys that it de-duplicates by.

The options alone: the channel brings an HTTP client with it, which who only reads a configuration does without.
"""

from channels.resend.options import ResendOptions

__all__ = ["ResendOptions"]
