"""The configuration as it may be seen: plain data in which every secret is hidden."""

import re
from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

import msgspec
from msgspec import Struct

from dispatcher.config.fields import Leaf, Many, Node, Options, Table, table_of
from dispatcher.config.settings import Config

HIDDEN = "***"

# The shape of each provider's options.
Tables = Mapping[str, Table]

# Parts of a query that say which database is meant; all others may hold a password or the path of a key.
QUERY_SHOWN = frozenset({"host", "port", "user", "dbname", "database", "sslmode", "target_session_attrs"})

HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(:[0-9]{0,5})?")


def show(config: Config, providers: Mapping[str, type[Struct]] | None = None) -> dict[str, object]:
    """Everything in effect; secrets as stars, empty ones as they are.

    Which of a channel's options are secret is what its provider declares; an undeclared one is hidden.
    """
    plain: dict[str, object] = msgspec.to_builtins(config)
    tables = {name: table_of(options) for name, options in (providers or {}).items()}
    return {key: _seen(node, plain[key], tables) for key, node in table_of(Config).children.items()}


def _seen(node: Node | None, value: object, tables: Tables) -> object:
    if node is None:
        return HIDDEN
    if isinstance(node, Leaf):
        return _hide(node, value) if node.secret and value else value
    if not isinstance(value, dict):
        raise TypeError(f"a table became {type(value).__name__}")
    match node:
        case Table(children=children):
            return {key: _seen(_shape(children.get(key), value, tables), inner, tables) for key, inner in value.items()}
        case Many(value=table):
            return {key: _seen(table, inner, tables) for key, inner in value.items()}
        case Options():
            return dict.fromkeys(value, HIDDEN)


def _shape(node: Node | None, beside: Mapping[str, object], tables: Tables) -> Node | None:
    """A node, and for options the table of the provider that stands beside them."""
    return tables.get(str(beside.get("provider")), node) if isinstance(node, Options) else node


def _hide(leaf: Leaf, value: object) -> str:
    return hide_password(value) if leaf.extra.get("shown") == "url" and isinstance(value, str) else HIDDEN


def hide_password(url: str) -> str:
    """A URL without what is secret in it; all of it is hidden when it cannot be taken apart with certainty."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return HIDDEN
    # A password with an unescaped / ? or # ends up behind the host, and leaves its @ there; one whose host was
    # forgotten stands where the port belongs.
    behind_host = parts.path + parts.query + parts.fragment
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if "://" not in url or "@" in behind_host or parts.fragment or not all(map(HOST.fullmatch, hosts)):
        return HIDDEN
    # Not geturl(): it drops the // of an empty host, which is how a local socket is written.
    query = _query(parts.query)
    return f"{parts.scheme}://{_netloc(parts)}{parts.path}" + (query and "?" + query)


def _netloc(parts: SplitResult) -> str:
    login, at, host = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{user}{colon and colon + HIDDEN}{at}{host}"


def _query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    return urlencode([(key, value if key in QUERY_SHOWN else HIDDEN) for key, value in pairs], safe="/*,:")
