"""Properties of loading the configuration."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from msgspec import Struct, structs

from channels import registry
from dispatcher.base.errors import ConfigError
from dispatcher.config import load
from dispatcher.config.cell import Cell
from dispatcher.config.fields import Keys, Leaf, Many, Node, Options, expected, table_of
from dispatcher.config.rules import relations
from dispatcher.config.settings import (
    CHANNELS,
    Alerts,
    Api,
    Channel,
    ChannelProvider,
    Config,
    Database,
    Faults,
    Function,
    Receipts,
    Staging,
    Tracing,
    Unsubscribe,
    Webhook,
)
from dispatcher.config.sources import FILE_BYTES_MAX


class Nothing(Struct, frozen=True):
    """A provider without options; those with some have a file of their own."""


PROVIDERS: dict[str, type[Struct]] = dict.fromkeys(("capture", "blackhole", "smtp", "webhooks"), Nothing)
URL = "https://f.example.org/call"
CALLED = {"email": Function(url=URL, token="t", allow_addresses="10.0.0.0/8")}
SEVERAL = Channel(providers={"email": ChannelProvider(provider="capture")})
POSTED = {"email": Webhook(url=URL, allow_addresses="10.0.0.0/8")}
STAGED = Staging(allow="@example.org", redirect="email=qa@example.org")
TOLD = Alerts(
    slack=URL, allow_addresses="10.0.0.0/8", environment="staging", sentry="https://key@sentry.example.org/17"
)
LINKS = Unsubscribe("https://mail.example.org", "s" * 32)
PEM = """\
-----BEGIN CERTIFICATE-----
MIIBcjCCARegAwIBAgIUcaShior/6Ayq0bx0NhIX+o1RQpYwCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCZWMwIBcNMjYxMTE4MTY0NzE1WhgPMjEyNjEwMjUxNjQ3MTVa
MA0xCzAJBgNVBAMMAmVjMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAENC+Gc3Kp
KXVJVxp1W4qAPlACstmDht02I7ArU7nKuWjSz+bMMFqwQfHY0UYVOJnJghU0Tpf5
ADkuLlDdJvVmJ6NTMFEwHQYDVR0OBBYEFKKWLGGjKf1HBbwZlYx5Stxg1CNvMB8G
A1UdIwQYMBaAFKKWLGGjKf1HBbwZlYx5Stxg1CNvMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSQAwRgIhALhxoh328E2ibwW+qZtSA+tncXlzY+qbyErhthQX
mc2SAiEA0HnjmL1bmtG70hyAzku8VviWPYwO0Vnr4Dna3xaKlTc=
-----END CERTIFICATE-----"""
TOPIC = "arn:aws:sns:eu-west-1:123456789012:mail"
WHSEC = "whsec_" + "c2Vj" * 11
HEARD = Receipts("https://mail.example.org", "t" * 32, WHSEC, f"{WHSEC} {WHSEC}", TOPIC, PEM)
POOLED = Database(url="postgresql://pooler/d", listen_url="postgresql://h/d")
ANNOTATED = Path(__file__).parents[2] / "ops" / "dispatcher.toml"


def loaded(toml: str = "", environ: Mapping[str, str] | None = None) -> Config:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dispatcher.toml"
        path.write_text(toml, encoding="utf-8")
        return load(path, environ or {}, PROVIDERS)


def faults(toml: str = "", environ: Mapping[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        loaded(toml, environ)
    found = {fault.path: fault.message for fault in caught.value.faults}
    assert len(found) == len(caught.value.faults), "a path is named twice"
    assert len(str(caught.value).splitlines()) == len(found)
    return found


def leaves(node: Node, at: Keys = ()) -> Iterator[tuple[Keys, Leaf]]:
    match node:
        case Leaf():
            yield at, node
        case Many(value=table):
            yield from leaves(table, (*at, "email"))
        case Options():
            # The provider's affair; by default it has none.
            pass
        case _:
            for key, child in node.children.items():
                yield from leaves(child, (*at, key))


LEAVES = dict(leaves(table_of(Config)))


# Defaults, merging


def test_nothing_given_is_the_defaults() -> None:
    assert load(None, {}, PROVIDERS) == loaded() == Config()


def test_the_defaults_are_within_their_own_bounds() -> None:
    assert msgspec.convert(msgspec.to_builtins(Config()), Config) == Config()
    assert all(relation.holds for relation in relations(Config()))


def test_the_annotated_file_is_the_defaults() -> None:
    assert load(ANNOTATED, {}, registry.PROVIDERS) == Config()


def test_the_annotated_file_names_every_key() -> None:
    named = {("functions", "email", *keys[2:]) if keys[0] == "functions" else keys for keys in _named()}
    named = {("webhooks", "email", *keys[2:]) if keys[0] == "webhooks" else keys for keys in named}
    named = {(*keys[:3], "email", *keys[4:]) if "providers" in keys else keys for keys in named}
    named = {("channels", "email", *keys[2:]) if keys[0] == "channels" else keys for keys in named}
    # The default is the host's name, which no file can state: there it is a comment.
    assert re.search(r"^# name = ", ANNOTATED.read_text(encoding="utf-8"), re.MULTILINE)
    assert named == LEAVES.keys() - {("instance", "name")}


def test_commented_options_of_the_annotated_file_are_the_defaults() -> None:
    shown = loaded(_shown())
    (function,), (webhook,) = shown.functions.values(), shown.webhooks.values()
    (provider,) = shown.channels["sms"].providers.values()
    assert provider == ChannelProvider(provider="capture")
    assert function == Function(url=function.url)
    assert webhook == Webhook(url=webhook.url)


def _shown() -> str:
    """The annotated file with what it has no default for: such keys have their # without a space behind it."""
    text = re.sub(r"^#(?=[\[a-z])", "", ANNOTATED.read_text(encoding="utf-8"), flags=re.MULTILINE)
    # Options are the provider's, and another file's affair.
    return text.replace("[channels.email.options]", "")


