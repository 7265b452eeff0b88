"""Workflows that the tests of the client trigger."""

from tests.conformance.runs import sms, steps

PUSH = {"type": "push", "to": "device", "body": "hello", "on_failure": "abort"}
PAID = {"type": "wait", "event": "paid", "timeout": "1h"}

GREETING = steps(sms(), name="greeting")
STRICT = steps(sms(body="{{ customer.email }}"), name="strict", required_fields=["order"])
PAYING = steps(sms(), PAID, sms(body="{{ n2.amount }}"), name="paying")
FAILING = steps(PUSH, name="failing")
SLASHED = steps(sms(), name="with/a-slash")

WORKFLOWS = (GREETING, STRICT, PAYING, FAILING, SLASHED)
