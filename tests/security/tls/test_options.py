"""The rules between `ssl.*` settings, and cipher suites by Java's names."""

from __future__ import annotations

import ssl

import pytest

from kwire.security.tls.ciphers import is_allowed, openssl_name
from kwire.security.tls.context import client_context
from kwire.security.tls.error import TlsError
from kwire.security.tls.options import StoreSource, TlsOptions, read_options

FILE = {"ssl.keystore.location": "/a", "ssl.keystore.password": "p"}
INLINE = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": "k",
    "ssl.keystore.certificate.chain": "c",
}
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "c"}


def test_tls_defaults_match_kafka() -> None:
    options = read_options({})
    assert options == TlsOptions()
    assert options.enabled_protocols == ("TLSv1.2", "TLSv1.3")
    assert options.checks_host_name


def test_each_tls_setting_is_read() -> None:
    """Surrounding spaces and the case of types do not count."""
    options = read_options(
        {
            "ssl.keystore.type": " pkcs12 ",
            "ssl.keystore.location": " /keys ",
            "ssl.keystore.password": "p",
            "ssl.key.password": "k",
            "ssl.truststore.type": "jks",
            "ssl.truststore.location": "/trust",
            "ssl.truststore.password": "t",
            "ssl.client.auth": " Requested ",
            "ssl.protocol": "TLSv1.2",
            "ssl.enabled.protocols": "TLSv1.3, TLSv1.1",
            "ssl.cipher.suites": "A, B,",
            "ssl.endpoint.identification.algorithm": "",
            "ssl.provider": "ignored",
        }
    )
    assert options == TlsOptions(
        keystore=StoreSource("PKCS12", "/keys", "p"),
        truststore=StoreSource("JKS", "/trust", "t"),
        key_password="k",
        client_auth="requested",
        protocol="TLSv1.2",
        enabled_protocols=("TLSv1.3", "TLSv1.1"),
        cipher_suites=("A", "B"),
        checks_host_name=False,
    )


def test_pem_in_the_settings_is_read() -> None:
    options = read_options({**INLINE, **TRUST, "ssl.key.password": "k"})
    assert options.keystore == StoreSource("PEM", key="k", certificates="c")
    assert options.truststore == StoreSource("PEM", certificates="c")
    assert options.key_password == "k"
    file = read_options({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/a"})
    assert file.keystore == StoreSource("PEM", "/a")
    trust = read_options({"ssl.truststore.location": "/a"})
    assert trust.truststore == StoreSource("JKS", "/a")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ssl.keystore.location": "/a"}, "key store password is not specified"),
        ({"ssl.keystore.password": "p"}, "SSL key store is not specified"),
        ({**FILE, "ssl.keystore.type": "PEM"}, "cannot be specified with PEM format"),
        ({**INLINE, "ssl.keystore.type": "JKS"}, "only for PEM, but key store type is JKS"),
        ({**INLINE, "ssl.keystore.location": "/a"}, "Both SSL key store location and"),
        ({**INLINE, "ssl.keystore.password": "p"}, "cannot be specified with PEM format"),
        ({"ssl.keystore.key": "k", "ssl.keystore.type": "PEM"}, "certificate chain is not"),
        ({"ssl.keystore.certificate.chain": "c"}, "private key is not specified"),
        ({"ssl.keystore.type": "BKS"}, "ssl.keystore.type=BKS not found"),
        ({**TRUST, "ssl.truststore.type": "JKS"}, "only for PEM, but trust store type is JKS"),
        ({**TRUST, "ssl.truststore.location": "/a"}, "Both SSL trust store location and"),
        ({**TRUST, "ssl.truststore.password": "p"}, "cannot be specified for PEM"),
        ({"ssl.truststore.password": "p"}, "SSL trust store is not specified"),
        ({"ssl.protocol": "TLSv9"}, "TLSv9 SSLContext not available"),
        ({"ssl.enabled.protocols": "TLSv1.2,TLSv9"}, "TLSv9"),
        ({"ssl.client.auth": "maybe"}, "none, requested, required"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "ldaps"),
    ],
)
def test_contradictory_tls_settings_are_refused(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(TlsError, match=sentence):
        read_options(settings)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("SSL_RSA_WITH_3DES_EDE_CBC_SHA", "DES-CBC3-SHA"),
    ],
)
def test_cipher_suites_are_translated_from_java(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl


def context(suites: str, protocols: str = "TLSv1.2,TLSv1.3") -> ssl.SSLContext:
    return client_context(
        read_options({"ssl.cipher.suites": suites, "ssl.enabled.protocols": protocols})
    )


def test_cipher_suites_of_tls_1_2_exclude_tls_1_3() -> None:
    chosen = context("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    assert chosen.maximum_version is ssl.TLSVersion.TLSv1_2
    names = {each["name"] for each in chosen.get_ciphers()} - set(TLS_1_3)
    assert names == {"ECDHE-RSA-AES256-GCM-SHA384"}


TLS_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")


def test_cipher_suites_of_tls_1_3_exclude_tls_1_2() -> None:
    assert context(TLS_1_3[0]).minimum_version is ssl.TLSVersion.TLSv1_3
    assert is_allowed(TLS_1_3[0], (TLS_1_3[0],))
    assert not is_allowed(TLS_1_3[1], (TLS_1_3[0],))
    assert is_allowed("ECDHE-RSA-AES256-GCM-SHA384", (TLS_1_3[0],))


@pytest.mark.parametrize(
    ("suites", "protocols", "sentence"),
    [
        ("NONSENSE", "TLSv1.2", "Unsupported CipherSuite: NONSENSE"),
        ("TLS_RSA_WITH_NOTHING_SHA", "TLSv1.2", "OpenSSL no longer has any of"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "TLSv1.3", "no suite of TLS 1.3"),
    ],
)
def test_unknown_cipher_suites_are_refused(suites: str, protocols: str, sentence: str) -> None:
    with pytest.raises(TlsError, match=sentence):
        context(suites, protocols)


def test_outdated_tls_versions_are_refused() -> None:
    with pytest.raises(TlsError, match=r"none of TLSv1.1 is served"):
        context("", "TLSv1.1")
    assert context("", "TLSv1.1,TLSv1.2").maximum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.skipif(
    hasattr(ssl.SSLContext, "set_ciphersuites"), reason="this Python can disable it"
)
def test_suites_of_tls_1_3_without_the_strongest_are_refused() -> None:
    """OpenSSL would agree on the strongest all the same."""
    with pytest.raises(TlsError, match=f"must include {TLS_1_3[0]}, because Python before 3.15"):
        context(TLS_1_3[1])
    assert context(",".join(TLS_1_3)).minimum_version is ssl.TLSVersion.TLSv1_3


def test_unknown_protocol_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TlsError) as refused:
        read_options({"ssl.protocol": "TLSv9"})
    assert str(refused.value) == (
        "TLSv9 SSLContext not available: it must be one of TLSv1, TLSv1.1, TLSv1.2, TLSv1.3, TLS, "
        "SSL, SSLv3, SSLv2, SSLv2Hello"
    )