def _named() -> set[Keys]:
    return {keys for keys, _ in _flat(tomllib.loads(_shown()))}


def _flat(table: Mapping[str, object], at: Keys = ()) -> Iterator[tuple[Keys, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, (*at, key))
        else:
            yield (*at, key), value


@pytest.mark.parametrize("toml", ["channels = {}", "[channels.sms]", "[channels.sms]\nmarked_max = 7"])
def test_built_in_channels_always_exist(toml: str) -> None:
    channels = loaded(toml).channels
    assert tuple(channels) == CHANNELS
    others = {name: channel for name, channel in channels.items() if name not in ("sms", "webhook")}
    assert all(channel == Channel() for channel in others.values())


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("", Channel(provider="webhooks")),
        ("[channels.webhook]\nmarked_max = 7", Channel(provider="webhooks", marked_max=7)),
        ('[channels.webhook]\nprovider = "capture"', Channel()),
    ],
)
def test_webhook_deliveries_are_captured_only_where_configured(toml: str, expected: Channel) -> None:
    assert loaded(toml).channels["webhook"] == expected
    assert loaded(toml, {"DISPATCHER_CHANNELS__WEBHOOK__PROVIDER": "capture"}).channels["webhook"].provider == "capture"


def test_a_new_channel_comes_beside_the_built_in_ones() -> None:
    config = loaded('[channels.pager]\nprovider = "smtp"', {"DISPATCHER_CHANNELS__FAX__MARKED_MAX": "9"})
    assert set(config.channels) == {*CHANNELS, "pager", "fax"}
    assert config.channels["pager"] == Channel(provider="smtp")
    assert config.channels["fax"] == Channel(marked_max=9)


# The environment


def test_the_environment_wins_over_the_file() -> None:
    config = loaded("[claim]\npoll_seconds = 3\nbatch_max = 5", {"DISPATCHER_CLAIM__POLL_SECONDS": "0.5"})
    assert (config.claim.poll_seconds, config.claim.batch_max) == (0.5, 5)


