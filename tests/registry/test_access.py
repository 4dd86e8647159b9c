"""Basic authentication and HTTPS."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest
import trustme

from kwire.client.cluster import Cluster
from kwire.client.errors import Misuse
from kwire.registry.rest.access import Users, read_users
from kwire.registry.serving import RegistryOptions, run_registry
from kwire.server.http.process import TlsFiles
from kwire.testing import Kafka
from kwire.testing.registry import Registry
from tests.registry.asking import Asking, record


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


REFUSED = (ssl.SSLError, ConnectionError)
USERS = Users({"ann": "secret", "bob": "a:b"})


@pytest.mark.parametrize(
    "header", [basic("ann:secret"), basic("bob:a:b"), "basic " + basic("ann:secret")[6:]]
)
def test_user_with_the_right_password_is_allowed(header: str) -> None:
    assert USERS.allows(header)


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic !", "Basic /w==", basic("ann:wrong"), basic("ann"), basic("eve:secret"),
     basic("ann:secret").replace("Basic", "Bearer"), basic(":")],
)  # fmt: skip
def test_others_are_not_allowed(header: str) -> None:
    assert not USERS.allows(header)


def test_file_of_users_is_read(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("# a comment\n\nann: secret, admin\nbob:other\n")
    users = read_users(path)
    assert users.allows(basic("ann:secret"))
    assert users.allows(basic("bob:other"))


@pytest.mark.parametrize("text", ["", "ann\n", "ann:\n", ": x\n", "ann: MD5:164\n"])
def test_file_with_a_wrong_line_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(ValueError, match=str(path)):
        read_users(path)


@pytest.mark.slow
def test_instances_with_https_and_users_send_changes_on(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    (tmp_path / "users").write_text("ann: secret\n")
    options = [
        f"--tls-certificate={tmp_path}/cert.pem", f"--tls-key={tmp_path}/key.pem",
        f"--tls-ca={tmp_path}/ca.pem", f"--users={tmp_path}/users",
    ]  # fmt: skip
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with Kafka() as kafka, Registry(kafka, options) as one, Registry(kafka, options) as two:
        for number, registry in enumerate((one, two)):
            assert registry.url.startswith("https://")
            with Asking(registry.url, context=context) as asking:
                assert asking.get("/subjects").code == 401
            with Asking(registry.url, ("ann", "secret"), context) as asking:
                made = asking.register(f"s{number}", record(f"R{number}", "a"))
                assert made.status == 200, made


@pytest.mark.slow
@pytest.mark.long
def test_client_without_a_certificate_is_refused_if_one_is_needed(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    options = [
        f"--tls-certificate={tmp_path}/both.pem", f"--tls-key={tmp_path}/both.pem",
        f"--tls-client-ca={tmp_path}/ca.pem",
    ]  # fmt: skip
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with Kafka() as kafka, Registry(kafka, options) as registry:
        with Asking(registry.url, context=context) as asking, pytest.raises(REFUSED):
            asking.get("/subjects")
        authority.issue_cert("client").configure_cert(context)
        with Asking(registry.url, context=context) as asking:
            assert asking.get("/subjects").data == []


@pytest.mark.parametrize("text", ["ann\n", None])
def test_wrong_file_is_an_error_before_the_port_is_bound(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "file"
    path.write_text(text or "no certificate")
    tls = None if text else TlsFiles(str(path), str(path))
    options = RegistryOptions("127.0.0.1", 0, users=path if text else None, tls=tls)
    with pytest.raises(Misuse):
        run_registry(options, lambda: Cluster("localhost:1"), print)
