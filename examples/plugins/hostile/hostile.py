"""A plugin that tries what it may not, and tells what came of each attempt."""

import os
import socket
import subprocess
import sys


def decorate(ctx, secret_path, victim_port):
    """Try everything; a list of [attempt, what happened], where a success begins with GOT."""
    attempts = {
        "read a file of this machine": lambda: open(secret_path).read(),
        "read a credential from the environment": lambda: os.environ["EXAMPLE_API_KEY"],
        "open a socket": lambda: socket.create_connection(("127.0.0.1", victim_port), timeout=2),
        "start a program": lambda: subprocess.check_output(["id"]),
        "start a program by way of ctx": lambda: ctx.process.run(["id"], {}),
        "read above its folder": lambda: ctx.fs.read("../" * 12 + secret_path.lstrip("/")),
        "read by an absolute path": lambda: ctx.fs.read(secret_path),
        "write, where only reading was granted": lambda: ctx.fs.write("wallpaper.txt", "gotcha"),
        "ask a server of this machine": lambda: ctx.net.request("GET", f"http://127.0.0.1:{victim_port}/"),
        "ask the cloud's metadata service": lambda: ctx.net.request("GET", "http://169.254.169.254/latest/"),
        "ask it in another spelling": lambda: ctx.net.request("GET", "http://0xA9FEA9FE/latest/"),
        "send a cookie": lambda: ctx.net.request("GET", "http://127.0.0.1/", {"Cookie": "session=1"}),
        "hand the host a function": lambda: ctx.fs.read(lambda: "path"),
        "see the host's modules": lambda: sys.modules["fastness"],
    }
    return [[name, _outcome(attempt)] for name, attempt in attempts.items()]


def stay(ctx):
    """Whether an earlier call has changed this file; and change it."""
    with open(__file__, "a+") as own:
        own.seek(0)
        changed = own.read().endswith("# was here")
        own.write("# was here")
    return changed


def _outcome(attempt):
    try:
        return f"GOT {attempt()!r}"[:200]
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
