"""Phone numbers: SQL reads them as the library does, or refuses them by name."""

import json
from collections.abc import Iterator

import phonenumbers
import pytest
from phonenumbers import PhoneNumberFormat, PhoneNumberType

from dispatcher.features.workspaces.rules import REGIONS, phone_rule
from tests.support.scene import Connection

READ = """
    SELECT a.written, a.rule ->> 'region' AS region, n.number, n.fault
      FROM unnest($1::text[], $2::jsonb[]) AS a (written, rule), LATERAL dispatcher.phone_number(a.written, a.rule) AS n
"""
KINDS = (PhoneNumberType.MOBILE, PhoneNumberType.FIXED_LINE, PhoneNumberType.TOLL_FREE)


def _written(region: str) -> Iterator[str]:
    """Numbers of a region, as people write them."""
    for kind in KINDS:
        example = phonenumbers.example_number_for_type(region, kind)
        if example is None:
            continue
        for form in (PhoneNumberFormat.NATIONAL, PhoneNumberFormat.INTERNATIONAL, PhoneNumberFormat.E164):
            yield phonenumbers.format_number(example, form)
        bare = phonenumbers.national_significant_number(example)
        yield bare
        yield f"{example.country_code}{bare}"
        yield bare[1:]
        yield f"00{example.country_code}{bare}"
        yield phonenumbers.format_out_of_country_calling_number(example, region)
        other = "FR" if region != "FR" else "DE"
        abroad = phonenumbers.example_number_for_type(other, PhoneNumberType.MOBILE)
        assert abroad is not None
        yield phonenumbers.format_out_of_country_calling_number(abroad, region)


def _library(written: str, region: str) -> str | None:
    try:
        return phonenumbers.format_number(phonenumbers.parse(written, region), PhoneNumberFormat.E164)
    except phonenumbers.NumberParseException:
        return None


async def test_sql_reads_what_the_library_reads_or_refuses_it(connection: Connection) -> None:
    asked = [(one, region) for region in sorted(REGIONS) for one in dict.fromkeys(_written(region))]
    rules = [json.dumps(phone_rule(region)) for _, region in asked]
    rows = await connection.fetch(READ, [one for one, _ in asked], rules)
    assert all((row["number"] is None) != (row["fault"] is None) for row in rows)
    wrong = []
    for row in rows:
        # A number with 00 needs no region, whatever is dialled there for a call abroad.
        digits = "".join(sign for sign in row["written"] if sign.isdecimal())
        if row["number"] is None or digits.startswith("00"):
            continue
        if row["number"] != _library(row["written"], row["region"]):
            wrong.append((row["written"], row["region"], row["number"], _library(row["written"], row["region"])))
    assert wrong == []
    # It is not by refusing everything: nearly all that is written in the national way is read.
    national = [
        (phonenumbers.format_number(example, PhoneNumberFormat.NATIONAL), region)
        for region in sorted(REGIONS)
        if (example := phonenumbers.example_number_for_type(region, PhoneNumberType.MOBILE)) is not None
    ]
    read = {(row["written"], row["region"]) for row in rows if row["number"] is not None}
    assert len([one for one in national if one not in read]) < len(national) / 10


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("+49 171 2345678", "+491712345678"),
        ("0049 (171) 234-5678", "+491712345678"),
        ("+49 (0)171 2345678", "+491712345678"),
        ("0171/2345678", None),
        ("171 2345678", None),
        ("+0171 2345678", None),
        ("+1 555 0100", None),
        ("+1 212 555 0100", "+12125550100"),
        ("call me", None),
        ("", None),
        ("+49 171 2345678 ext. 5", None),
    ],
)
async def test_without_a_region_a_number_has_its_country_or_is_refused(
    connection: Connection, written: str, number: str | None
) -> None:
    row = await connection.fetchrow("SELECT * FROM dispatcher.phone_number($1, NULL)", written)
    assert row is not None
    assert row["number"] == number
    assert (row["fault"] is None) == (number is not None)
