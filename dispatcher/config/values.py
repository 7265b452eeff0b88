"""Values of the configuration: what a name, a URL, a secret or a number may look like, and how a fault describes it."""

from typing import Annotated

from msgspec import Meta


def described(expects: str, pattern: str | None = None, length_max: int | None = 4_096, **more: object) -> Meta:
    """Return what a text may look like. `expects` is how a fault describes it.

    `secret=True` hides the whole value wherever configuration is printed; `shown="url"` lets all but the password be
    seen. Patterns end in \\Z and not in $, which in Python also matches before a last newline.
    """
    return Meta(pattern=pattern, max_length=length_max, extra={"expects": expects, **more})


Name = Annotated[
    str, described("a name of 1 to 32 characters a-z, 0-9 and _, a letter first", r"^[a-z][a-z0-9_]{0,31}\Z", None)
]
# 255 is what a hostname may have at most; a path or URL longer than 4096 is a mistake.
ShortText = Annotated[str, Meta(min_length=1, max_length=255)]
LongText = Annotated[str, Meta(min_length=1, max_length=4_096)]
PostgresUrl = Annotated[
    str,
    described("a URL that begins with postgresql://", r"^(\Z|postgres(ql)?://)", secret=True, shown="url"),
]
# A variable that sets a key of a target has _ in place of each hyphen.
TargetName = Annotated[
    str, described("a name of 1 to 64 characters a-z, 0-9, _ and -, a letter first", r"^[a-z][a-z0-9_-]{0,63}\Z", None)
]
_TARGET_URL = (
    r"^(\Z|https?://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)(:[0-9]{1,5})?"
    r"([/?][!\"$-~]*)?\Z)"
)
_TARGET_URL_EXPECTED = "a URL that begins with https:// (http:// to what allow_addresses names), without login"
FunctionUrl = Annotated[str, described(_TARGET_URL_EXPECTED, _TARGET_URL, secret=True, shown="url")]
# Its path is the secret.
WebhookUrl = Annotated[str, described(_TARGET_URL_EXPECTED, _TARGET_URL, secret=True)]
# A collector is in the operator's own network.
CollectorUrl = Annotated[str, described("a URL that begins with http:// or https://, without login", _TARGET_URL)]
# It has a key, which may send events and do nothing else.
SentryDsn = Annotated[
    str,
    described(
        "a DSN of Sentry, https://KEY@HOST/PROJECT",
        r"^(\Z|https?://[A-Za-z0-9]+@[A-Za-z0-9.:-]+(/[!-~]*)?/[0-9]+\Z)",
        secret=True,
    ),
]
# Ranges that a URL may lead to although they are not public; every other such address is refused as it is connected to.
AddressRanges = Annotated[
    str,
    described(
        'ranges of addresses with spaces between them, for example "10.1.0.0/16 fd00::/8"', r"^[0-9A-Fa-f:./\s]*\Z"
    ),
]
# The outside address of the listener.
PublicUrl = Annotated[
    str,
    described(
        "a URL that begins with https:// (http:// at localhost), without query and login",
        r"^(\Z|https://[^\s/?#@]+(/[^\s?#]*)?\Z|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?(/[^\s?#]*)?\Z)",
        1_000,
    ),
]
Secrets = Annotated[
    str,
    described(
        "1 to 16 secrets of 32 characters or more each, spaces or line ends between them",
        r"^(\Z|\s*[!-~]{32,}(\s+[!-~]{32,}){0,15}\s*\Z)",
        secret=True,
    ),
]
# As Standard Webhooks write them: 24 to 64 bytes in base64.
_WHSEC = r"whsec_(?=[A-Za-z0-9+/]{32,86}={0,2}(\s|\Z))([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
WebhookSecrets = Annotated[
    str,
    described(
        "1 to 16 secrets, each whsec_ and 24 to 64 bytes in base64, spaces or line ends between them",
        rf"^(\Z|\s*{_WHSEC}(\s+{_WHSEC}){{0,15}}\s*\Z)",
        secret=True,
    ),
]
_TOPIC = r"arn:aws[a-z-]{0,20}:sns:[a-z0-9-]{2,40}:[0-9]{12}:[A-Za-z0-9_.-]{1,256}"
SnsTopics = Annotated[
    str,
    described(
        "1 to 16 ARNs of SNS topics with spaces between them",
        rf"^(\Z|\s*{_TOPIC}(\s+{_TOPIC}){{0,15}}\s*\Z)",
        8_192,
    ),
]
Certificates = Annotated[
    str,
    described(
        "certificates in PEM, one behind the other",
        r"^(\Z|\s*-----BEGIN CERTIFICATE-----[\s\S]*-----END CERTIFICATE-----\s*\Z)",
        65_536,
    ),
]
Token = Annotated[
    str,
    described("a token of at most 4096 printable characters without spaces", r"^[!-~]{0,4096}\Z", None, secret=True),
]
# A tenant and a workspace.
WorkspacePath = Annotated[
    str,
    described(
        "a tenant and a workspace with a slash between them, such as default/default",
        r"^(\Z|[^/\0]{1,100}/[^/\0]{1,100}\Z)",
        None,
    ),
]
Origins = Annotated[
    str,
    described(
        "origins such as https://shop.example.org, spaces between them",
        r"^\s*(\Z|https?://[A-Za-z0-9.:\[\]-]+(\s+https?://[A-Za-z0-9.:\[\]-]+)*\s*\Z)",
    ),
]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Share = Annotated[float, Meta(ge=0, le=1)]
Rate = Annotated[float, Meta(ge=0, le=1_000_000)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)]

# An option of a provider: a scalar, so that it can come from a variable or a file.
Option = str | int | float | bool
