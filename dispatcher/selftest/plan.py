"""The plan of a trial: how much is sent, how often it is disturbed, and under which configuration replicas run."""

from collections.abc import Mapping
from typing import Literal
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from msgspec import Struct

CLASSES = ("keyed", "keyless")
LANES = 3

# Few in a lane, and few between mark and result: a kill leaves little behind, and hits some.
LANE_CAPACITY = 300
MARKED_MAX = 50
AHEAD_MAX = 1_000
# Answers of the providers wait up to this long, so that calls are under way whenever something happens.
ANSWER_MILLISECONDS_MAX = 40

# Shares of the lease: five heartbeats in it, and a licence that ends well before it.
HEARTBEATS_PER_LEASE = 5
LICENCE_SHARE = 0.5

GRACE_SECONDS = 10.0

KillKind = Literal["kill9", "point", "stop", "term"]


class Plan(Struct, frozen=True):
    kills: int
    messages: int
    replicas: int
    seed: int
    lease_seconds: float
    cuts: int
    # Messages come from campaigns, one for each class.
    campaign: bool = False

    def may_be_written(self, done: int) -> int:
        """Return how many messages may exist after so many disturbances, so that the next one finds work under way."""
        return self.messages * (done + 1) // (self.kills + self.cuts + 1)


def configuration(plan: Plan, ports: Mapping[str, int]) -> str:
    lease = plan.lease_seconds
    heartbeat = lease / HEARTBEATS_PER_LEASE
    lines = [
        "[instance]",
        f"lease_seconds = {lease!r}",
        f"heartbeat_seconds = {heartbeat!r}",
        f"licence_seconds = {lease * LICENCE_SHARE!r}",
        f"grace_seconds = {GRACE_SECONDS!r}",
        "[claim]",
        f"lane_capacity = {LANE_CAPACITY}",
        "[retry]",
        "base_seconds = 0.05",
        "cap_seconds = 1.0",
        "[janitor]",
        "interval_seconds = 1.0",
        "[supervisor]",
        # An epoch that ends is what this is about.
        "restarts_max = 1000",
        "[http]",
        "port = 0",
        "[campaigns]",
        # The first of a job is sent soon behind its expansion: kills meet every stage of a run.
        f"ahead_max = {AHEAD_MAX}",
        f"lock_seconds = {lease!r}",
        "poll_seconds = 0.1",
    ]
    for name, port in ports.items():
        lines += [
            f"[channels.{name}]",
            'provider = "ledger"',
            f"marked_max = {MARKED_MAX}",
            f"options = {{port = {port}, keyed = {str(name == 'keyed').lower()}}}",
        ]
    return "\n".join(lines) + "\n"


def upstream(url: str) -> str:
    """Return the server of a URL as the proxy takes it: the path of its socket, or host and port."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    host = query.get("host", [parts.hostname or "127.0.0.1"])[0]
    port = query.get("port", [str(parts.port or 5432)])[0]
    return f"{host}/.s.PGSQL.{port}" if host.startswith("/") else f"{host}:{port}"


def through(url: str, port: int) -> str:
    """Return a URL that leads through a proxy on this machine; without TLS, which the proxy could not read."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items() if name not in ("host", "port")}
    login = parts.netloc.rpartition("@")[0] + "@" if "@" in parts.netloc else ""
    options = urlencode({"sslmode": "disable"} | query)
    return f"{parts.scheme}://{login}127.0.0.1:{port}{parts.path}?{options}"


def with_database(url: str, name: str) -> str:
    parts = urlsplit(url)
    others = [part for part in parts.query.split("&") if part and part.split("=")[0] not in ("dbname", "database")]
    query = "?" + "&".join(others) if others else ""
    return f"{parts.scheme}://{parts.netloc}/{quote(name)}{query}"
