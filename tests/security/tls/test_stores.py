"""Keystores and truststores of each kind: what is read, and what is said of what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kwire.security.tls.context import client_context, server_context
from kwire.security.tls.error import TlsError
from kwire.security.tls.jks import JCEKS_MAGIC, MAGIC, KeystoreEntry, read_jks
from kwire.security.tls.options import StoreSource, read_options
from kwire.security.tls.stores import (
    pem_of_identity,
    pem_of_trusted,
    read_identities,
    read_trusted,
)
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
def test_keystores_of_keytool_are_read(file: str, kind: str, key_password: str | None) -> None:
    store = StoreSource(kind, str(DATA / file), PASSWORD)
    (identity,) = read_identities(store, key_password)
    assert pem(identity.chain[0]) == keytool_certificate()
    assert identity.key.public_key() == identity.chain[0].public_key()


@pytest.mark.parametrize("file", ["trusted.jks", "trusted.p12", "keys.jks", "keys.p12"])
def test_truststores_of_keytool_are_read(file: str) -> None:
    (trusted,) = read_trusted(StoreSource("JKS", str(DATA / file), PASSWORD))
    assert pem(trusted) == keytool_certificate()


def test_jks_truststore_is_read_without_its_password() -> None:
    assert len(read_trusted(StoreSource("JKS", str(DATA / "trusted.jks")))) == 1


def test_pem_is_read_from_a_file_and_inline(authority: Authority, tmp_path: Path) -> None:
    own = authority.issue()
    for password in (None, KEY_PASSWORD):
        file = own.write_pem(tmp_path / "own.pem", password)
        (found,) = read_identities(StoreSource("PEM", str(file)), password)
        assert found.chain == (own.certificate, own.authority)
        inline = StoreSource("PEM", key=own.key_pem(password), certificates=own.chain_pem)
        (found,) = read_identities(inline, password)
        assert found.key.public_key() == own.key.public_key()


def test_keys_of_all_store_types_load_into_openssl(authority: Authority, tmp_path: Path) -> None:
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


def bad_stores(authority: Authority, directory: Path) -> dict[str, tuple[StoreSource, str | None]]:
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
        "No such file": (StoreSource("PEM", str(directory / "none.pem")), None),
        "0 private keys": (StoreSource("PEM", str(empty)), None),
        "2 private keys": (StoreSource("PEM", key=own.key_pem() * 2, certificates="x"), None),
        "no certificate": (StoreSource("PEM", key=own.key_pem(), certificates="x"), None),
        "certificate in it cannot be read": (
            StoreSource("PEM", key=own.key_pem(), certificates=broken),
            None,
        ),
        "ssl.key.password is not set": (StoreSource("PEM", str(encrypted)), None),
        "does not match the key": (StoreSource("PEM", str(encrypted)), "wrong"),
        "not encrypted": (StoreSource("PEM", str(plain)), KEY_PASSWORD),
        "EC PRIVATE KEY": (StoreSource("PEM", str(pkcs_1)), None),
        "password was incorrect": (StoreSource("JKS", str(DATA / "keys.jks"), "wrong"), None),
        "Cannot recover key": (StoreSource("JKS", str(DATA / "keys.jks"), PASSWORD), None),
        "tampered": (StoreSource("JKS", str(cut), PASSWORD), None),
        "keystore password was incorrect": (
            StoreSource("JKS", str(DATA / "keys.p12"), "wrong"),
            None,
        ),
        "PKCS12 or JKS": (StoreSource("PKCS12", str(plain), PASSWORD), None),
        "no private key": (StoreSource("JKS", str(DATA / "trusted.jks"), PASSWORD), None),
    }


def test_unreadable_store_is_reported(authority: Authority, tmp_path: Path) -> None:
    for words, (store, password) in bad_stores(authority, tmp_path).items():
        with pytest.raises(TlsError, match=words) as problem:
            read_identities(store, password)
        text = str(problem.value)
        assert "wrong" not in text
        assert KEY_PASSWORD not in text
        assert PASSWORD not in text


def test_certificate_of_another_key_is_refused(authority: Authority) -> None:
    own, other = authority.issue(), authority.issue()
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": own.key_pem(),
        "ssl.keystore.certificate.chain": other.chain_pem,
    }
    with pytest.raises(TlsError, match="does not belong to its key"):
        server_context(read_options(settings))


def test_damaged_jks_raises_tls_error() -> None:
    """Cut anywhere, and read without the password that its checksum needs."""
    whole = (DATA / "trusted.jks").read_bytes()
    for size in range(len(whole)):
        try:
            read_jks(whole[:size], None)
        except TlsError:
            continue
        assert size >= len(whole) - 20, "only the checksum may be missing unnoticed"


def test_store_repr_has_no_secrets() -> None:
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


def test_identity_and_trusted_certificates_are_written_as_pem(
    authority: Authority, tmp_path: Path
) -> None:
    """A key without encryption, and each certificate right after the one before."""
    own = authority.issue()
    store = StoreSource("PKCS12", str(own.write_p12(tmp_path / "own.p12")), PASSWORD)
    assert pem_of_identity(store, None) == (own.key_pem(), own.chain_pem)
    assert pem_of_trusted(store) == own.chain_pem
    assert pem_of_trusted(StoreSource("PEM", certificates=authority.pem)) == authority.pem


@pytest.mark.parametrize(
    ("store", "name"),
    [
        (StoreSource("PEM", key="x", certificates="x"), "the inline keystore: it has 0 private"),
        (StoreSource("PEM", "/none"), "ssl.keystore.location=/none: Failed to load it: No such"),
    ],
)
def test_problem_of_a_keystore_names_it(store: StoreSource, name: str) -> None:
    with pytest.raises(TlsError) as problem:
        read_identities(store, None)
    assert str(problem.value).startswith(name)


def test_problem_of_a_truststore_names_it(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    for store, name in (
        (StoreSource("PEM", certificates="x"), "the inline truststore: there is no certificate"),
        (StoreSource("JKS", str(path)), f"ssl.truststore.location={path}: Failed to load it"),
    ):
        with pytest.raises(TlsError) as problem:
            read_trusted(store)
        assert str(problem.value).startswith(name)


def jks(*entries: bytes, version: int = 2, count: int | None = None) -> bytes:
    """A keystore with a wrong hash, which counts only with a password."""
    number = len(entries) if count is None else count
    head = MAGIC + version.to_bytes(4, "big") + number.to_bytes(4, "big")
    return head + b"".join(entries) + bytes(20)


def jks_entry(tag: int, *, version: int = 2, alias: bytes = b"alias") -> bytes:
    """A trusted certificate, or what another tag makes of it."""
    kind = b"\0\5X.509" if version == 2 else b""
    name = len(alias).to_bytes(2, "big") + alias
    certificate = b"certificate"
    sized = len(certificate).to_bytes(4, "big") + certificate
    return tag.to_bytes(4, "big") + name + bytes(8) + kind + sized


def test_jks_entry_may_have_an_empty_alias() -> None:
    [entry] = read_jks(jks(jks_entry(2, alias=b"")), None)
    assert entry == KeystoreEntry("", None, (b"certificate",))


@pytest.mark.parametrize("version", [1, 2])
def test_trusted_certificates_of_both_versions_of_jks_are_read(version: int) -> None:
    """Version 1 has no type of certificate."""
    data = jks(*(jks_entry(2, version=version) for _ in range(2)), version=version)
    assert read_jks(data, None) == [KeystoreEntry("alias", None, (b"certificate",))] * 2


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0" + jks()[1:], "Invalid keystore format"),
        (jks(version=0), "Invalid keystore format"),
        (jks(version=3), "Invalid keystore format"),
        (jks(jks_entry(3)), "cut short or damaged"),
        (jks(jks_entry(2), count=2), "cut short or damaged"),
        (jks(jks_entry(2)[:-15] + (-1).to_bytes(4, "big", signed=True)), "cut short or damaged"),
    ],
)
def test_invalid_jks_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(TlsError, match=why):
        read_jks(data, None)


def test_wrong_password_of_a_jks_is_refused_but_none_skips_the_check() -> None:
    with pytest.raises(TlsError, match="tampered with, or password was incorrect"):
        read_jks(jks(jks_entry(2)), "")
    assert len(read_jks(jks(jks_entry(2)), None)) == 1


def test_jceks_keystore_is_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "keys.jceks"
    path.write_bytes(JCEKS_MAGIC + bytes(40))
    with pytest.raises(TlsError, match="convert it to PKCS12 with keytool -importkeystore"):
        read_trusted(StoreSource("JKS", str(path), PASSWORD))
