"""Properties of showing the configuration: nothing secret is seen, and everything else is."""

from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct

from dispatcher.config import show
from dispatcher.config.fields import table_of
from dispatcher.config.redacted import hide_password
from dispatcher.config.settings import Channel, ChannelProvider, Config, Database, Faults, Instance

# A busy machine is no failure.
unhurried = settings(deadline=None)


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("", ""),
        ("postgresql://u:hunter2@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql://u:hunter2@a:1,b:2/d", "postgresql://u:***@a:1,b:2/d"),
        ("postgresql://u:hunter2@[::1]:5432/d", "postgresql://u:***@[::1]:5432/d"),
        ("postgresql://u:hunter@2@h/d", "postgresql://u:***@h/d"),
        ("postgresql://h/d?host=/run/pg&password=hunter2", "postgresql://h/d?host=/run/pg&password=***"),
        ("postgresql:///d?sslmode=require", "postgresql:///d?sslmode=require"),
        # Not taken apart with certainty: an unescaped / ? # in the password, a host that was forgotten, no URL at all.
        ("postgresql://u:hun/ter2@h/d", "***"),
        ("postgresql://u:hun?ter2@h/d", "***"),
        ("postgresql://u:hun#ter2@h/d", "***"),
        ("postgresql://u:hun#ter2", "***"),
        ("postgresql://u:hunter2", "***"),
        ("postgresql://[u:hunter2", "***"),
        ("hunter2", "***"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, seen: str) -> None:
    shown = show(Config(database=Database(url=url)))["database"]
    assert isinstance(shown, dict)
    assert shown["url"] == seen


PASSWORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=4).map("secret{}terces".format)


@unhurried
@given(PASSWORDS)
def test_no_password_is_ever_seen_however_badly_it_was_escaped(password: str) -> None:
    seen = hide_password(f"postgresql://u:{password}@h/d")
    assert "secret" not in seen
    assert "terces" not in seen


def test_everything_else_is_shown_as_it_is() -> None:
    config = Config(instance=Instance(name="one"), channels={"sms": Channel(faults=Faults(refuse=0.5))})
    assert msgspec.convert(show(config), Config) == config


def test_an_option_is_shown_when_its_provider_says_that_it_is_no_secret() -> None:
    class Options(Struct, frozen=True):
        token: Annotated[str, Meta(max_length=9, extra={"secret": True})] = ""
        port: int = 25

    config = Config(channels={"sms": Channel(provider="sms77", options={"token": "hunter2", "port": 26})})
    assert _options(show(config, {"sms77": Options})) == {"token": "***", "port": 26}
    assert _options(show(config, {"other": Options})) == _options(show(config)) == {"token": "***", "port": "***"}


def test_a_secret_of_one_of_several_providers_is_not_shown() -> None:
    class Options(Struct, frozen=True):
        token: Annotated[str, Meta(max_length=9, extra={"secret": True})] = ""
        port: int = 25

    main = ChannelProvider(provider="sms77", options={"token": "hunter2", "port": 26})
    shown: Any = show(Config(channels={"sms": Channel(providers={"main": main})}), {"sms77": Options})
    assert shown["channels"]["sms"]["providers"]["main"]["options"] == {"token": "***", "port": 26}


def _options(shown: dict[str, Any]) -> object:
    return shown["channels"]["sms"]["options"]


def test_a_later_secret_is_hidden_without_further_ado(monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(Struct):
        token: Annotated[str, Meta(max_length=9, extra={"secret": True})]
        plain: str

    class Root(Struct):
        many: Annotated[dict[str, Later], Meta(max_length=2)]

    monkeypatch.setattr("dispatcher.config.redacted.table_of", lambda _: table_of(Root))
    shown = show(Root({"a": Later("hunter2", "b"), "c": Later("", "d")}))  # type: ignore[arg-type] # Config of a later day
    assert shown == {"many": {"a": {"token": "***", "plain": "b"}, "c": {"token": "", "plain": "d"}}}
