"""Plugins from the command line with real guests: from a refusal to the grant that lifts it, and to the end of that."""

from __future__ import annotations

import http.server
import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import house
from fastness.audit import reading
from fastness.runner.trail import places

TOML = """
id = "fetcher"
version = "1.0.0"
api = 1
runtime = "python"
entry = "fetcher.py"
methods = ["fetch", "both", "spin", "crash"]

[[capabilities]]
kind = "net"
hosts = ["inner.test", "127.0.0.1"]
schemes = ["http"]
ports = [PORT]
reason = "Fetches."

[[capabilities]]
kind = "storage"
quota = 4096
reason = "Keeps."
"""
CODE = """
def fetch(ctx, url):
    return ctx.net.request("GET", url)["body"].decode()

def both(ctx, url):
    got = fetch(ctx, url)
    ctx.storage.put("last", got)
    return got

def spin(ctx):
    while True:
        pass

def crash(ctx):
    import ctypes
    ctypes.string_at(0)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    house.require("isolated tier")
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(folder))
    return folder


class Server(http.server.ThreadingHTTPServer):
    """A server of this machine, which counts what it hears."""

    daemon_threads = True
    heard = 0


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.heard += 1
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None:
            pass

    made = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture
def plugin(tmp_path: Path, home: Path, server: Server) -> Path:
    """A plugin that asks for that server, on a machine whose operator lets it be reached."""
    port = server.server_address[1]
    folder = tmp_path / "fetcher"
    folder.mkdir()
    (folder / "plugin.toml").write_text(TOML.replace("PORT", str(port)))
    (folder / "fetcher.py").write_text(CODE)
    (home / "config").mkdir(mode=0o700)
    file = home / "config" / "config.toml"
    file.write_text(f'[[net.allow]]\nhost = "127.0.0.1"\naddress = "127.0.0.1"\nport = {port}\n')
    file.chmod(0o600)
    return folder


def fastness(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fastness.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL)


def suggested(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The words of the one command that grants."""
    (line,) = [line.strip() for line in done.stderr.splitlines() if line.strip().startswith("fastness plugin grant")]
    return shlex.split(line)[1:]


def test_from_a_refusal_to_its_grant_and_its_end(plugin: Path, server: Server) -> None:
    """Each command that is printed does what it says: it lifts the refusal that it was printed for, and no more."""
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    call = ("plugin", "call", "fetcher", "both", "--arg", f"url={url}")
    assert fastness("plugin", "install", str(plugin)).returncode == 0
    refused = fastness(*call)
    assert (refused.returncode, refused.stdout, server.heard) == (2, "", 0)

    # Nothing of the network: it is absent.
    assert fastness("plugin", "grant", "fetcher", "--allow", "storage").returncode == 0
    absent = fastness(*call)
    assert (absent.returncode, server.heard) == (1, 0)
    assert "no attribute 'net'" in absent.stderr
    wanted = suggested(absent)

    # Too little of it: it is refused by the host, and the row says which.
    narrow = 'net:{"hosts": ["inner.test"]}'
    assert fastness("plugin", "grant", "fetcher", "--allow", narrow).returncode == 0
    little = fastness(*call)
    assert (little.returncode, server.heard) == (1, 0)
    assert "net.request" in little.stderr
    assert "host" in little.stderr
    assert suggested(little)[:4] == ["plugin", "grant", "fetcher", "--owner"]

    # What was printed first.
    assert fastness(*wanted).returncode == 0
    good = fastness(*call)
    assert (good.returncode, good.stdout, good.stderr, server.heard) == (0, "hello\n", "", 1)
    # Another owner granted nothing.
    assert fastness(*call, "--owner", "ann").returncode == 2

    assert fastness("plugin", "revoke", "fetcher").returncode == 0
    assert fastness(*call).returncode == 2
    assert server.heard == 1


def test_records_of_a_call_and_of_what_came_before(plugin: Path, server: Server) -> None:
    """The trail has the invocation, each call with its target and outcome, and neither query nor answer."""
    url = f"http://127.0.0.1:{server.server_address[1]}/path?key=secret"
    assert fastness("plugin", "install", str(plugin), "--yes").returncode == 0
    assert fastness("plugin", "call", "fetcher", "both", "--arg", f"url={url}").stdout == "hello\n"
    rows = list(reading.records(places()[0]))
    assert [(row.capability, row.op, row.phase) for row in rows] == [
        ("plugin", "install", "event"),
        ("plugin", "grant", "event"),
        ("plugin", "invoke", "event"),
        ("net", "request", "intent"),
        ("net", "request", "outcome"),
        ("storage", "put", "intent"),
        ("storage", "put", "outcome"),
        ("plugin", "end", "event"),
    ]
    assert {row.run for row in rows[3:]} == {rows[2].run} != {""}
    assert (rows[-1].target, rows[-1].code) == ("both", "ok")
    shown = fastness("audit", "--plugin", "fetcher").stdout
    # A long address goes on in another line.
    assert re.search(r"/\s*path\b", shown)
    assert "secret" not in shown
    assert "hello" not in shown
    assert fastness("audit", "verify").returncode == 0


def test_json_is_the_result(plugin: Path, server: Server) -> None:
    """One object, with the policy's digest and what was refused."""
    assert fastness("plugin", "install", str(plugin), "--yes").returncode == 0
    done = fastness("plugin", "call", "fetcher", "fetch", "--args", '{"url": "http://169.254.169.254/"}', "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["schema"], found["outcome"]["kind"]) == (1, 1, "guest_error")
    assert [(row["capability"], row["code"]) for row in found["denials"]] == [("net", "host")]
    assert len(found["policy_digest"]) == 64
    assert found["tier"] == "isolated"


def test_limits_and_crashes_have_their_exit_codes(plugin: Path) -> None:
    """A timeout is 4; a crash is 1, and the third puts the plugin where nobody can call it."""
    assert fastness("plugin", "install", str(plugin), "--yes").returncode == 0
    assert fastness("plugin", "call", "fetcher", "spin", "--timeout", "0.3").returncode == 4
    for _ in range(2):
        assert fastness("plugin", "call", "fetcher", "crash").returncode == 1
    ends = [row.code for row in reading.records(places()[0]) if row.op == "end"]
    assert ends == ["timeout", "crashed", "crashed"]
    third = fastness("plugin", "call", "fetcher", "crash")
    assert third.returncode == 1
    assert "fastness plugin disable fetcher" in third.stderr
    assert fastness("plugin", "call", "fetcher", "spin").returncode == 2
    assert "quarantined" in fastness("plugin", "list").stdout
