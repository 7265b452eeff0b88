"""Certificates for tests, made by openssl: an authority, and what it signs."""

import subprocess
from pathlib import Path
from textwrap import dedent

from msgspec import Struct

NAMES = "DNS:localhost,IP:127.0.0.1"


class Certificate(Struct, frozen=True):
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


class Authority:
    """Signs certificates for localhost."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate = folder / "authority.pem"
        (folder / "index").touch()
        (folder / "openssl.cnf").write_text(
            dedent(f"""\
                [ca]
                default_ca = ours
                [ours]
                database = {folder}/index
                new_certs_dir = {folder}
                certificate = {self.certificate}
                private_key = {folder}/authority.key
                rand_serial = yes
                default_md = sha256
                policy = any
                copy_extensions = copy
                [any]
                commonName = supplied
                """)
        )
        self._make("authority", "-x509", "-days", "2", "-subj", "/CN=Tests")

    def _make(self, name: str, *arguments: str) -> None:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        out = ("-keyout", f"{name}.key", "-out", f"{name}.pem")
        _openssl(self._folder, "req", *curve, *out, *arguments)

    def sign(self, name: str, names: str = NAMES, expired: bool = False) -> Certificate:
        """A certificate for these names."""
        self._make(name, "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}")
        times = ("-startdate", "20200101000000Z", "-enddate", "20200201000000Z") if expired else ("-days", "1")
        request, signed = f"{name}.pem", f"{name}.signed.pem"
        _openssl(
            self._folder, "ca", "-batch", "-notext", "-config", "openssl.cnf", *times, "-in", request, "-out", signed
        )
        return Certificate(self._folder / signed, self._folder / f"{name}.key")
