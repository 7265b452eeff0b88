"""SNS: what openssl has signed with the configured certificate's key counts, for our topics, and nothing else."""

import base64
import hashlib
import json
from pathlib import Path

import pytest

from dispatcher.features.receipts.providers import certificate
from dispatcher.features.receipts.providers.providers import configured_providers
from dispatcher.features.receipts.providers.request import Accepted, Answer, Forged, Provider, Request
from tests.features.receipts import support
from tests.features.receipts.support import Sns

AT = 1_800_000_000
SUBSCRIBE = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=abc"


@pytest.fixture(scope="module")
def sns(tmp_path_factory: pytest.TempPathFactory) -> Sns:
    return Sns(tmp_path_factory.mktemp("sns"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Sns:
    return Sns(tmp_path_factory.mktemp("other"))


@pytest.fixture
def provider(sns: Sns) -> Provider:
    return configured_providers(ses_topics=support.TOPIC, ses_certificates=sns.pem)["ses"]


def _answer(provider: Provider, said: dict[str, str], now: float = AT) -> Answer:
    return provider(Request({}, "", json.dumps(said).encode(), now))


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("fields", [{}, {"Subject": "Amazon SES \u00fc"}])
def test_signed_messages_are_accepted(sns: Sns, provider: Provider, version: str, fields: dict[str, str]) -> None:
    said = sns.notification(support.ses("Delivery"), AT, version, **fields)
    answer = _answer(provider, said)
    assert isinstance(answer, Accepted)
    assert answer.event == said["MessageId"]
    assert [one.kind for one in answer.receipts] == ["delivered"]


@pytest.mark.parametrize("version", ["1", "2"])
def test_nothing_that_is_signed_can_be_changed(sns: Sns, provider: Provider, version: str) -> None:
    said = sns.notification(support.ses("Delivery"), AT, version, Subject="about")
    for name in ("Type", "MessageId", "TopicArn", "Message", "Timestamp", "Subject"):
        for at in range(0, len(said[name]), 7):
            text = said[name]
            assert isinstance(_answer(provider, said | {name: text[:at] + "~" + text[at + 1 :]}), Forged), name
        assert isinstance(_answer(provider, {key: said[key] for key in said if key != name}), Forged), name
        assert isinstance(_answer(provider, said | {name: said[name] + "\n"}), Forged), name


def test_no_byte_of_the_signature_can_be_changed(sns: Sns, provider: Provider) -> None:
    said = sns.notification(support.ses("Delivery"), AT)
    right = base64.b64decode(said["Signature"])
    wrong = [right[:at] + bytes([right[at] ^ 1]) + right[at + 1 :] for at in range(len(right))]
    wrong += [b"", right[:-1], b"\0" + right, right + b"\0", b"\0" * len(right), b"\xff" * len(right)]
    for signature in wrong:
        assert isinstance(_answer(provider, said | {"Signature": base64.b64encode(signature).decode()}), Forged)
    for text in ("", "!", "\u00fc", said["Signature"][:-4]):
        assert isinstance(_answer(provider, said | {"Signature": text}), Forged)


def test_a_signature_has_one_number() -> None:
    """Of a key whose primes are Mersenne's, so that a signature and the modulus together have no more bytes than it."""
    first, second, exponent = 2**1279 - 1, 2**2203 - 1, 65_537
    key = certificate.Key(first * second, exponent)
    size = (key.modulus.bit_length() + 7) // 8
    ending = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(b"data").digest()
    fill = size - len(ending) - 3
    private = pow(exponent, -1, (first - 1) * (second - 1))

    def raised(padded: bytes) -> int:
        return pow(int.from_bytes(padded, "big"), private, key.modulus)

    right = raised(b"\0\1" + b"\xff" * fill + b"\0" + ending)
    assert key.has_signed(b"data", right.to_bytes(size, "big"), "sha256")
    assert not key.has_signed(b"data", (right + key.modulus).to_bytes(size, "big"), "sha256")
    # With room for what one likes it could be made without the key, where the exponent is small.
    loose = (b"\0\2" + b"\xff" * fill, b"\0\1" + b"\xff" * 8 + b"\0" + b"x" * (fill - 9), b"\0\1" + bytes(fill))
    for before in loose:
        assert not key.has_signed(b"data", raised(before + b"\0" + ending).to_bytes(size, "big"), "sha256")
    for behind in (ending[:-1] + b"x", b"\0" * len(ending)):
        padded = b"\0\1" + b"\xff" * fill + b"\0" + behind
        assert not key.has_signed(b"data", raised(padded).to_bytes(size, "big"), "sha256")


def test_each_version_has_its_own_digest(sns: Sns, provider: Provider) -> None:
    said = sns.notification(support.ses("Delivery"), AT, "2")
    for version in ("1", "3", "", "02"):
        assert isinstance(_answer(provider, said | {"SignatureVersion": version}), Forged)


def test_another_key_does_not_count_unless_it_is_configured(sns: Sns, other: Sns, provider: Provider) -> None:
    said = other.notification(support.ses("Delivery"), AT)
    assert isinstance(_answer(provider, said), Forged)
    both = configured_providers(ses_topics=support.TOPIC, ses_certificates=f"{sns.pem}\n{other.pem}")["ses"]
    assert isinstance(_answer(both, said), Accepted)


def test_another_topic_does_not_count_though_the_same_key_signs_it(sns: Sns, provider: Provider) -> None:
    said = sns.notification(support.ses("Delivery"), AT, TopicArn=support.TOPIC.replace("1234", "9999"))
    assert isinstance(_answer(provider, said), Forged)


@pytest.mark.parametrize(
    "url",
    [
        "http://sns.eu-west-1.amazonaws.com/x.pem",
        "https://sns.eu-west-1.amazonaws.com.example.org/x.pem",
        "https://sns.eu-west-1.example.org/x.pem",
        "https://example.org/sns.eu-west-1.amazonaws.com/x.pem",
        "https://sns.eu-west-1.amazonaws.com@example.org/x.pem",
        "https://u@sns.eu-west-1.amazonaws.com/x.pem",
        "https://sns.eu-west-1.amazonaws.com:8443/x.pem",
        "https://sns.eu-west-1.amazonaws.com/x",
        "https://s3.eu-west-1.amazonaws.com/x.pem",
        "https://[/x.pem",
        "",
    ],
)
def test_a_certificate_from_elsewhere_is_refused(sns: Sns, provider: Provider, url: str) -> None:
    said = sns.notification(support.ses("Delivery"), AT)
    assert isinstance(_answer(provider, said | {"SigningCertURL": url}), Forged)


@pytest.mark.parametrize(
    ("age", "counts"), [(0, True), (3_600, True), (3_900, True), (3_901, False), (-300, True), (-301, False)]
)
def test_it_may_be_as_old_as_sns_tries_and_no_older(sns: Sns, provider: Provider, age: int, counts: bool) -> None:
    said = sns.notification(support.ses("Delivery"), AT - age)
    answer = _answer(provider, said)
    assert isinstance(answer, Accepted) is counts
    if isinstance(answer, Accepted):
        assert answer.kept_seconds > 3_900 + 300


def test_a_confirmation_is_shown_and_nothing_else(sns: Sns, provider: Provider) -> None:
    said = sns.notification("You have chosen", AT, Type="SubscriptionConfirmation", Token="abc", SubscribeURL=SUBSCRIBE)
    answer = _answer(provider, said)
    assert isinstance(answer, Accepted)
    assert (answer.receipts, answer.confirm) == ((), SUBSCRIBE)
    assert isinstance(_answer(provider, said | {"SubscribeURL": "https://example.org"}), Forged)
    gone = sns.notification("Bye", AT, Type="UnsubscribeConfirmation", Token="abc", SubscribeURL=SUBSCRIBE)
    answer = _answer(provider, gone)
    assert isinstance(answer, Accepted)
    assert (answer.receipts, answer.confirm) == ((), "")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"nonsense", b'{"Type": []}', b"[" * 100_000, b"\xff"])