def test_a_variable_reaches_a_nested_key_of_a_channel() -> None:
    config = loaded("[channels.sms.faults]\nretry = 0.2", {"DISPATCHER_CHANNELS__SMS__FAULTS__REFUSE": "0.1"})
    assert config.channels["sms"].faults == Faults(refuse=0.1, retry=0.2)


@pytest.mark.parametrize("keys", LEAVES, ids=".".join)
def test_every_key_can_be_given_by_a_variable(keys: Keys) -> None:
    there = Config(
        database=POOLED,
        cell=Cell(directory="/etc/dispatcher/cells.json"),
        api=Api(allow_origins="https://shop.example.org http://localhost:3000"),
        unsubscribe=LINKS,
        receipts=HEARD,
        alerts=TOLD,
        tracing=Tracing(endpoint="http://collector:4318/v1/traces"),
        staging=STAGED,
        functions=CALLED,
        webhooks=POSTED,
        channels={"email": SEVERAL if "providers" in keys else Channel()},
    )
    value = msgspec.to_builtins(there)
    for key in keys:
        value = value[key]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    # These go together, and so does a name with what it stands for.
    beside = {f"DISPATCHER_UNSUBSCRIBE__{key.upper()}": value for key, value in structs.asdict(LINKS).items()}
    beside |= {"DISPATCHER_DATABASE__URL": POOLED.url, "DISPATCHER_DATABASE__LISTEN_URL": POOLED.listen_url}
    beside |= {f"DISPATCHER_RECEIPTS__{key.upper()}": value for key, value in structs.asdict(HEARD).items()}
    beside |= _target(keys)
    given = {"DISPATCHER_" + "__".join(keys).upper(): text}
    config = loaded(environ=beside | given)
    for key in keys:
        config = config[key] if isinstance(config, dict) else getattr(config, key)
    assert config == value


def _target(keys: Keys) -> dict[str, str]:
    """The required options of a function, a webhook or a provider."""
    if "providers" in keys:
        return {"DISPATCHER_CHANNELS__EMAIL__PROVIDERS__EMAIL__PROVIDER": "capture"}
    return {f"DISPATCHER_{keys[0].upper()}__EMAIL__URL": URL} if keys[0] in ("functions", "webhooks") else {}


def test_a_file_is_held_to_its_types_and_a_variable_is_text() -> None:
    assert loaded(environ={"DISPATCHER_HTTP__ENABLED": "false"}).http.enabled is False
    assert "http.port" in faults('[http]\nport = "80"')
    assert "http.enabled" in faults("[http]\nenabled = 1")
    assert "claim.batch_max" in faults("[claim]\nbatch_max = 1.0")


@pytest.mark.parametrize("name", ["DISPATCHER_DATABASE_URL", "DISPATCHER_DATABASE__URL"])
def test_the_database_has_a_well_known_variable(name: str) -> None:
    assert loaded(environ={name: "postgresql://h/d"}).database.url == "postgresql://h/d"


