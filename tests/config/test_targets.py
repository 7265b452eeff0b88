"""Properties of the functions and webhooks of a configuration: every fault has its path, and no secret is seen."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec import structs

from channels.registry import PROVIDERS
from dispatcher.base.errors import ConfigError
from dispatcher.config import load, show
from dispatcher.config.fingerprints import of_config
from dispatcher.config.settings import Config, Function, Webhook

URL = "https://billing.example.org/dispatch"
FUNCTION = f'[functions.create-invoice]\nurl = "{URL}"\n'
WEBHOOK = '[webhooks.acquisition]\nurl = "https://hooks.example.org/services/T0/B0/secret"\n'


def loaded(toml: str = "", environ: Mapping[str, str] | None = None) -> Config:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dispatcher.toml"
        path.write_text(toml, encoding="utf-8")
        return load(path, environ or {}, PROVIDERS)


def faults(toml: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        loaded(toml, environ)
    found = {fault.path: fault.message for fault in caught.value.faults}
    assert len(found) == len(caught.value.faults), "a path is named twice"
    return found


def test_none_are_there_unless_they_are_named() -> None:
    assert (loaded().functions, loaded().webhooks) == ({}, {})


def test_a_function_is_its_url_and_defaults() -> None:
    assert loaded(FUNCTION).functions == {"create-invoice": Function(url=URL)}
    assert set(loaded(WEBHOOK).webhooks) == {"acquisition"}


def test_a_variable_has_an_underscore_for_each_hyphen(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame\n")
    prefix = "DISPATCHER_FUNCTIONS__CREATE_INVOICE__"
    config = loaded(FUNCTION, {prefix + "TOKEN_FILE": str(tmp_path / "token"), prefix + "IDEMPOTENT": "true"})
    assert config.functions == {"create-invoice": Function(url=URL, token="sesame", idempotent=True)}


def test_a_variable_means_the_name_that_it_has_where_there_are_both() -> None:
    both = FUNCTION + FUNCTION.replace("create-invoice", "create_invoice")
    config = loaded(both, {"DISPATCHER_FUNCTIONS__CREATE_INVOICE__TOKEN": "sesame"})
    assert {name: one.token for name, one in config.functions.items()} == {
        "create-invoice": "",
        "create_invoice": "sesame",
    }


def test_a_variable_alone_is_enough() -> None:
    config = loaded("", {"DISPATCHER_WEBHOOKS__ACQUISITION__URL": URL})
    assert config.webhooks == {"acquisition": Webhook(url=URL)}


@pytest.mark.parametrize(
    "url",
    [
        "ftp://billing.example.org/",
        "file:///etc/passwd",
        "billing.example.org",
        "https://user:hunter2@billing.example.org/",
        "https://user@billing.example.org/",
        "https://billing.example.org/#part",
        "https://billing.example.org/a b",
        "https://billing.example.org/\\r\\nX: y",
        "https://",
        "https://:443/",
        "https:///path",
        "https://billing.example.org:99999/",
        "https://billing.example.org:0/",
        "https://[::1/",
        "https://[1::2::3]/",
        "https://bílling.example.org/",
    ],
)
def test_invalid_urls_are_refused_without_repeating_them(url: str) -> None:
    for table, key in (("functions.a", "url"), ("webhooks.a", "url"), ("alerts", "slack")):
        found = faults(f'[{table}]\n{key} = "{url}"\n')
        assert set(found) == {f"{table}.{key}"}
        assert "hunter2" not in str(found)


def test_every_fault_is_found_at_once() -> None:
    found = faults(
        f"""
        [functions.UPPER]
        url = "{URL}"
        [functions.nothing]
        [functions.faulty]
        url = "{URL}"
        urn = "x"
        token = "with space"
        timeout_seconds = 0
        idempotent = "yes"
        retry = "sometimes"
        answer_bytes_max = 2000000
        connections = 0
        allow_addresses = "10.0.0.0/8 10.0.0.1/8"
        [webhooks.nothing]
        """
    )
    keys = (
        "urn",
        "token",
        "timeout_seconds",
        "idempotent",
        "retry",
        "answer_bytes_max",
        "connections",
        "allow_addresses",
    )
    paths = {f"functions.faulty.{key}" for key in keys}
    assert set(found) == paths | {"functions.UPPER", "functions.nothing.url", "webhooks.nothing.url"}
    assert "with space" not in str(found)


@pytest.mark.parametrize(
    "ranges", ["10.0.0.0/33", "10.0.0.256", "::1::", "10.0.0.1/8", "10.0.0.0/8,10.1.0.0/16", "localhost"]
)
def test_invalid_address_ranges_are_refused(ranges: str) -> None:
    assert set(faults(FUNCTION + f'allow_addresses = "{ranges}"')) == {"functions.create-invoice.allow_addresses"}
    assert set(faults(f'[alerts]\nallow_addresses = "{ranges}"')) == {"alerts.allow_addresses"}


def test_ranges_of_both_kinds_have_spaces_between_them() -> None:
    ranges = " 10.1.0.0/16  127.0.0.1 fd00::/8 "
    assert loaded(FUNCTION + f'allow_addresses = "{ranges}"').functions["create-invoice"].allow_addresses == ranges


def test_without_tls_the_addresses_must_be_named() -> None:
    plain = '[functions.a]\nurl = "http://billing:8080/"\n'
    assert "allow_addresses" in faults(plain)["functions.a.url"]
    assert loaded(plain + 'allow_addresses = "10.0.0.0/8"').functions
    alerts = '[alerts]\nslack = "http://chat:8080/"\n'
    assert "allow_addresses" in faults(alerts)["alerts.slack"]
    assert loaded(alerts + 'allow_addresses = "10.0.0.0/8"').alerts.slack


def test_a_function_cannot_take_longer_than_its_channel_lets_it() -> None:
    slow = FUNCTION + "timeout_seconds = 31\n"
    assert loaded(slow).functions
    called = slow + '[channels.http]\nprovider = "functions"\n'
    assert set(faults(called)) == {"functions.create-invoice.timeout_seconds"}
    assert loaded(called + "call_seconds_max = 31\n").functions


def test_there_is_a_limit_to_how_many() -> None:
    many = "".join(f'[functions.f{number}]\nurl = "{URL}"\n' for number in range(257))
    assert faults(many) == {"functions": "at most 256 are possible, got 257"}


def test_no_secret_is_seen() -> None:
    config = loaded(
        FUNCTION.replace("/dispatch", "/dispatch?code=hunter2")
        + 'token = "hunter2"\n'
        + WEBHOOK
        + WEBHOOK.replace("webhooks.acquisition", "alerts").replace("url", "slack")
    )
    shown = json.dumps(show(config, PROVIDERS))
    assert "hunter2" not in shown
    assert "services" not in shown
    assert "https://billing.example.org/dispatch?code=***" in shown


def test_replicas_must_agree_about_each() -> None:
    config = loaded(FUNCTION + WEBHOOK)
    others = (structs.replace(config, functions={}), structs.replace(config, webhooks={}))
    assert of_config(config) not in {of_config(other) for other in others}
