"""
An engine over a network: with TLS that both sides check, or not at all.
"""

from __future__ import annotations

import contextlib
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import fake_engines as fakes
import pytest

import house
from fastness._container import probe
from fastness._container.faults import EngineFault


def _make(folder: Path, name: str, signer: str = "", more: str = "") -> None:
    base = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    command = [*base, "-keyout", f"{folder}/{name}-key.pem", "-out", f"{folder}/{name}.pem", "-subj", f"/CN={name}"]
    if signer:
        command += ["-CA", f"{folder}/{signer}.pem", "-CAkey", f"{folder}/{signer}-key.pem"]
    if more:
        command += ["-addext", more]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        house.lacks("there is no openssl to make certificates with")
    folder = tmp_path_factory.mktemp("tls")
    _make(folder, "ca")
    _make(folder, "other")
    _make(folder, "server", "ca", "subjectAltName=IP:127.0.0.1")
    _make(folder, "elsewhere", "ca", "subjectAltName=DNS:elsewhere")
    _make(folder, "client", "ca")
    return folder


def _place(folder: Path, ca: str, into: Path) -> dict[str, str]:
    into.mkdir(exist_ok=True)
    for source, target in ((ca, "ca"), ("client", "cert"), ("client-key", "key")):
        shutil.copy(folder / f"{source}.pem", into / f"{target}.pem")
    return {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(into)}


@contextlib.contextmanager
def _engine(files: Path, name: str) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / f"{name}.pem", files / f"{name}-key.pem")
    context.load_verify_locations(files / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    plain = fakes.answering()

    def behave(conn: object, over: threading.Event) -> None:
        with context.wrap_socket(conn, server_side=True) as secure:  # type: ignore[arg-type]  # it is a socket
            plain(secure, over)

    with fakes.engine(behave, ("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_both_sides_are_checked(files: Path, tmp_path: Path) -> None:
    with _engine(files, "server") as port:
        variables = {**_place(files, "ca", tmp_path / "c"), "DOCKER_HOST": f"tcp://127.0.0.1:{port}"}
        assert probe.reach(variables, None, 10.0).kind == "docker"


@pytest.mark.parametrize(("server", "ca"), [("server", "other"), ("elsewhere", "ca")])
def test_an_engine_that_is_another_is_refused(server: str, ca: str, files: Path, tmp_path: Path) -> None:
    """Of another authority, or with another name."""
    with _engine(files, server) as port:
        variables = {**_place(files, ca, tmp_path / "c"), "DOCKER_HOST": f"tcp://127.0.0.1:{port}"}
        with pytest.raises(EngineFault) as caught:
            probe.reach(variables, None, 10.0)
    assert caught.value.kind == "insecure"


def test_one_that_never_shakes_hands_is_silent(files: Path, tmp_path: Path) -> None:
    with fakes.engine(fakes.mute, ("127.0.0.1", 0)) as listener:
        host = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(EngineFault) as caught:
            probe.reach({**_place(files, "ca", tmp_path / "c"), "DOCKER_HOST": host}, None, 0.5)
    assert caught.value.kind == "silent"


def test_one_that_speaks_no_tls_is_refused(files: Path, tmp_path: Path) -> None:
    with fakes.engine(fakes.saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ("127.0.0.1", 0)) as listener:
        host = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(EngineFault) as caught:
            probe.reach({**_place(files, "ca", tmp_path / "c"), "DOCKER_HOST": host}, None, 5.0)
    assert caught.value.kind in ("insecure", "broken", "silent")
