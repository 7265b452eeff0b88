"""Idempotency keys: no two inputs share one by accident, and no machine makes another of the same input."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.base.values.idempotency import delivery_key, key

NOON = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
parts = st.lists(texts, min_size=1, max_size=5)


@given(parts, parts)
def test_other_parts_make_another_key(one: list[str], other: list[str]) -> None:
    assert (key(*one) == key(*other)) == (one == other)


@given(parts)
def test_a_key_is_64_hex_digits(one: list[str]) -> None:
    made = key(*one)
    assert len(made) == 64
    assert int(made, 16) >= 0


def test_a_separator_inside_a_part_is_not_a_separator() -> None:
    assert key("a|b") != key("a", "b")
    assert key("a%7Cb") != key("a|b")


def test_an_absent_part_is_empty() -> None:
    assert key("a", None, "b") == key("a", "", "b")
    assert key("a", None) != key("a")


@given(st.integers(-12, 14))
def test_the_same_moment_makes_the_same_key_in_every_zone(hours: int) -> None:
    assert key(NOON.astimezone(timezone(timedelta(hours=hours)))) == key(NOON)


def test_a_time_without_its_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        key(datetime(2026, 3, 1))


def test_a_microsecond_makes_another_key() -> None:
    assert key(NOON) != key(NOON + timedelta(microseconds=1))


def test_whole_seconds_are_written_with_their_microseconds() -> None:
    assert key(NOON.replace(microsecond=0)) == key("2026-03-01T12:00:00.000000Z")


@pytest.mark.parametrize("channel", ["email", "sms", "whatsapp", "push", "chat", "http", "voice"])
def test_recipients_and_subjects_do_not_share_keys(channel: str) -> None:
    made = {
        delivery_key(channel, run, recipient, subject, NOON, node=node)
        for run in ("r1", "r2")
        for recipient in ("a@x", "b@x")
        for subject in ("s1", "s2")
        for node in (None, "n1")
    }
    assert len(made) == 16


def test_a_social_posts_key_names_its_channel_and_no_recipient() -> None:
    assert delivery_key("social", "r", "a", "p", NOON) == delivery_key("social", "r", "b", "p", NOON)
    assert delivery_key("social", "r", None, "p", NOON) == key("r", "p", "social", NOON)


def test_the_machines_zone_and_hash_seed_do_not_matter() -> None:
    program = (
        "from datetime import UTC, datetime; from dispatcher.base.values.idempotency import delivery_key;"
        "print(delivery_key('email', 'r', 'a@x', 's', datetime(2026, 3, 1, 12, tzinfo=UTC), node='n'))"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"TZ": zone, "PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for zone, seed in (("UTC", "1"), ("Asia/Kolkata", "2"))
    }
    assert len(made) == 1