@pytest.mark.parametrize("name", ["DISPATCHER_DATABASE_URL_FILE", "DISPATCHER_DATABASE__URL_FILE"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_secret_is_read_from_a_file_without_its_last_newline(tmp_path: Path, name: str, end: str) -> None:
    secret = tmp_path / "url"
    secret.write_bytes(f"postgresql://u:p@h/d{end}".encode())
    assert loaded(environ={name: str(secret)}).database.url == "postgresql://u:p@h/d"


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff", b"x" * 70_000])
def test_an_unusable_secret_file_is_a_fault(tmp_path: Path, content: bytes | None) -> None:
    secret = tmp_path / "url"
    if content is not None:
        secret.write_bytes(content)
    found = faults(environ={"DISPATCHER_DATABASE_URL_FILE": str(secret)})
    assert "DISPATCHER_DATABASE_URL_FILE" in found["database.url"]


def test_a_value_given_twice_by_variables_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("postgresql://h/d")
    names = {
        "DISPATCHER_DATABASE_URL": "postgresql://h/d",
        "DISPATCHER_DATABASE_URL_FILE": str(tmp_path / "url"),
        "DISPATCHER_DATABASE__URL": "postgresql://h/d",
    }
    message = faults(environ=names)["database.url"]
    assert all(name in message for name in names)


@pytest.mark.parametrize(
    ("given", "path"),
    [('listen_url = "postgresql://h/d"', "database.url"), ("pooler_prepares = true", "database.listen_url")],
)
def test_a_pooler_needs_two_urls(given: str, path: str) -> None:
    assert "is missing" in faults(f"[database]\n{given}")[path]


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ('public_url = "https://mail.example.org"', "unsubscribe.secrets", "must be signed"),
        (f'secrets = "{"s" * 32}"', "unsubscribe.public_url", "where the links"),
        ('public_url = "http://mail.example.org"', "unsubscribe.public_url", "begins with https://"),
        ('public_url = "https://u:p@mail.example.org"', "unsubscribe.public_url", "begins with https://"),
        (f'secrets = "{"s" * 31}"', "unsubscribe.secrets", "32 characters or more"),
    ],
)
def test_links_that_would_not_work_are_refused(given: str, path: str, words: str) -> None:
    message = faults(f"[unsubscribe]\n{given}")[path]
    assert words in message
    assert "s" * 31 not in message


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ({"twilio_tokens": "t" * 32}, "public_url", "Twilio signs the URL"),
        ({"public_url": "ftp://mail.example.org"}, "public_url", "begins with https://"),
        ({"public_url": "https://m.example.org?x=1"}, "public_url", "begins with https://"),
        ({"twilio_tokens": "t" * 31, "public_url": "https://m.example.org"}, "twilio_tokens", "32 characters"),
        ({"resend_secrets": WHSEC.removeprefix("whsec_")}, "resend_secrets", "whsec_"),
        ({"resend_secrets": "whsec_" + "c2Vj" * 7}, "resend_secrets", "24 to 64 bytes"),
        ({"resend_secrets": WHSEC + "c"}, "resend_secrets", "base64"),
        ({"resend_secrets": WHSEC + "c==="}, "resend_secrets", "base64"),
        ({"resend_secrets": f"{WHSEC},{WHSEC}"}, "resend_secrets", "spaces or line ends"),
        ({"generic_secrets": "whsec_" + "c2Vj" * 30}, "generic_secrets", "24 to 64 bytes"),
        ({"ses_topics": TOPIC}, "ses_certificates", "signed with"),
        ({"ses_certificates": PEM}, "ses_topics", "everybody's topics"),
        ({"ses_topics": TOPIC.replace(":sns:", ":sqs:"), "ses_certificates": PEM}, "ses_topics", "ARNs"),
        ({"ses_topics": TOPIC, "ses_certificates": PEM.replace("MII", "MIJ")}, "ses_certificates", "no certificate"),
        ({"ses_topics": TOPIC, "ses_certificates": "/etc/sns.pem"}, "ses_certificates", "in PEM"),
    ],
)
def test_receipts_that_could_not_be_verified_are_refused(given: Mapping[str, str], path: str, words: str) -> None:
    environ = {f"DISPATCHER_RECEIPTS__{key.upper()}": value for key, value in given.items()}
    message = faults(environ=environ)[f"receipts.{path}"]
    assert words in message
    assert "c2Vj" not in message
    assert "ttt" not in message


@pytest.mark.parametrize("ending", ["", "cw==", "c2U=", "c2Vj"])
def test_a_webhook_secret_may_have_any_length_within_its_bounds(ending: str) -> None:
    assert loaded(f'[receipts]\nresend_secrets = "{WHSEC}{ending}"').receipts.resend_secrets.endswith(ending)


