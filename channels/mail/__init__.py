"""E-mail as bytes: what every channel that sends mail makes of an envelope, before it speaks to anybody."""

from channels.mail.composer import Composed, Composer
from channels.mail.errors import MailFault
from channels.mail.settings import MailSettings

__all__ = ["Composed", "Composer", "MailFault", "MailSettings"]
