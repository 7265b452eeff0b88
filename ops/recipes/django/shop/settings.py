"""Settings: just what this needs."""

import os
from urllib.parse import parse_qsl, unquote, urlsplit

_url = urlsplit(os.environ["SHOP_DATABASE_URL"])
_options = dict(parse_qsl(_url.query))

SECRET_KEY = os.environ["SHOP_SECRET_KEY"]
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = ["shop"]
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url.path.removeprefix("/"),
        "USER": unquote(_url.username or ""),
        "PASSWORD": unquote(_url.password or ""),
        # A socket's folder stands among the options of a URL.
        "HOST": _url.hostname or _options.pop("host", ""),
        "PORT": str(_url.port or ""),
        "OPTIONS": _options,
    }
}
