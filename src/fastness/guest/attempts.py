"""
What a guest tries while its tier is proven; the same text runs unconfined as the control.

Prints one JSON object: for each attempt ``done``, or the name of the error that it met.
"""

import errno
import json
import os
import socket
import sys

wanted = json.loads(sys.argv[1])
found = {}


def attempt(name, function):
    try:
        found[name] = function() or "done"
    except OSError as error:
        found[name] = errno.errorcode.get(error.errno, str(error.errno))
    except Exception as error:
        found[name] = type(error).__name__


def read():
    with open(wanted["canary"]) as file:
        return "done" if wanted["secret"] in file.read() else "something else was there"


def append():
    with open(wanted["canary"], "a") as file:
        file.write("x")


def make():
    with open(wanted["mark"], "x") as file:
        file.write("x")


def connect():
    with socket.socket() as one:
        one.settimeout(1)
        one.connect(("127.0.0.1", wanted["port"]))


def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("127.0.0.1", wanted["port"]))


def local():
    with socket.socket(socket.AF_UNIX) as one:
        one.connect("\0" + wanted["abstract"])


def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def start():
    os.posix_spawn("/bin/true", ["true"], {})
    os.wait()


def signal():
    os.kill(wanted["victim"], 0)


def see():
    os.stat(f"/proc/{wanted['victim']}")


attempt("read", read)
attempt("append", append)
attempt("make", make)
attempt("connect", connect)
attempt("datagram", datagram)
attempt("local", local)
attempt("signal", signal)
attempt("see", see)
attempt("mode", lambda: os.chmod(wanted["canary"], 0o606))
attempt("memory_file", lambda: os.close(os.memfd_create("x")))
attempt("namespace", lambda: os.unshare(0) if hasattr(os, "unshare") else "AttributeError")
attempt("fork", fork)
attempt("start", start)
attempt("root", lambda: sorted(os.listdir("/")))
found["environment"] = sorted(os.environ)
found["pid"] = os.getpid()
print(json.dumps(found))
