"""Resend: hands e-mail to Resend's HTTP API, one message a call or many, under keys that it de-duplicates by."""

from channels.resend.channel import Resend
from channels.resend.options import ResendOptions

__all__ = ["Resend", "ResendOptions"]
