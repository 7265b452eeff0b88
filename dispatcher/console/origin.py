"""The origin of a form: only pages of this console may send one."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from dispatcher.http.problems import FORBIDDEN, Problem


def is_https(headers: Mapping[str, str]) -> bool:
    """Whether the browser reached us by TLS, as it or a proxy says: cookies are then kept from plain HTTP."""
    said = headers.get("origin") or headers.get("referer") or ""
    forwarded = headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return said.startswith("https://") or forwarded == "https"


def require_own(headers: Mapping[str, str]) -> None:
    """Raise Problem unless a form was sent by a page of the same origin.

    Browsers say so themselves (Sec-Fetch-Site), whatever a proxy makes of the host; older ones send Origin.
    """
    site = headers.get("sec-fetch-site", "")
    host = urlsplit(headers.get("origin", "")).netloc
    if site != "same-origin" and (site or not host or host != headers.get("host", "")):
        raise Problem(FORBIDDEN, "the form was sent from another site")


def is_foreign(headers: Mapping[str, str]) -> bool:
    """Whether a link on another site leads here: the browser then keeps the session's cookie back."""
    return headers.get("sec-fetch-site", "") == "cross-site"