def test_messages_that_are_not_of_sns_are_refused(provider: Provider, body: bytes) -> None:
    assert isinstance(provider(Request({}, "", body, AT)), Forged)


def test_every_cut_or_flip_of_a_certificate_is_refused_or_another_key(sns: Sns) -> None:
    body = "".join(sns.pem.split("-----")[2].split())
    der = base64.b64decode(body)
    (right,) = certificate.keys(sns.pem)
    data, signature = b"data", sns.sign(b"data")
    assert right.has_signed(data, signature, "sha256")
    for at in range(0, len(der), 3):
        for changed in (der[:at], der[:at] + bytes([der[at] ^ 0x81]) + der[at + 1 :]):
            pem = f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(changed).decode()}\n-----END CERTIFICATE-----"
            try:
                (key,) = certificate.keys(pem)
            except ValueError:
                continue
            assert key == right or not key.has_signed(data, signature, "sha256")


@pytest.mark.parametrize("pem", ["", "x", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"])
def test_invalid_certificates_are_refused(pem: str) -> None:
    with pytest.raises(ValueError, match="certificate"):
        certificate.keys(pem)


def test_a_short_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too short"):
        certificate.keys(Sns(tmp_path, "rsa:1024").pem)


@pytest.mark.parametrize("exponent", [0, 1, 2])
def test_a_key_that_signs_anything_is_refused(sns: Sns, exponent: int) -> None:
    der = base64.b64decode("".join(sns.pem.split("-----")[2].split()))
    before, after = b"\x02\x03\x01\x00\x01", b"\x02\x03\x00\x00" + bytes([exponent])
    assert der.count(before) == 1
    changed = base64.b64encode(der.replace(before, after)).decode()
    with pytest.raises(ValueError, match="too short"):
        certificate.keys(f"-----BEGIN CERTIFICATE-----\n{changed}\n-----END CERTIFICATE-----")


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({"MessageId": ""}, False),
        ({"MessageId": "m" * 256}, False),
        ({"MessageId": "m\0"}, False),
        ({"MessageId": "m" * 255}, True),
        ({"Timestamp": "yesterday"}, False),
    ],
)
def test_an_invalid_id_or_time_is_refused_although_signed(
    sns: Sns, provider: Provider, fields: dict[str, str], counts: bool
) -> None:
    assert isinstance(_answer(provider, sns.notification(support.ses("Delivery"), AT, **fields)), Accepted) is counts
