"""The pages of unsubscribe links: one HTML document each, with its style and without scripts."""

from base64 import b64encode
from hashlib import sha256
from html import escape

from dispatcher.engine.rules.unsubscribe_links import Subscription

STYLE = """
:root { color-scheme: light dark; }
body { margin: 10vh auto; max-width: 34rem; padding: 0 1.25rem; font: 1.1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; }
strong { overflow-wrap: anywhere; }
button { display: block; width: 100%; margin: .75rem 0; padding: .75rem 1rem; font: inherit; cursor: pointer; }
"""
STYLE_HASH = "sha256-" + b64encode(sha256(STYLE.encode()).digest()).decode()


def confirmation(one: Subscription) -> str:
    """Return the page that asks for confirmation."""
    whom = f"<strong>{escape(one.address)}</strong>"
    everything = _button("everything", "Unsubscribe from everything")
    if one.topic is None:
        return _page("Unsubscribe", f"<p>Should {whom} get no more of our messages?</p>\n{everything}")
    topic = escape(one.topic)
    words = f"<p>Should {whom} get no more messages about <strong>{topic}</strong>?</p>"
    return _page("Unsubscribe", f"{words}\n{_button('topic', f'Unsubscribe from {topic}')}\n{everything}")


def done(one: Subscription, topic: str | None) -> str:
    """Return the page after unsubscribing."""
    about = "" if topic is None else f" about <strong>{escape(topic)}</strong>"
    words = f"<p><strong>{escape(one.address)}</strong> gets no more messages{about}."
    return _page("You are unsubscribed", f"{words} You can close this page.</p>")


def invalid_link() -> str:
    """Return the page of an invalid link, without a reason."""
    words = "<p>It may have been cut off on its way. Please open the link from the message again, whole.</p>"
    return _page("This link does not work", words)


def unavailable() -> str:
    """Return the page for a database that is unavailable."""
    return _page("Not now", "<p>Nothing was changed. Please try again in a minute.</p>")


def _button(what: str, words: str) -> str:
    """A form that posts to the URL of the page, whatever a proxy has made of it."""
    return f'<form method="post"><button name="from" value="{what}">{words}</button></form>'


def _page(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""
