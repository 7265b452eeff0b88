"""Properties of the address of a server: it is whole, safe and said once, or every fault of it is named."""

from pathlib import Path

import pytest

from dispatcher.base.errors import ConfigError
from dispatcher.cli.calls.server_address import Address, read

KEY = f"dsp_a1B2c3D4e5F6_{'x' * 43}"
URL = "https://dispatcher.example.org"


def faults(**environ: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        read(environ)
    assert KEY not in str(refused.value)
    return {fault.path: fault.message for fault in refused.value.faults}


def test_nothing_is_named_in_an_environment_without_it() -> None:
    assert read({"DISPATCHER_DATABASE_URL": "postgresql://x", "DISPATCHER_ALLOW_HTTP": "yes"}) is None


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        (URL, URL),
        (f"{URL}:8443/below/", f"{URL}:8443/below"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://localhost", "http://localhost"),
    ],
)
def test_sound_addresses_are_accepted(url: str, kept: str, tmp_path: Path) -> None:
    assert read({"DISPATCHER_URL": url, "DISPATCHER_KEY": KEY}) == Address(kept, KEY)
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    found = read({"DISPATCHER_URL": url, "DISPATCHER_KEY_FILE": str(file)})
    assert found == Address(kept, KEY)
    assert KEY not in repr(found)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "is empty"),
        ("dispatcher.example.org", "expected https://HOST"),
        ("ftp://dispatcher.example.org", "expected https://HOST"),
        ("https://", "expected https://HOST"),
        ("https://host:0", "expected https://HOST"),
        ("https://host:99999", "expected https://HOST"),
        ("https://[::1", "expected https://HOST"),
        ("https://ann:secret@host", "without user"),
        ("https://host?x=1", "without user, query"),
        ("https://ho st", "that a URL cannot have"),
        ("https://host\n", "that a URL cannot have"),
        ("https://" + "h" * 1_000, "more than 1000"),
        ("http://dispatcher.example.org", "in the clear"),
        ("http://127.0.0.1.example.org", "in the clear"),
    ],
)
def test_an_unsound_address_is_named_without_its_secrets(url: str, words: str) -> None:
    found = faults(DISPATCHER_URL=url, DISPATCHER_KEY=KEY)
    assert list(found) == ["DISPATCHER_URL"]
    assert words in found["DISPATCHER_URL"]
    assert "secret" not in found["DISPATCHER_URL"]


def test_a_network_of_ones_own_can_be_trusted_by_name() -> None:
    inside = {"DISPATCHER_URL": "http://dispatcher:8080", "DISPATCHER_KEY": KEY}
    assert "in the clear" in faults(**inside, DISPATCHER_ALLOW_HTTP="no")["DISPATCHER_URL"]
    assert read(inside | {"DISPATCHER_ALLOW_HTTP": "yes"}) == Address("http://dispatcher:8080", KEY)


def test_both_are_needed_and_every_fault_is_named_at_once(tmp_path: Path) -> None:
    assert "is not set, and DISPATCHER_KEY is" in faults(DISPATCHER_KEY=KEY)["DISPATCHER_URL"]
    assert "is not set, and DISPATCHER_URL is" in faults(DISPATCHER_URL=URL)["DISPATCHER_KEY"]
    assert set(faults(DISPATCHER_URL="x", DISPATCHER_KEY="y")) == {"DISPATCHER_URL", "DISPATCHER_KEY"}
    assert "more than once" in faults(DISPATCHER_URL=URL, DISPATCHER_KEY=KEY, DISPATCHER_KEY_FILE="x")["DISPATCHER_KEY"]
    nowhere = faults(DISPATCHER_URL=URL, DISPATCHER_KEY_FILE=str(tmp_path / "nowhere"))
    assert "No such file" in nowhere["DISPATCHER_KEY_FILE"]
    assert faults(DISPATCHER_URL=URL, DISPATCHER_KEY="")["DISPATCHER_KEY"] == "is empty"
