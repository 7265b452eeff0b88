"""Phone regions: what the library knows of one, in the form in which SQL reads numbers."""

import re
from collections.abc import Mapping
from functools import cache

from phonenumbers import SUPPORTED_REGIONS, PhoneMetadata

REGIONS = SUPPORTED_REGIONS
REGION_WORDS = "is not a region of phone numbers: expected two letters such as DE"
_GROUP = re.compile(r"\\([1-9])")


@cache
def phone_rule(region: str) -> Mapping[str, str]:
    """Return how numbers of a region are read. Raises ValueError."""
    found = PhoneMetadata.metadata_for_region(region) if region in REGIONS else None
    if found is None or found.general_desc is None:
        raise ValueError(REGION_WORDS)
    rule = {
        "region": region,
        "code": str(found.country_code),
        # No country has a calling code that begins with 0.
        "abroad": f"^(?:{found.international_prefix})(?=[1-9])" if found.international_prefix else "^$",
        "trunk": f"^({found.national_prefix_for_parsing})" if found.national_prefix_for_parsing else "^()",
        "numbers": f"^(?:{found.general_desc.national_number_pattern})$",
    }
    if found.national_prefix_transform_rule:
        rule["turns"] = _GROUP.sub(r"$\1", found.national_prefix_transform_rule)
    return rule