@pytest.mark.parametrize("name", ["DISPATCHER_CONFIG", "DISPATCHER_URL", "DISPATCHER_KEY", "DISPATCHER_CLAIM", "PATH"])
def test_a_name_without_a_double_underscore_is_left_alone(name: str) -> None:
    assert loaded(environ={name: "anything"}) == Config()


@pytest.mark.parametrize(
    ("name", "path", "words"),
    [
        ("DISPATCHER_CLAM__POLL_SECONDS", "clam", 'did you mean "claim"'),
        ("DISPATCHER_CLAIM__POLL_SECOND", "claim.poll_second", 'did you mean "poll_seconds"'),
        ("DISPATCHER_CLAIM__POLL_SECOND_FILE", "claim.poll_second", 'did you mean "poll_seconds"'),
        ("DISPATCHER__CLAIM__POLL_SECONDS", "_claim", 'did you mean "claim"'),
        ("DISPATCHER_CHANNELS__SMS", "channels.sms", "is a table"),
        ("DISPATCHER_CHANNELS__SMS__FAULTS", "channels.sms.faults", "is a table"),
        ("DISPATCHER_CHANNELS__SMS__OPTIONS", "channels.sms.options", "is a table"),
        ("DISPATCHER_CHANNELS__SMS__OPTIONS__", 'channels.sms.options.""', "unknown key"),
        ("DISPATCHER_CHANNELS__SMS__OPTIONS__A__B", "channels.sms.options.a.b", "unknown key"),
        ("DISPATCHER_CHANNELS__9__PROVIDER", "channels.9", "unknown key"),
        ("DISPATCHER_LOG__LEVEL__X", "log.level.x", "unknown key"),
        ("DISPATCHER_LOG__", 'log.""', "unknown key"),
    ],
)
def test_a_variable_that_leads_nowhere_is_a_fault(name: str, path: str, words: str) -> None:
    message = faults(environ={name: "1"})[path]
    assert words in message
    assert name in message


def test_an_empty_variable_does_not_mean_the_embedded_database() -> None:
    message = faults('[database]\nurl = "postgresql://h/d"', {"DISPATCHER_DATABASE_URL": ""})["database.url"]
    assert "is empty" in message


def test_a_variable_other_than_a_text_is_a_fault() -> None:
    assert "not UTF-8" in faults(environ={"DISPATCHER_INSTANCE__NAME": "a\udc80"})["instance.name"]


# Faults


def test_every_fault_is_named_with_its_path() -> None:
    toml = """
    colour = 1
    retry = 3
    [claim]
    poll_secs = 1
    batch_max = 0
    [log]
    level = "inof"
    [channels.sms]
    rate_per_second = -1
    provider = "smpt"
    [channels.sms.faults]
    refuse = 3
    [channels.email]
    at_least_once = "yes"
    [channels.Fax]
    [[janitor]]
    """
    found = faults(toml, {"DISPATCHER_FLUSH__BATCH_MAX": "many", "DISPATCHER_FLASH__BATCH_MAX": "1"})
    assert found == {
        "colour": "unknown key",
        "retry": "expected a table, got a single value",
        "janitor": "expected a table, got a list",
        "claim.poll_secs": 'unknown key; did you mean "poll_seconds"?',
        "claim.batch_max": "expected a whole number from 1 to 10000, got 0",
        "log.level": 'expected one of "debug", "error", "info", "warning", got "inof"; did you mean "info"?',
        "channels.sms.rate_per_second": "expected a number from 0 to 1000000, got -1",
        "channels.sms.provider": 'unknown provider "smpt"; did you mean "smtp"?; known are: blackhole, capture, smtp,'
        " webhooks",
        "channels.sms.faults.refuse": "expected a number from 0 to 1, got 3",
        "channels.email.at_least_once": 'expected true or false, got "yes"',
        "channels.Fax": 'expected a name of 1 to 32 characters a-z, 0-9 and _, a letter first, got "Fax"',
        "flush.batch_max": 'expected a whole number from 1 to 10000, got "many" (from DISPATCHER_FLUSH__BATCH_MAX)',
        "flash": 'unknown key "flash"; did you mean "flush"? (from DISPATCHER_FLASH__BATCH_MAX)',
    }


