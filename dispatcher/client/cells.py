"""Cells: a transport that calls the cell of its tenant, by a directory.

A cell refuses a tenant that is in another one, and says which. Nothing was done then, so the call is repeated there,
once; but only at an address that the directory names: the key goes to no address that an answer names.
"""

import os
import ssl
from typing import Any

from dispatcher.base.directory import Directory, DirectoryFile
from dispatcher.client.errors import OtherCell
from dispatcher.client.transport import CALL_SECONDS_MAX, Method, Query, Reply, Transport


class CellTransport(Transport):
    """Calls the cell of one tenant with one key. `directory` is a file, which is read again when it has changed."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        tenant: str,
        key: str,
        *,
        seconds: float = CALL_SECONDS_MAX,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._file = DirectoryFile(directory)
        self._tenant = tenant
        # The cell that another one has named, and the version of the directory that did not know.
        self._told: tuple[int, int] | None = None
        super().__init__(self._address(self._file.read()), key, seconds=seconds, tls=tls)

    async def ask(
        self,
        method: Method,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,  # noqa: ANN401 - as there
        keyed: bool = True,
        traceparent: str | None = None,
    ) -> Reply:
        """As of any transport, in the cell of the tenant."""
        given: dict[str, Any] = {"query": query, "body": body, "keyed": keyed, "traceparent": traceparent}
        self.url = self._address(self._file.read())
        try:
            return await super().ask(method, path, **given)
        except OtherCell as refused:
            directory, before = self._file.read(), self.url
            if refused.cell and directory.cell(refused.cell) is not None:
                self._told = refused.cell, directory.version
            self.url = self._address(directory)
            if self.url == before:
                raise
            return await super().ask(method, path, **given)

    def _address(self, directory: Directory) -> str:
        """The address of the tenant's cell: the directory's, unless a cell knows better than this version of it."""
        if self._told is not None and self._told[1] >= directory.version:
            told = directory.cell(self._told[0])
            if told is not None:
                return told.url
        return directory.home(self._tenant).url
