"""The doors that are open: one for each provider that something is configured of."""

from dispatcher.features.receipts.providers import certificate, generic, resend, ses, twilio
from dispatcher.features.receipts.providers.request import Door, Doors


def doors_of(
    public_url: str = "",
    *,
    twilio_tokens: str = "",
    resend_secrets: str = "",
    generic_secrets: str = "",
    ses_topics: str = "",
    ses_certificates: str = "",
) -> Doors:
    """The doors, by the name that stands in their URL. ValueError says which certificate is of no use."""
    doors: dict[str, Door] = {}
    if public_url and twilio_tokens:
        doors["twilio"] = twilio.door(public_url, twilio_tokens)
    if resend_secrets:
        doors["resend"] = resend.door(resend_secrets)
    if generic_secrets:
        doors["generic"] = generic.door(generic_secrets)
    if ses_topics and ses_certificates:
        doors["ses"] = ses.door(ses_topics, certificate.keys(ses_certificates))
    return doors
