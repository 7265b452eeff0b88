"""Receipts as providers post them: signed by implementations that are not the program's, openssl among them."""

import base64
import hashlib
import hmac
import json
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

TOPIC = "arn:aws:sns:eu-west-1:123456789012:mail"
_numbers = count(1)

Headers = dict[str, str]


def webhook(secret: str, body: bytes, at: float, message_id: str = "", prefix: str = "svix-") -> Headers:
    """The headers of a Standard Webhook."""
    named = message_id or f"msg_{next(_numbers)}"
    signed = f"{named}.{int(at)}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {f"{prefix}id": named, f"{prefix}timestamp": str(int(at)), f"{prefix}signature": f"v1,{mac}"}


def callback(token: str, url: str, fields: Mapping[str, str], algorithm: str = "sha1") -> Headers:
    """The headers of a callback of Twilio's."""
    text = url + "".join(f"{name}{fields[name]}" for name in sorted(fields))
    mac = base64.b64encode(hmac.new(token.encode(), text.encode(), algorithm).digest()).decode()
    return {"x-twilio-signature": mac, "content-type": "application/x-www-form-urlencoded"}


class Sns:
    """Amazon's SNS, with a key and a certificate of its own."""

    def __init__(self, folder: Path, *kind: str) -> None:
        self._key = folder / "sns.key"
        self.certificate = folder / "sns.pem"
        made, out = kind or ("rsa:2048",), ("-keyout", self._key, "-out", self.certificate)
        self._openssl("req", "-x509", "-newkey", *made, "-nodes", "-subj", "/CN=sns", *out)

    @property
    def pem(self) -> str:
        """The certificate."""
        return self.certificate.read_text()

    def _openssl(self, *arguments: object, stdin: bytes = b"") -> bytes:
        return subprocess.run(["openssl", *map(str, arguments)], input=stdin, check=True, capture_output=True).stdout

    def sign(self, data: bytes, digest: str = "sha256") -> bytes:
        """A signature."""
        return self._openssl("dgst", f"-{digest}", "-sign", self._key, stdin=data)

    def notification(self, message: object, at: float, version: str = "2", **fields: str) -> dict[str, str]:
        """What SNS posts for a message; `fields` are in it too, and signed where they are to be."""
        said = {
            "Type": "Notification",
            "MessageId": f"sns-{next(_numbers)}",
            "TopicArn": TOPIC,
            "Message": message if isinstance(message, str) else json.dumps(message),
            "Timestamp": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        } | fields
        return self.signed(said, version)

    def signed(self, said: dict[str, str], version: str = "2") -> dict[str, str]:
        """With its signature."""
        names = ("Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
        text = "".join(f"{name}\n{said[name]}\n" for name in names if name in said)
        signature = self.sign(text.encode(), "sha1" if version == "1" else "sha256")
        return said | {
            "SignatureVersion": version,
            "Signature": base64.b64encode(signature).decode(),
            "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123.pem",
        }


def ses(event: str, to: str = "ann@example.org", **mail: Any) -> dict[str, Any]:
    """A message of SES about a mail."""
    about = {"timestamp": "2026-11-18T12:00:00.000Z"}
    said: dict[str, Any] = {"eventType": event, "mail": {"messageId": "0102-ses", "destination": [to]} | mail}
    match event:
        case "Bounce":
            people = [{"emailAddress": to, "diagnosticCode": f"smtp; 550 5.1.1 <{to}>: no such user"}]
            said["bounce"] = about | {
                "bounceType": "Permanent",
                "bounceSubType": "General",
                "bouncedRecipients": people,
            }
        case "Complaint":
            said["complaint"] = about | {
                "complainedRecipients": [{"emailAddress": to}],
                "complaintFeedbackType": "abuse",
            }
        case "Reject":
            said["reject"] = {"reason": "Bad content"}
        case "Delivery":
            said["delivery"] = about | {"recipients": [to]}
        case _:
            pass
    return said


def resend(event: str, delivery: object = None, to: str = "ann@example.org", **data: Any) -> bytes:
    """A message of Resend about a mail."""
    tags = {} if delivery is None else {"tags": {"delivery": str(delivery)}}
    said = {"email_id": "4ef9a417", "from": "Shop <shop@example.org>", "to": [to], "subject": "s"} | tags | data
    return json.dumps({"type": event, "created_at": "2026-11-18T12:00:00.000Z", "data": said}).encode()