@pytest.mark.parametrize("keys", LEAVES, ids=".".join)
def test_a_wrong_type_is_a_fault_at_every_key(keys: Keys) -> None:
    *tables, key = keys
    found = faults(f"[{'.'.join(tables)}]\n{key} = [1979-05-27]", {} if key in ("url", "provider") else _target(keys))
    assert set(found) == {".".join(keys)}
    assert expected(LEAVES[keys]) in found[".".join(keys)]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "0", "86400.5", "true", "0x" + "f" * 5_000, "1979-05-27"])
def test_no_strange_number_passes_as_seconds(value: str) -> None:
    found = faults(f"[claim]\npoll_seconds = {value}")
    assert "expected a number over 0 and up to 86400" in found["claim.poll_seconds"]


def test_a_name_does_not_end_in_a_newline() -> None:
    assert 'channels."sms\\n"' in faults('[channels."sms\\n"]\n')
    assert "channels.sms.provider" in faults('[channels.sms]\nprovider = "capture\\n"')


def test_an_empty_host_is_not_every_interface() -> None:
    assert "http.host" in faults('[http]\nhost = ""')


def test_channels_have_a_limit() -> None:
    toml = "".join(f"[channels.c{number}]\n" for number in range(56))
    assert "at most 64" in faults(toml)["channels"]
    assert len(loaded(toml.removesuffix("[channels.c55]\n")).channels) == 64


def test_a_provider_that_does_not_exist_is_a_fault_even_by_default() -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, {}, {"smtp": Nothing})
    assert {fault.path for fault in caught.value.faults} == {f"channels.{name}.provider" for name in CHANNELS}


@pytest.mark.parametrize(
    ("toml", "path"),
    [
        ("[instance]\nlicence_seconds = 9", "instance.licence_seconds"),
        ("[instance]\nlease_seconds = 10\nheartbeat_seconds = 4.1", "instance.lease_seconds"),
        ("[retry]\nbase_seconds = 10\ncap_seconds = 9", "retry.base_seconds"),
        ("[flush]\nbatch_max = 10\npending_max = 9", "flush.batch_max"),
        ("[channels.sms]\nrate_burst = 0.5", "channels.sms.rate_burst"),
        ("[channels.sms.faults]\nrefuse = 0.6\nhang = 0.6", "channels.sms.faults"),
    ],
)
def test_a_broken_relation_is_a_fault(toml: str, path: str) -> None:
    assert set(faults(toml)) == {path}


@pytest.mark.parametrize(
    "toml",
    [
        "[instance]\nlicence_seconds = 8",
        "[instance]\nlease_seconds = 10\nheartbeat_seconds = 4",
        "[retry]\nbase_seconds = 10\ncap_seconds = 10",
        "[channels.sms]\nrate_burst = 1",
        "[channels.sms.faults]\nrefuse = 0.7\nretry = 0.1\nthrottle = 0.1\nunknown = 0.1\nlatency = 1",
    ],
)
def test_a_relation_holds_at_its_limit(toml: str) -> None:
    loaded(toml)


def test_broken_relations_are_found_beside_other_faults() -> None:
    found = faults("[retry]\nbase_seconds = 10\ncap_seconds = 9\njitter = 2\n[instance]\nlicence_seconds = 9")
    assert set(found) == {"retry.base_seconds", "retry.jitter", "instance.licence_seconds"}


def test_a_relation_with_a_faulty_key_is_not_judged_by_its_default() -> None:
    assert set(faults('[retry]\nbase_seconds = 9000\ncap_seconds = "9h"')) == {"retry.cap_seconds"}


