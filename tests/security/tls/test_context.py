"""What OpenSSL is told of a listener's and a client's options."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kwire.security.tls.context import client_context, server_context
from kwire.security.tls.error import TlsError
from kwire.security.tls.options import read_options
from tests.security.tls.authority import Authority

AUTHORITY = Authority()
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.pem}


def server(**settings: str) -> ssl.SSLContext:
    """The context of a listener with these settings, whose names have underscores for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return server_context(read_options({**TRUST, **named}))[0]


@pytest.mark.parametrize(
    ("client_auth", "mode"),
    [
        ("none", ssl.CERT_NONE),
        ("requested", ssl.CERT_OPTIONAL),
        ("REQUIRED", ssl.CERT_REQUIRED),
    ],
)
def test_listener_verifies_client_certificates_by_its_setting(
    client_auth: str, mode: ssl.VerifyMode
) -> None:
    context = server(ssl_client_auth=client_auth)
    assert context.verify_mode is mode
    assert context.cert_store_stats()["x509_ca"] == 1
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN


@pytest.mark.parametrize(
    ("enabled", "lowest", "highest"),
    [
        ("TLSv1.2,TLSv1.3", ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        ("TLSv1.3,TLSv1.2,TLSv1", ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        ("TLSv1.2", ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
        ("TLSv1.3", ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3),
    ],
)
def test_enabled_protocols_are_the_versions_of_both_sides(
    enabled: str, lowest: ssl.TLSVersion, highest: ssl.TLSVersion
) -> None:
    settings = {**TRUST, "ssl.enabled.protocols": enabled}
    for context in (
        server_context(read_options(settings))[0],
        client_context(read_options(settings)),
    ):
        assert (context.minimum_version, context.maximum_version) == (lowest, highest)
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.options & ssl.OP_NO_COMPRESSION


@pytest.mark.parametrize(
    ("algorithm", "checks"), [(None, True), ("https", True), (" HTTPS ", True), ("", False)]
)
def test_client_checks_host_names_unless_the_setting_is_empty(
    algorithm: str | None, checks: bool
) -> None:
    name = "ssl.endpoint.identification.algorithm"
    context = client_context(
        read_options({**TRUST, **({} if algorithm is None else {name: algorithm})})
    )
    assert context.check_hostname is checks
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_invalid_truststore_is_reported_even_if_no_client_certificate_is_requested(
    tmp_path: Path,
) -> None:
    missing = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(tmp_path / "none")}
    with pytest.raises(TlsError, match=r"ssl\.truststore\.location=.*none: Failed to load it"):
        server_context(read_options(missing))
    assert server_context(read_options({}))[0].verify_mode is ssl.CERT_NONE
