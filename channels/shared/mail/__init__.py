"""E-mail as bytes: what every channel that sends mail makes of an envelope, before it speaks to anybody."""

from channels.shared.mail.composer import Composed, Composer
from channels.shared.mail.errors import MailFault
from channels.shared.mail.settings import MailSettings

__all__ = ["Composed", "Composer", "MailFault", "MailSettings"]
