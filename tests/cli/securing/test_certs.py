"""`kwire certs`: what it makes is what a broker and a client take."""

from __future__ import annotations

import json
import os
import ssl
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from kwire.cli.app import app
from kwire.security.tls.context import client_context, server_context
from kwire.security.tls.making import DevelopmentAuthority, certificates_in
from kwire.security.tls.options import read_options
from kwire.settings.properties import read_properties


def certs(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["certs", *arguments], prog_name="kwire")


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """The server's side of a connection between the two.  Raises ssl.SSLError."""
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    accepting = server.wrap_bio(inward, outward, server_side=True)
    connecting = client.wrap_bio(outward, inward, server_hostname=host)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (connecting, accepting):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
    return accepting


@pytest.mark.parametrize("p12", [False, True], ids=["pem", "p12"])
def test_broker_and_client_authenticate_with_created_certificates(
    tmp_path: Path, p12: bool
) -> None:
    where = ["--dir", str(tmp_path / "certs"), *(["--p12"] if p12 else [])]
    assert certs("broker", "localhost", "10.1.2.3", "--name", "one", *where).exit_code == 0
    assert certs("client", "alice", *where).exit_code == 0
    server, _ = server_context(
        read_options(
            {
                **read_properties(tmp_path / "certs" / "one.properties"),
                "ssl.client.auth": "required",
            }
        )
    )
    client = client_context(read_options(read_properties(tmp_path / "certs" / "alice.properties")))
    for host in ("localhost", "10.1.2.3"):
        seen = shake_hands(server, client, host).getpeercert()
        assert seen is not None
        assert seen["subject"] == ((("commonName", "alice"),),)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake_hands(server, client, "example.org")


def test_private_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    os.umask(0o022)
    assert certs("client", "alice", "--dir", str(tmp_path / "certs")).exit_code == 0
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "certs").iterdir()
    }
    assert modes == {
        "ca-key.pem": 0o600, "ca.pem": 0o644, "alice.pem": 0o600, "alice.properties": 0o600
    }  # fmt: skip
    assert stat.S_IMODE((tmp_path / "certs").stat().st_mode) == 0o700


def test_certificates_have_the_same_authority_and_the_requested_validity(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    certs("client", "alice", "--dir", str(folder), "--days", "7")
    before = (folder / "ca.pem").read_bytes()
    certs("client", "alice", "--dir", str(folder), "--days", "30")
    assert (folder / "ca.pem").read_bytes() == before
    listed = json.loads(certs("list", "--dir", str(folder), "--json").stdout)
    assert [each["file"] for each in listed] == ["alice.pem", "ca.pem"]
    own = certificates_in(folder / "alice.pem")[0]
    assert (own.not_valid_after_utc - own.not_valid_before_utc).days == 30
    assert "alice.pem" in certs("list", "--dir", str(folder)).stdout


@pytest.mark.parametrize("name", ["../up", "ca", "ca-key", "", ".hidden"])
def test_certs_refuses_names_that_are_no_file_names(tmp_path: Path, name: str) -> None:
    done = certs("client", name, "--dir", str(tmp_path / "certs"))
    assert done.exit_code == 2
    assert not (tmp_path / "certs").exists()


def test_certificates_satisfy_strict_verification(tmp_path: Path) -> None:
    """Python 3.13 and others want key usages, key identifiers, and who may sign what."""
    issued = DevelopmentAuthority(tmp_path).broker("one", ["localhost"])
    own, authority = certificates_in(issued.keystore)
    own.verify_directly_issued_by(authority)
    for certificate, signs in ((own, False), (authority, True)):
        extensions = certificate.extensions
        assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is signs
        assert extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is signs
        assert extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
        assert extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
