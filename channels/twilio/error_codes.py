"""Error codes of the API: what each says about the number, and what to change."""

from collections.abc import Mapping

# The number does not exist, cannot take messages, or does not want them. By their names in the provider's list: invalid
# 'To' number, opted out, not a mobile number, a landline; unreachable, unknown, and landline or unreachable carrier.
DEAD_NUMBERS = frozenset({21211, 21610, 21614, 21635, 30003, 30005, 30006})
# Too fast, or too much queued: nothing was taken, and it may be sent again as it is.
THROTTLING = frozenset({14107, 20429, 21611, 63018})
BAD_CREDENTIALS = 20003
UNAVAILABLE = 20503
# Something failed there while the request was at work: it may have been done.
FAILED_THERE = 20500
NOT_FOUND = 20404
# The first of its codes: below it stand statuses of HTTP.
FIRST = 10_000

REMEDIES: Mapping[int, str] = {
    NOT_FOUND: "options.account_sid: is not known to Twilio; correct it",
    21212: "options.from: is not a valid sender; correct it",
    21408: "recipient: is in a country that is not enabled; enable it in Twilio's geographic permissions",
    21606: "options.from: is not a number of this account that can send this; correct it",
    21608: "recipient: is not verified, and a trial account sends to verified numbers only; upgrade the account",
    21655: "content_sid: is not a content template of this account; create it there, or correct the SID",
    21656: "content_variables: do not fit the content template; name each of its variables",
    21659: "options.from: is not a sender of this account; correct it",
    21705: "options.from: is not a messaging service of this account; correct it",
    32018: "body: is too long as TwiML; shorten it",
    63007: "options.from: is not a WhatsApp sender of this account; correct it",
    63016: "body: comes after WhatsApp's 24 hours for free texts; send a content template",
}
