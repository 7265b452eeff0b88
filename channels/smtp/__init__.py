"""The SMTP channel: mail over kept connections to a relay or a submission server."""

from channels.smtp.channel import Smtp
from channels.smtp.options import SmtpOptions

__all__ = ["Smtp", "SmtpOptions"]
