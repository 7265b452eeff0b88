"""Properties of a channel's options: the provider declares them, and they are read like everything else."""

import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import pytest
from msgspec import Meta, Struct, structs

from channels.registry import PROVIDERS as REAL
from channels.registry import open_channel
from dispatcher.base.errors import ConfigError
from dispatcher.config import load
from dispatcher.config.fields import FILE_ENDING, Leaf, expected, table_of
from dispatcher.config.settings import Config, Faults
from dispatcher.config.values import Option
from tests.channels.fcm.fake import account
from tests.channels.suite import SECRET

ANNOTATED = Path(__file__).parents[2] / "ops" / "dispatcher.toml"


class Nothing(Struct, frozen=True):
    """A provider without options."""


class Smtp(Struct, frozen=True):
    """A provider with an option of each type; one has no default, one is secret."""

    host: Annotated[str, Meta(min_length=1, max_length=255)]
    port: Annotated[int, Meta(ge=1, le=65_535)] = 25
    wait_seconds: Annotated[float, Meta(gt=0, le=60)] = 5.0
    tls: bool = True
    password: Annotated[str, Meta(min_length=2, max_length=20, extra={"secret": True})] = ""


PROVIDERS: Mapping[str, type[Struct]] = {"capture": Nothing, "smtp": Smtp, "webhooks": Nothing}
BASE = '[channels.email]\nprovider = "smtp"\n[channels.email.options]\nhost = "h"\n'


def loaded(toml: str = "", environ: Mapping[str, str] | None = None) -> Config:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dispatcher.toml"
        path.write_text(toml, encoding="utf-8")
        return load(path, environ or {}, PROVIDERS)


def options(toml: str = "", **environ: str) -> dict[str, Option]:
    prefix = "DISPATCHER_CHANNELS__EMAIL__OPTIONS__"
    return loaded(toml, {prefix + key: value for key, value in environ.items()}).channels["email"].options


def faults(toml: str = "", **environ: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        options(toml, **environ)
    found = {fault.path: fault.message for fault in caught.value.faults}
    assert len(found) == len(caught.value.faults), "a path is named twice"
    return found


def test_given_options_are_kept_and_defaults_left_to_the_provider() -> None:
    assert options(BASE + "port = 26\nwait_seconds = 1\ntls = false") == {
        "host": "h",
        "port": 26,
        "wait_seconds": 1.0,
        "tls": False,
    }


def test_a_variable_is_text_and_gets_the_type_that_the_provider_declares() -> None:
    assert options(BASE + "port = 26", PORT="27", TLS="false", WAIT_SECONDS="0.5", PASSWORD="123") == {
        "host": "h",
        "port": 27,
        "wait_seconds": 0.5,
        "tls": False,
        "password": "123",
    }


def test_a_variable_names_a_file_for_a_secret(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    assert options(BASE, PASSWORD_FILE=str(tmp_path / "password"))["password"] == "hunter2"


def test_variables_alone_make_a_channel() -> None:
    prefix = "DISPATCHER_CHANNELS__PAGER__"
    config = loaded(environ={prefix + "PROVIDER": "smtp", prefix + "OPTIONS__HOST": "h"})
    assert config.channels["pager"].options == {"host": "h"}


def test_every_fault_is_named_with_its_path() -> None:
    toml = '[channels.email]\nprovider = "smtp"\n[channels.email.options]\nhsot = "h"\nport = "26"\ntls = [1]\n'
    assert faults(toml, PROT="1", WAIT_SECONDS="long") == {
        "channels.email.options.hsot": 'unknown key; did you mean "host"?',
        "channels.email.options.host": "is missing: the provider has no default for it",
        "channels.email.options.port": 'expected a whole number from 1 to 65535, got "26"',
        "channels.email.options.tls": "expected true or false, got a list",
        "channels.email.options.prot": (
            'unknown key "prot"; did you mean "port"? (from DISPATCHER_CHANNELS__EMAIL__OPTIONS__PROT)'
        ),
        "channels.email.options.wait_seconds": (
            'expected a number over 0 and up to 60, got "long" (from DISPATCHER_CHANNELS__EMAIL__OPTIONS__WAIT_SECONDS)'
        ),
    }


def test_an_option_that_is_wrong_in_both_places_is_named_once() -> None:
    assert set(faults(BASE + "prot = 1", PROT="2")) == {"channels.email.options.prot"}


def test_an_option_of_another_provider_is_a_fault() -> None:
    assert set(faults("[channels.email.options]\nport = 1")) == {"channels.email.options.port"}


def test_options_of_a_provider_that_does_not_exist_are_not_judged() -> None:
    assert set(faults('[channels.email]\nprovider = "smpt"\n[channels.email.options]\nx = 1')) == {
        "channels.email.provider"
    }
    assert set(faults("[channels.email]\nprovider = 3\n[channels.email.options]\nx = 1")) == {"channels.email.provider"}


def test_options_are_a_table_of_single_values() -> None:
    assert "expected a table" in faults("[channels.email]\noptions = 3")["channels.email.options"]
    assert "got a table" in faults(BASE + "[channels.email.options.port]\nx = 1")["channels.email.options.port"]


def test_a_secret_is_never_shown() -> None:
    long = "hunter2" * 9
    assert "hunter2" not in str(faults(BASE + f'password = "{long}"'))
    assert "hunter2" not in str(faults(BASE, PASSWORD=long))


# The providers that there are

URL = "https://provider.example.org"
EXAMPLES = {"url": URL, "secrets": SECRET, "service_account": account(URL), "account_sid": "AC" + "0" * 32}


@pytest.mark.parametrize("provider", REAL)
def test_a_providers_options_are_frozen_strict_bounded_scalars_that_the_annotated_file_names(provider: str) -> None:
    cls = REAL[provider]
    assert cls.__struct_config__.frozen
    assert cls.__struct_config__.forbid_unknown_fields
    named = ANNOTATED.read_text(encoding="utf-8")
    for field in structs.fields(cls):
        leaf = table_of(cls).children[field.encode_name]
        assert isinstance(leaf, Leaf)
        assert expected(leaf)
        assert not field.encode_name.endswith(FILE_ENDING), "DISPATCHER_..._FILE names a file"
        assert re.search(rf"^#.*\b{field.encode_name} = ", named, re.MULTILINE), field.encode_name


@pytest.mark.parametrize("provider", REAL)
async def test_a_provider_can_be_opened_with_the_options_that_it_requires(provider: str) -> None:
    def connect() -> None:
        raise AssertionError("opening a channel connects to nothing")

    required = {
        field.encode_name: EXAMPLES.get(field.encode_name, "x")
        for field in structs.fields(REAL[provider])
        if field.required
    }
    channel = open_channel(provider, Faults(), connect, required)  # type: ignore[arg-type]  # it must not be called
    await channel.close()


async def test_options_reach_the_provider() -> None:
    def connect() -> None:
        raise AssertionError("opening a channel connects to nothing")

    for keyed in (True, False):
        channel = open_channel("ledger", Faults(), connect, {"keyed": keyed})  # type: ignore[arg-type]  # as above
        assert (channel.idempotency_key_seconds > 0) is keyed
