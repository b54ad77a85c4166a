"""
A connection to an engine: a local socket, or TCP with or without TLS, under the deadline of what it is for.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import stat
import threading
import time
from collections.abc import Callable
from typing import Any

from fastness._container.deadline import Deadline
from fastness._container.endpoint import Endpoint, is_loopback
from fastness._container.faults import EngineFault

_START = "start it (systemctl start docker, or systemctl start podman.socket)"


def connect(endpoint: Endpoint, deadline: Deadline, secure: Callable[[], ssl.SSLContext]) -> socket.socket:
    """A connection that does not block.  Raises EngineFault."""
    sock = _connect_path(endpoint.path, deadline) if endpoint.path else _connect_host(endpoint, deadline)
    if endpoint.tls is None:
        return sock
    try:
        wrapped = secure().wrap_socket(sock, server_hostname=endpoint.host, do_handshake_on_connect=False)
    except BaseException:
        sock.close()
        raise
    try:
        until(wrapped, wrapped.do_handshake, deadline)
    except ssl.SSLError as error:
        wrapped.close()
        raise EngineFault("insecure", f"no TLS with {endpoint}: {error.reason or error}", "check its files") from None
    except BaseException:
        wrapped.close()
        raise
    return wrapped


def _connect_path(path: str, deadline: Deadline) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        pause = 0.002
        while True:
            try:
                sock.connect(path)
            except BlockingIOError:
                # Its queue is full (connect(2)): an engine that is busy, or one that listens no more.
                if deadline.ends - time.monotonic() < pause:
                    raise EngineFault(
                        "busy",
                        f"unix://{path} took no connection within {deadline.seconds:.3g} s: its queue is full",
                        "wait until the engine has less to do, or restart it",
                    ) from None
                time.sleep(pause)
                pause = min(pause * 2, 0.05)
                continue
            return sock
    except OSError as error:
        sock.close()
        raise _no_socket(path, error) from None
    except BaseException:
        sock.close()
        raise


def _no_socket(path: str, error: OSError) -> EngineFault:
    """What is wrong with a socket's path."""
    where = f"unix://{path}"
    if error.errno == errno.ENOENT:
        return EngineFault("absent", f"there is no {where}", f"{_START}, or name another with FASTNESS_ENGINE")
    try:
        is_socket = stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        is_socket = True
    if not is_socket:
        return EngineFault("not_a_socket", f"{path} is no socket", "name the engine's socket with FASTNESS_ENGINE")
    if error.errno in (errno.EACCES, errno.EPERM):
        return EngineFault(
            "denied",
            f"this user may not use {where}",
            "have root do it; to be in the group of that socket is to be root",
        )
    if error.errno == errno.ECONNREFUSED:
        return EngineFault("stale", f"nobody listens at {where}: the engine that made it is gone", _START)
    return EngineFault("broken", f"{where} cannot be connected to: {error.strerror or error}", _START)


def _connect_host(endpoint: Endpoint, deadline: Deadline) -> socket.socket:
    met = ""
    for family, address in _addresses(endpoint, deadline):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            code = sock.connect_ex(address)
            if code == errno.EINPROGRESS:
                deadline.wait(sock.fileno(), select.POLLOUT)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not code:
                return sock
            met = os.strerror(code)
        except OSError as error:
            met = error.strerror or str(error)
        except BaseException:
            sock.close()
            raise
        sock.close()
    raise EngineFault("no_host", f"{endpoint} cannot be connected to: {met}", "start the engine there, or name another")


def _addresses(endpoint: Endpoint, deadline: Deadline) -> list[tuple[int, Any]]:
    host, port = endpoint.host, endpoint.port
    if host == "localhost":
        # Never looked up: an answer from elsewhere would lead elsewhere.
        return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port))]
    if is_loopback(host):
        return [(socket.AF_INET6 if ":" in host else socket.AF_INET, (host, port))]
    found: list[Any] = []

    def look() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            found.append(error)

    # getaddrinfo(3) has no time limit of its own.
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(deadline.left())
    if not found:
        raise deadline.passed()
    if isinstance(found[0], OSError):
        raise EngineFault("no_host", f"{host} cannot be looked up: {found[0].strerror}", "check the engine's address")
    return [(int(family), address) for family, _, _, _, address in found[0]]


def until(sock: socket.socket, step: Callable[[], Any], deadline: Deadline) -> Any:
    """Do what does not block as often as it takes.  Raises EngineFault."""
    while True:
        try:
            return step()
        except (BlockingIOError, ssl.SSLWantReadError):
            event = select.POLLIN
        except ssl.SSLWantWriteError:
            event = select.POLLOUT
        deadline.wait(sock.fileno(), event)
