"""The configuration of cells: which one this process serves."""

from typing import Annotated

from msgspec import Meta, Struct

from dispatcher.config.values import described


class Cell(Struct, frozen=True, forbid_unknown_fields=True):
    """Which cell this process serves, where an installation has several databases. 0: there is only one."""

    # Ids are given out from number * 2^43 on; 1,024 times that is 2^53, up to which every program reads them exactly.
    number: Annotated[int, Meta(ge=0, le=1_023)] = 0
    # The file that says where all cells are, and which tenants they have.
    directory: Annotated[str, described("a text of at most 4096 characters", length_max=4_096)] = ""
    # Of all configured rates of providers: the part that is this cell's, beside the shares of the others.
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0
