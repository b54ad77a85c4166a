"""
Four plugins at work: installed in a temporary home, granted what they need, called, and shown.

Run it as ``python examples/plugins/run.py``, or with the names of some of them.  Nothing of it stays, and nothing is
sent off this machine: the server that a plugin talks to is started here.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KEY = "k-3f9a77c1d2"


class Newsroom(http.server.BaseHTTPRequestHandler):
    """The server of the example: it answers only whoever has the key."""

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Bearer {KEY}":
            self.send_error(401)
            return
        body = json.dumps({"headlines": ["Rain again", "Rain stops", "Sun seen"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        # An echo of the credential: the plugin gets to see it without.
        self.send_header("X-Reader", f"alice, with {KEY}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def server(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[int]:
    """A server on the first free port of those that the plugin asks for."""
    for port in (8761, 8762, 8763, 8764):
        with contextlib.suppress(OSError):
            made = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
            break
    else:
        raise SystemExit("the ports 8761 to 8764 are all in use; end what uses one of them")
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        made.shutdown()
        made.server_close()
        thread.join()


def fetch_and_store() -> None:
    """A plugin that fetches with a credential that it never sees, and stores."""
    import fastness
    from fastness.capabilities.net import AddressGuard, Allowance, Net, Secret

    with server(Newsroom) as port:
        origin = f"http://127.0.0.1:{port}"
        # Addresses of this machine are refused under every grant, but for what the operator names exactly.
        guard = AddressGuard([Allowance("127.0.0.1", "127.0.0.1", port)])
        secret = Secret(name="newsroom", origin=origin, methods=("GET",), value=KEY, form="Bearer {}", plain_http=True)
        net = Net(guard, secrets=lambda owner, name: secret if (owner, name) == ("alice", "newsroom") else None)
        with fastness.PluginHost(adapters={"net": net}) as host:
            host.install(HERE / "fetch_and_store")
            host.grant("example.headlines", owner="alice", allowed=["storage"])
            show("without the network", host.invoke("example.headlines", "refresh", {"origin": origin}, owner="alice"))
            host.grant("example.headlines", owner="alice", all=True)
            show("with it", host.invoke("example.headlines", "refresh", {"origin": origin}, owner="alice"))
            host.revoke("example.headlines", owner="alice")
            host.grant("example.headlines", owner="alice", allowed=["storage"])
            show("what it kept", host.invoke("example.headlines", "latest", {"most": 2}, owner="alice"))
            host.grant("example.headlines", owner="bob", all=True)
            show("what bob has", host.invoke("example.headlines", "latest", owner="bob"))


def words() -> None:
    """A plugin in JavaScript."""
    import fastness

    with fastness.PluginHost() as host:
        host.install(HERE / "words")
        host.grant("example.words", owner="alice", all=True)
        for text in ("The rain, the rain and the wind.", "Sun after the rain"):
            show(text, host.invoke("example.words", "count", {"text": text}, owner="alice"))
        show("most used", host.invoke("example.words", "most_used", {"most": 2}, owner="alice"))


def build_runner() -> None:
    """A plugin that runs programs without being able to start a process."""
    import fastness

    project = {
        "build.sh": "set -e\nsort words.txt | uniq > sorted.txt\nwc -l < sorted.txt > count.txt\n",
        "words.txt": "rain\nsun\nrain\nwind\n",
    }
    with fastness.PluginHost() as host:
        host.install(HERE / "build_runner")
        host.grant("example.build", owner="alice", all=True)
        show("a build", host.invoke("example.build", "build", {"files": project}, owner="alice"))


def hostile() -> None:
    """A plugin that tries what it may not."""
    import fastness
    from fastness.capabilities.fs import FsScope

    os.environ["EXAMPLE_API_KEY"] = "s-very-secret"
    secret = Path(os.environ["FASTNESS_HOME"]) / "secret.txt"
    secret.write_text("the owner's own")
    with server(Newsroom) as port, fastness.PluginHost() as host:
        host.install(HERE / "hostile", source="marketplace")
        # Less than it asks for: its folder, to read only.
        host.grant("example.hostile", owner="alice", allowed=[FsScope(read=True), "net"])
        arguments = {"secret_path": str(secret), "victim_port": port}
        result = host.invoke("example.hostile", "decorate", arguments, owner="alice")
        result.raise_for_outcome()
        for attempt, came in result.value:
            print(f"  {attempt:40} {came}")
        print("  what the host refused and recorded:")
        for row in result.denials:
            if not row.claimed:
                print(f"    {row.capability}.{row.operation} {row.target}: {row.code.value}")
        # What it writes over is a copy that was made for the one call.
        changed = [host.invoke("example.hostile", "stay", owner="alice").value for _ in range(2)]
        print(f"  it changed its own code twice; what the next call found: {changed}")
        got = [attempt for attempt, came in result.value if came.startswith("GOT")]
        print(f"  {len(got)} of {len(result.value)} attempts got through")
        if got or changed != [False, False]:
            raise SystemExit(f"these should not have: {got}")


def show(what: str, result: Any) -> None:
    """What a call returned; what it did wrong ends the example."""
    result.raise_for_outcome()
    print(f"  {what}: {result.value}")


def trail() -> None:
    """What was recorded of all this, and whether the record is whole."""
    from fastness.audit import reading
    from fastness.audit.verify import verify
    from fastness.runner.trail import places

    path, key = places()
    records = list(reading.records(path))
    refused = sum(record.decision == "refused" for record in records)
    print(f"the audit trail: {len(records)} records, {refused} of refusals, whole: {verify(path, key).whole}")


EXAMPLES: tuple[Callable[[], None], ...] = (fetch_and_store, words, build_runner, hostile)


def main(names: list[str]) -> int:
    """Run the examples of these names, or all."""
    with tempfile.TemporaryDirectory(prefix="fastness-example-") as home:
        os.environ["FASTNESS_HOME"] = home
        for example in EXAMPLES:
            if not names or example.__name__ in names:
                print(f"{example.__name__}: {example.__doc__}", flush=True)
                example()
        trail()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
