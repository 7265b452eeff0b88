"""Fingerprints of channels: what replicas must have in common, and what each may have as it likes."""

import msgspec
import pytest
from msgspec import structs

from channels.registry import PROVIDERS
from dispatcher.config.fingerprints import PACE, of_channel, of_several, provider_of
from dispatcher.config.settings import Faults, Function

BILL = Function(url="https://f.example.org/bill", token="sesame-4711")


def _functions(**changes: object) -> str:
    return of_channel("functions", {}, Faults(), {"bill": structs.replace(BILL, **changes)})


@pytest.mark.parametrize(
    "change",
    [{"url": "https://elsewhere.example.org/"}, {"token": "other"}, {"idempotent": True}, {"retry": "never"}],
    ids=str,
)
def test_where_and_how_messages_go_is_part_of_it(change: dict[str, object]) -> None:
    assert _functions(**change) != _functions()
    assert of_channel("functions", {}, Faults(), {}) != _functions()
    assert of_channel("smtp", {"host": "a"}, Faults(), {}) != of_channel("smtp", {"host": "b"}, Faults(), {})
    assert of_channel("capture", {}, Faults(refuse=1.0), {}) != of_channel("capture", {}, Faults(), {})
    assert of_channel("capture", {}, Faults(), {}) != of_channel("blackhole", {}, Faults(), {})


def test_how_fast_and_how_patiently_is_not() -> None:
    assert _functions(connections=3, timeout_seconds=5.0, answer_bytes_max=512) == _functions()
    slow = {"host": "a", "connections": 1, "idle_seconds": 3.0}
    assert of_channel("smtp", slow, Faults(), {}) == of_channel("smtp", {"host": "a"}, Faults(), {})


def test_it_has_the_provider_s_name_and_no_secret() -> None:
    found = _functions()
    assert provider_of(found) == "functions"
    assert "sesame" not in found
    assert len(found) == len("functions:") + 16


def test_the_names_and_the_order_of_several_providers_are_part_of_it() -> None:
    one, other = of_channel("smtp", {"host": "a"}, Faults(), {}), of_channel("resend", {}, Faults(), {})
    found = of_several({"relay": one, "resend": other})
    assert provider_of(found) == "relay+resend"
    assert len({found, of_several({"resend": other, "relay": one}), of_several({"relay": one, "other": other})}) == 3


def test_every_name_of_pace_is_an_option() -> None:
    options = {field.encode_name for one in PROVIDERS.values() for field in msgspec.structs.fields(one)}
    assert options | {field.name for field in msgspec.structs.fields(Function)} >= PACE
