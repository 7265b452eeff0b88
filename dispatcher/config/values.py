"""Values of the configuration: what a name, a URL, a secret or a number may look like, and how a fault describes it."""

from typing import Annotated

from msgspec import Meta

# \Z and not $: Python's $ also matches before a last newline. `expects` is how a fault describes the value.
Name = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9_]{0,31}\Z",
        extra={"expects": "a name of 1 to 32 characters a-z, 0-9 and _, a letter first"},
    ),
]
# 255 is what a hostname may have at most; a path or URL longer than 4096 is a mistake.
ShortText = Annotated[str, Meta(min_length=1, max_length=255)]
LongText = Annotated[str, Meta(min_length=1, max_length=4_096)]
# `secret` hides the whole value wherever configuration is printed; `shown: "url"` lets all but the password be seen.
PostgresUrl = Annotated[
    str,
    Meta(
        pattern=r"^(\Z|postgres(ql)?://)",
        max_length=4_096,
        extra={"secret": True, "shown": "url", "expects": "a URL that begins with postgresql://"},
    ),
]
# What is called by a name. A variable that sets a key of one has _ in place of each hyphen.
TargetName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9_-]{0,63}\Z",
        extra={"expects": "a name of 1 to 64 characters a-z, 0-9, _ and -, a letter first"},
    ),
]
_TARGET_URL = (
    r"^(\Z|https?://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)(:[0-9]{1,5})?"
    r"([/?][!\"$-~]*)?\Z)"
)
_TARGET_URL_EXPECTED = "a URL that begins with https:// (http:// to what allow_addresses names), without login"
FunctionUrl = Annotated[
    str,
    Meta(
        pattern=_TARGET_URL,
        max_length=4_096,
        extra={"secret": True, "shown": "url", "expects": _TARGET_URL_EXPECTED},
    ),
]
# Its path is the secret.
WebhookUrl = Annotated[
    str, Meta(pattern=_TARGET_URL, max_length=4_096, extra={"secret": True, "expects": _TARGET_URL_EXPECTED})
]
# Ranges that a URL may lead to although they are not public; every other such address is refused as it is connected to.
AddressRanges = Annotated[
    str,
    Meta(
        pattern=r"^[0-9A-Fa-f:./\s]*\Z",
        max_length=4_096,
        extra={"expects": 'ranges of addresses with spaces between them, for example "10.1.0.0/16 fd00::/8"'},
    ),
]
# Where what the listener serves can be reached from outside.
PublicUrl = Annotated[
    str,
    Meta(
        pattern=r"^(\Z|https://[^\s/?#@]+(/[^\s?#]*)?\Z|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?(/[^\s?#]*)?\Z)",
        max_length=1_000,
        extra={"expects": "a URL that begins with https:// (http:// at localhost), without query and login"},
    ),
]
Secrets = Annotated[
    str,
    Meta(
        pattern=r"^(\Z|\s*[!-~]{32,}(\s+[!-~]{32,}){0,15}\s*\Z)",
        max_length=4_096,
        extra={
            "secret": True,
            "expects": "1 to 16 secrets of 32 characters or more each, spaces or line ends between them",
        },
    ),
]
# As Standard Webhooks write them: 24 to 64 bytes in base64.
_WHSEC = r"whsec_(?=[A-Za-z0-9+/]{32,86}={0,2}(\s|\Z))([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
WebhookSecrets = Annotated[
    str,
    Meta(
        pattern=rf"^(\Z|\s*{_WHSEC}(\s+{_WHSEC}){{0,15}}\s*\Z)",
        max_length=4_096,
        extra={
            "secret": True,
            "expects": "1 to 16 secrets, each whsec_ and 24 to 64 bytes in base64, spaces or line ends between them",
        },
    ),
]
_TOPIC = r"arn:aws[a-z-]{0,20}:sns:[a-z0-9-]{2,40}:[0-9]{12}:[A-Za-z0-9_.-]{1,256}"
SnsTopics = Annotated[
    str,
    Meta(
        pattern=rf"^(\Z|\s*{_TOPIC}(\s+{_TOPIC}){{0,15}}\s*\Z)",
        max_length=8_192,
        extra={"expects": "1 to 16 ARNs of SNS topics with spaces between them"},
    ),
]
Certificates = Annotated[
    str,
    Meta(
        pattern=r"^(\Z|\s*-----BEGIN CERTIFICATE-----[\s\S]*-----END CERTIFICATE-----\s*\Z)",
        max_length=65_536,
        extra={"expects": "certificates in PEM, one behind the other"},
    ),
]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Share = Annotated[float, Meta(ge=0, le=1)]
Rate = Annotated[float, Meta(ge=0, le=1_000_000)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)]

# What a provider needs to know, by names of its own: scalars, so that each can come from a variable or a file.
Option = str | int | float | bool
