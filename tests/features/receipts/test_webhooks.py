"""Standard Webhooks: the specification's own vector, and nothing else than what was signed."""

import base64
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.features.receipts.providers import standard_webhooks
from dispatcher.features.receipts.providers.providers import configured_providers
from dispatcher.features.receipts.providers.request import KEPT_SECONDS, SKEW_SECONDS, Accepted, Forged, Request
from dispatcher.features.receipts.providers.standard_webhooks import Signed
from tests.features.receipts import support

# As the specification publishes it.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEYS = standard_webhooks.keys(SECRET)
OTHER = "whsec_" + base64.b64encode(b"o" * 24).decode()
ID, AT = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def _headers(
    message_id: str = ID, at: str = str(AT), signature: str = SIGNATURE, prefix: str = "svix-"
) -> dict[str, str]:
    return {f"{prefix}id": message_id, f"{prefix}timestamp": at, f"{prefix}signature": signature}


def _verify(headers: Mapping[str, str], body: bytes = BODY, now: float = AT) -> Signed | Forged:
    return standard_webhooks.verify(Request(headers, "", body, now), KEYS)


@pytest.mark.parametrize("prefix", ["svix-", "webhook-"])
def test_the_published_vector_is_right_by_either_name(prefix: str) -> None:
    assert _verify(_headers(prefix=prefix)) == Signed(ID, AT)
    assert standard_webhooks.sign(KEYS[0], ID, AT, BODY) == SIGNATURE


def test_headers_of_both_names_are_not_mixed() -> None:
    mixed = {"webhook-id": ID, "svix-timestamp": str(AT), "svix-signature": SIGNATURE}
    assert isinstance(_verify(mixed), Forged)
    assert isinstance(_verify(_headers() | {"webhook-id": "another"}), Forged)


def test_no_byte_of_the_body_can_be_changed_added_or_left_out() -> None:
    for at in range(len(BODY)):
        for bit in range(8):
            changed = BODY[:at] + bytes([BODY[at] ^ 1 << bit]) + BODY[at + 1 :]
            assert isinstance(_verify(_headers(), changed), Forged)
        assert isinstance(_verify(_headers(), BODY[:at] + BODY[at + 1 :]), Forged)
        assert isinstance(_verify(_headers(), BODY[:at] + b" " + BODY[at:]), Forged)


def test_signed_fields_cannot_be_split_differently() -> None:
    """The parts are joined by dots: a body that begins with a time would make an old message a new one."""
    old = support.webhook(SECRET, b"%d.{}" % (AT + 1_000), AT, "m")
    cut = {"svix-id": f"m.{AT}", "svix-timestamp": str(AT + 1_000), "svix-signature": old["svix-signature"]}
    assert standard_webhooks.sign(KEYS[0], cut["svix-id"], AT + 1_000, b"{}") == old["svix-signature"]
    assert isinstance(_verify(cut, b"{}", AT + 1_000), Forged)


def test_no_byte_of_the_signature_can_be_changed() -> None:
    mac = base64.b64decode(SIGNATURE[3:])
    for at in range(len(mac)):
        changed = mac[:at] + bytes([mac[at] ^ 1]) + mac[at + 1 :]
        assert isinstance(_verify(_headers(signature="v1," + base64.b64encode(changed).decode())), Forged)
    for short in (mac[:-1], mac[:1], b"", mac + b"\0"):
        assert isinstance(_verify(_headers(signature="v1," + base64.b64encode(short).decode())), Forged)


@given(st.data())
def test_no_character_of_the_id_or_the_time_can_be_changed(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["svix-id", "svix-timestamp"]))
    text = _headers()[name]
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(min_codepoint=32, max_codepoint=126))
    for changed in (text[:at] + other + text[at + 1 :], text[:at] + other + text[at:], text[:at]):
        if changed != text:
            assert isinstance(_verify(_headers() | {name: changed}), Forged)


@given(st.dictionaries(st.sampled_from(sorted(_headers())), st.text(max_size=60)))
def test_invalid_headers_are_refused_and_valid_ones_accepted(headers: dict[str, str]) -> None:
    assert isinstance(_verify(headers), Forged)


@pytest.mark.parametrize("message_id", ["", "m\xfc", "m\tn", "m\n", "m" * 256])
def test_an_id_that_cannot_be_stored_is_refused_although_signed(message_id: str) -> None:
    signature = standard_webhooks.sign(KEYS[0], message_id, AT, BODY)
    assert isinstance(_verify(_headers(message_id, signature=signature)), Forged)


@pytest.mark.parametrize("message_id", ["m", "m" * 255])
def test_an_id_is_as_long_as_can_be_kept(message_id: str) -> None:
    assert _verify(support.webhook(SECRET, BODY, AT, message_id)) == Signed(message_id, AT)


def test_one_right_signature_of_several_is_enough_and_other_versions_are_none() -> None:
    wrong = "v1," + base64.b64encode(b"x" * 32).decode()
    assert _verify(_headers(signature=f"v1a,zzzz {wrong} nonsense {SIGNATURE}")) == Signed(ID, AT)
    for none in (wrong, SIGNATURE.replace("v1,", "v2,"), SIGNATURE[3:], f"{wrong} " * 16 + SIGNATURE):
        assert isinstance(_verify(_headers(signature=none)), Forged)


@pytest.mark.parametrize(("off", "right"), [(0, True), (299, True), (300, True), (301, False), (86_400, False)])
def test_the_time_may_be_five_minutes_off_and_no_more(off: int, right: bool) -> None:
    for now in (AT + off, AT - off):
        assert isinstance(_verify(_headers(), now=now), Signed) is right


def test_an_id_is_remembered_for_longer_than_it_can_be_replayed() -> None:
    assert KEPT_SECONDS > 2 * SKEW_SECONDS


def test_every_secret_counts_and_no_other() -> None:
    provider = configured_providers(generic_secrets=f"{OTHER}\n{SECRET}")["generic"]
    body = b'{"id": 1, "status": "delivered"}'
    for secret in (SECRET, OTHER):
        assert isinstance(provider(Request(support.webhook(secret, body, AT), "", body, AT)), Accepted)
    third = "whsec_" + base64.b64encode(b"t" * 24).decode()
    assert isinstance(provider(Request(support.webhook(third, body, AT), "", body, AT)), Forged)
