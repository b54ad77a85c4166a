"""What a program must not be able to do.  Each attempt is made in earnest, and says how it went."""

import os
import pathlib
import socket
import subprocess


def attempt(what, action):
    try:
        print(f"{what}: got {action()!r}", flush=True)
    except BaseException as error:
        print(f"{what}: {type(error).__name__}", flush=True)


attempt("read the home folder", lambda: sorted(os.listdir(HOME))[:5])
attempt("read a private key", lambda: pathlib.Path(HOME, ".ssh/id_ed25519").read_text())
attempt("read the password file", lambda: open("/etc/passwd").readline())
attempt("climb out of the folder", lambda: open("../../../../etc/hostname").read())
attempt("plant a link out", lambda: os.symlink("/etc", "etc"))
attempt("read the environment", lambda: os.environ["SECRET"])
attempt("write outside", lambda: open("/etc/cron.d/job", "w"))
attempt("open a socket", lambda: socket.create_connection(("127.0.0.1", PORT), 2))
attempt("start a program", lambda: subprocess.run(["id"], capture_output=True))
print("and now I will not stop", flush=True)
while True:
    pass
