"""An import-linter contract that lists what a room may import, and refuses everything else that is ours.

The linter's own `forbidden` lists what is refused, so that a module that nobody thought of is allowed. Here it is the
other way round: what nobody thought of is refused. Direct imports are enough, since every room is under a contract.
A name that does not exist yet allows nothing and harms nothing.
"""

from collections.abc import Iterable
from typing import cast

from grimp import DetailedImport, ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class RoomContract(Contract):
    """Modules of `room` import each other, and `may_import`; both with all that lies below them."""

    type_name = "room"

    room = fields.ListField(subfield=fields.ModuleField())
    may_import = fields.ListField(subfield=fields.ModuleField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Collect each direct import that leads out of the room to a place that is not listed."""
        output.verbose_print(verbose, f"Looking at what {self.name}.")
        room = names(self.room)
        allowed = room | names(self.may_import)
        illegal = [
            detail
            for importer in sorted(graph.modules)
            if lies_in(importer, room)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if not lies_in(imported, allowed)
            for detail in graph.get_import_details(importer=importer, imported=imported)
        ]
        return ContractCheck(kept=not illegal, metadata={"illegal": illegal})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """One line for each import that is refused."""
        for detail in cast("list[DetailedImport]", check.metadata["illegal"]):
            output.print_error(
                f"- {detail['importer']} -> {detail['imported']} (l.{detail['line_number']})", bold=False
            )
        output.new_line()


def names(modules: object) -> set[str]:
    """The dotted names in a field: the linter replaces each field by its content, which its types do not say."""
    return {str(module) for module in cast("Iterable[object]", modules)}


def lies_in(module: str, places: set[str]) -> bool:
    """True for a place itself and for everything below it."""
    return any(module == place or module.startswith(place + ".") for place in places)
