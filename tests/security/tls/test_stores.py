"""Keystores and truststores of each kind: what is read, and what is said of what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kwire.security.tls.context import client_context, server_context
from kwire.security.tls.error import TlsError
from kwire.security.tls.jks import read_jks
from kwire.security.tls.options import Store, read_options
from kwire.security.tls.stores import read_identities, read_trusted
from tests.security.tls.authority import PASSWORD, Authority, pem

DATA = Path(__file__).with_name("data")
"""Made by Java's keytool."""
KEY_PASSWORD = "key-secret"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def keytool_certificate() -> str:
    return (DATA / "server.pem").read_text()


@pytest.mark.parametrize(
    ("file", "kind", "key_password"),
    [
        ("keys.jks", "JKS", KEY_PASSWORD),
        ("keys.jks", "PKCS12", KEY_PASSWORD),  # Java reads either by either name
        ("keys.p12", "PKCS12", None),
        ("keys.p12", "JKS", None),
    ],
)
def test_keytool_keystore(file: str, kind: str, key_password: str | None) -> None:
    store = Store(kind, str(DATA / file), PASSWORD)
    (identity,) = read_identities(store, key_password)
    assert pem(identity.chain[0]) == keytool_certificate()
    assert identity.key.public_key() == identity.chain[0].public_key()


@pytest.mark.parametrize("file", ["trusted.jks", "trusted.p12", "keys.jks", "keys.p12"])
def test_keytool_truststore(file: str) -> None:
    (trusted,) = read_trusted(Store("JKS", str(DATA / file), PASSWORD))
    assert pem(trusted) == keytool_certificate()


def test_jks_truststore_without_its_password() -> None:
    assert len(read_trusted(Store("JKS", str(DATA / "trusted.jks")))) == 1


def test_pem_file_and_inline(authority: Authority, tmp_path: Path) -> None:
    own = authority.issue()
    for password in (None, KEY_PASSWORD):
        file = own.write_pem(tmp_path / "own.pem", password)
        (found,) = read_identities(Store("PEM", str(file)), password)
        assert found.chain == (own.certificate, own.authority)
        inline = Store("PEM", key=own.key_pem(password), certificates=own.chain_pem)
        (found,) = read_identities(inline, password)
        assert found.key.public_key() == own.key.public_key()


def test_keys_reach_openssl(authority: Authority, tmp_path: Path) -> None:
    own = authority.issue()
    pkcs12 = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(own.write_p12(tmp_path / "own.p12")),
        "ssl.keystore.password": PASSWORD,
    }
    context, certificates = server_context(read_options(pkcs12))
    assert certificates == [own.certificate]
    assert context.cert_store_stats()["x509"] == 0
    trusting = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.pem}
    context = client_context(read_options({**pkcs12, **trusting}))
    assert context.cert_store_stats()["x509_ca"] == 1


def bad_stores(authority: Authority, directory: Path) -> dict[str, tuple[Store, str | None]]:
    """By a part of the sentence that says what is wrong."""
    own = authority.issue()
    encrypted = own.write_pem(directory / "encrypted.pem", KEY_PASSWORD)
    plain = own.write_pem(directory / "plain.pem")
    pkcs_1 = directory / "pkcs1.pem"
    old = own.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    pkcs_1.write_bytes(old + own.chain_pem.encode())
    cut = directory / "cut.jks"
    cut.write_bytes((DATA / "keys.jks").read_bytes()[:-100])
    empty = directory / "empty.pem"
    empty.write_text("")
    broken = own.chain_pem.replace("MII", "AII", 1)
    return {
        "No such file": (Store("PEM", str(directory / "none.pem")), None),
        "0 private keys": (Store("PEM", str(empty)), None),
        "2 private keys": (Store("PEM", key=own.key_pem() * 2, certificates="x"), None),
        "no certificate": (Store("PEM", key=own.key_pem(), certificates="x"), None),
        "certificate in it cannot be read": (
            Store("PEM", key=own.key_pem(), certificates=broken),
            None,
        ),
        "ssl.key.password is not set": (Store("PEM", str(encrypted)), None),
        "another than the key's": (Store("PEM", str(encrypted)), "wrong"),
        "not encrypted": (Store("PEM", str(plain)), KEY_PASSWORD),
        "EC PRIVATE KEY": (Store("PEM", str(pkcs_1)), None),
        "password was incorrect": (Store("JKS", str(DATA / "keys.jks"), "wrong"), None),
        "Cannot recover key": (Store("JKS", str(DATA / "keys.jks"), PASSWORD), None),
        "tampered": (Store("JKS", str(cut), PASSWORD), None),
        "keystore password was incorrect": (Store("JKS", str(DATA / "keys.p12"), "wrong"), None),
        "PKCS12 or JKS": (Store("PKCS12", str(plain), PASSWORD), None),
        "no private key": (Store("JKS", str(DATA / "trusted.jks"), PASSWORD), None),
    }


def test_what_cannot_be_read_is_told(authority: Authority, tmp_path: Path) -> None:
    for words, (store, password) in bad_stores(authority, tmp_path).items():
        with pytest.raises(TlsError, match=words) as problem:
            read_identities(store, password)
        text = str(problem.value)
        assert "wrong" not in text
        assert KEY_PASSWORD not in text
        assert PASSWORD not in text


def test_a_certificate_of_another_key(authority: Authority) -> None:
    own, other = authority.issue(), authority.issue()
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": own.key_pem(),
        "ssl.keystore.certificate.chain": other.chain_pem,
    }
    with pytest.raises(TlsError, match="not that of its key"):
        server_context(read_options(settings))


def test_a_damaged_jks_ends_in_a_sentence() -> None:
    """Cut anywhere, and read without the password that its checksum needs."""
    whole = (DATA / "trusted.jks").read_bytes()
    for size in range(len(whole)):
        try:
            read_jks(whole[:size], None)
        except TlsError:
            continue
        assert size >= len(whole) - 20, "only the checksum may be missing unnoticed"


def test_secrets_are_not_shown() -> None:
    options = read_options(
        {
            "ssl.keystore.location": "/a",
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": KEY_PASSWORD,
        }
    )
    shown = repr(options)
    assert PASSWORD not in shown
    assert KEY_PASSWORD not in shown
