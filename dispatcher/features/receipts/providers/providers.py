"""Configured providers of receipts, by the name in their URL."""

from dispatcher.features.receipts.providers import certificate, generic, resend, ses, standard_webhooks, twilio
from dispatcher.features.receipts.providers.request import Provider, Providers


def configured_providers(
    public_url: str = "",
    *,
    twilio_tokens: str = "",
    resend_secrets: str = "",
    generic_secrets: str = "",
    ses_topics: str = "",
    ses_certificates: str = "",
) -> Providers:
    """Return the providers with secrets. Raises ValueError for a certificate that cannot be used."""
    providers: dict[str, Provider] = {}
    if public_url and twilio_tokens:
        providers["twilio"] = twilio.provider(public_url, twilio_tokens)
    if resend_secrets:
        providers["resend"] = standard_webhooks.provider(resend_secrets, resend.receipts)
    if generic_secrets:
        providers["generic"] = standard_webhooks.provider(generic_secrets, generic.receipts)
    if ses_topics and ses_certificates:
        providers["ses"] = ses.provider(ses_topics, certificate.keys(ses_certificates))
    return providers