def test_a_broken_relation_names_the_variables_in_it() -> None:
    message = faults(environ={"DISPATCHER_RETRY__CAP_SECONDS": "1"})["retry.base_seconds"]
    assert "DISPATCHER_RETRY__CAP_SECONDS" in message


# The file itself


@pytest.mark.parametrize(
    ("toml", "place"),
    [
        ("[claim]\nbatch_max = = 1", "line 2, column 13"),
        ("[claim]\nbatch_max =", "line 2, column 12"),
        ("a = 1\nb", "line 2, column 2"),
        ("a = 1\na = 2\n", "line 2, column 6"),
    ],
)
def test_broken_toml_is_one_fault_with_its_place(toml: str, place: str) -> None:
    (message,) = faults(toml).values()
    assert message.startswith("is not valid TOML: ")
    assert message.endswith(f" at {place}")


def test_broken_toml_does_not_hide_the_faults_of_the_environment() -> None:
    assert "claim.batch_max" in faults("=", {"DISPATCHER_CLAIM__BATCH_MAX": "0"})


UNREADABLE = (None, b"\xff", b"#" * (FILE_BYTES_MAX + 1), b"x = " + b"[" * 9_000, b"x = " + b"9" * 5_000)


@pytest.mark.parametrize("content", UNREADABLE, ids=["missing", "encoding", "size", "depth", "digits"])
def test_a_file_that_cannot_be_read_is_one_fault_with_its_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "dispatcher.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path, {}, PROVIDERS)
    (fault,) = caught.value.faults
    assert fault.path == str(path)


# Secrets


@pytest.mark.parametrize(
    ("toml", "environ"),
    [
        ('[database]\nurl = "mysql://u:hunter2@h"', {}),
        ('[database]\nurl = ["hunter2"]', {}),
        ('database = "postgresql://u:hunter2@h"', {}),
        ("", {"DISPATCHER_DATABASE_URL": "hunter2"}),
        ("", {"DISPATCHER_DATABASE_URL_FILE": "/hunter2"}),
        ("", {"DISPATCHER_DATABASE_URL_FILE": "hunter2\0"}),
        ("", {"DISPATCHER_DATABASE__URI": "hunter2"}),
        ("passwort = 'hunter2'\n[database]\nurl = hunter2", {}),
    ],
)
def test_a_fault_never_shows_a_secret(toml: str, environ: dict[str, str]) -> None:
    assert "hunter2" not in str(faults(toml, environ))


@pytest.mark.parametrize("key", ["LOG__LEVEL", "CHANNELS__SMS__PROVIDER", "CLAIM__POLL_SECONDS"])
def test_a_value_from_a_file_is_not_shown(tmp_path: Path, key: str) -> None:
    (tmp_path / "value").write_text("hunter2")
    message = str(faults(environ={f"DISPATCHER_{key}_FILE": str(tmp_path / "value")}))
    assert "hunter2" not in message
    assert f"DISPATCHER_{key}_FILE" in message


# The shape


def test_every_leaf_has_words_for_what_it_expects() -> None:
    assert all(expected(leaf) for leaf in LEAVES.values())


def test_every_section_is_frozen_and_strict() -> None:
    sections = (value for value in structs.asdict(Config()).values() if isinstance(value, Struct))
    for struct in (Config(), Channel(), Faults(), *sections):
        assert struct.__struct_config__.frozen
        assert struct.__struct_config__.forbid_unknown_fields


def test_what_takes_an_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"DISPATCHER_TRACING__ENDPOINT": "http://collector:4318/v1/traces"}
    assert load(None, environment, PROVIDERS).tracing.endpoint
    monkeypatch.setattr("dispatcher.config.rules.find_spec", lambda _name: None)
    with pytest.raises(ConfigError) as refused:
        load(None, environment, PROVIDERS)
    (fault,) = refused.value.faults
    assert fault.path == "tracing.endpoint"
    assert fault.message.startswith("needs packages that are not installed: pip install 'dispatcher[otel]'")
    assert loaded() == Config()
