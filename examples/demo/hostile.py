# What nobody asked for: looks for secrets, phones home, starts a program, and then never ends.
import os
import socket
import subprocess

found = []


def attempt(name, action):
    try:
        found.append((name, repr(action())[:60]))
        print(f"{name}: got through")
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}")


attempt("read a private key", lambda: open(os.path.expanduser("~/.ssh/id_rsa")).read())
attempt("read the password file", lambda: open("/etc/passwd").read())
attempt("list the home folder", lambda: os.listdir(os.path.expanduser("~")))
attempt("read the host's variables", lambda: open("/proc/self/environ").read())
attempt("climb out of the folder", lambda: open("../../../../etc/hostname").read())
attempt("link to the outside", lambda: os.symlink("/etc/passwd", "passwd"))
attempt("open a socket", lambda: socket.create_connection(("127.0.0.1", 9), timeout=1))
attempt("start a program", lambda: subprocess.run(["id"], capture_output=True, check=True))
print(f"{len(found)} attempts got through; now for the processor", flush=True)
while True:
    pass
