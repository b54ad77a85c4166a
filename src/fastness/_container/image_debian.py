"""
An image of Debian's Python: packages fetched and checked by apt, unpacked without running anything of theirs.

It holds no shell and no package manager, and is the same, byte for byte, as long as the packages are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable

from fastness._container import inside
from fastness._container.faults import EngineFault
from fastness._container.layer import EPOCH, Layer

_APT_S = 300.0
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*")
#: What Debian's packages need to be set up, and nothing that is unpacked needs to run.
_NOT_NEEDED = re.compile(
    r"(?:debconf.*|cdebconf|dpkg|perl.*|libperl.*|tar|install-info|ucf|sensible-utils|gcc-\d+-base|python3-minimal|"
    r"init-system-helpers|libdebconf.*|readline-common|python3-pkg-resources|python3-distutils|krb5-locales)"
)
_TRIMMED = (
    "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bug", "usr/share/menu",
    "usr/share/info", "usr/share/pixmaps", "usr/share/applications", "usr/share/base-files", "usr/share/python3",
    "usr/share/common-licenses", "usr/share/binfmts", "usr/share/zoneinfo/right", "usr/share/zoneinfo/posix",
    "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/x86_64-linux-gnu/perl-base", "etc/update-motd.d", "usr/share/gcc",
    "var", "etc/default", "etc/init.d", "etc/cron.daily",
)  # fmt: skip
_LIBRARY_TRIMMED = ("lib2to3", "idlelib", "turtledemo", "tkinter", "ensurepip", "test", "pydoc_data")


def build(packages: Iterable[str] = ()) -> Layer:
    """
    The layer; ``packages`` are names of Python packages that Debian has as ``python3-NAME``.

    Raises EngineFault, ``OSError``.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise EngineFault(
            "unsupported", "this machine has no apt-get", "run: fastness image build --from host, which needs none"
        )
    version = _python()
    wanted = [f"{version}-minimal", f"lib{version}-stdlib", "tzdata", "netbase", "media-types"]
    wanted += [f"python3-{name.lower().replace('_', '-')}" for name in packages]
    for name in wanted:
        if not _PACKAGE.fullmatch(name):
            raise EngineFault("unsupported", f"{name!r} is no name of a package", "give names such as numpy,pandas")
    with tempfile.TemporaryDirectory(prefix="fastness-image-") as folder:
        root = os.path.join(folder, "root")
        os.mkdir(root)
        _unpack(_closure(wanted), os.path.join(folder, "packages"), root)
        _trim(root, version)
        _compile(root, version)
        _compile_ours(root, version)
        layer = _Held(folder)
        layer.tree(root)
        layer.link("/usr/bin/python3", version)
        layer.link("/usr/bin/python", "python3")
        layer.keep()
    return layer


class _Held(Layer):
    """A layer of a folder that is about to go: its tar is written at once."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        descriptor, self._tar = tempfile.mkstemp(prefix="fastness-image-", suffix=".tar", dir=os.path.dirname(folder))
        os.close(descriptor)
        self._digest = ""

    def keep(self) -> None:
        """Write it down."""
        try:
            self._digest = super().write(self._tar)
        except BaseException:
            os.unlink(self._tar)
            raise

    def write(self, into: str) -> str:
        """Hand over what was written."""
        shutil.move(self._tar, into)
        return self._digest


def _run(*command: str, cwd: str | None = None) -> str:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        if name in os.environ:
            environment[name] = os.environ[name]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_APT_S, cwd=cwd, env=environment, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise EngineFault("unsupported", f"{command[0]} took more than {_APT_S:g} s", "try again") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1][:300]
        raise EngineFault("unsupported", f"{' '.join(command[:3])} failed: {last}", "as root, run: apt-get update")
    return done.stdout


def _python() -> str:
    """The name of the release's own Python, such as ``python3.11``."""
    found = re.search(r"Depends: (python3\.\d+)\b", _run("apt-cache", "depends", "python3"))
    if found is None:
        raise EngineFault("unsupported", "apt knows no package python3", "as root, run: apt-get update")
    return found[1]


def _closure(wanted: list[str]) -> list[str]:
    """The packages with all that they need to run."""
    text = _run(
        "apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks",
        "--no-replaces", "--no-enhances", "--no-pre-depends", *wanted,
    )  # fmt: skip
    names = {line for line in text.splitlines() if line and not line.startswith((" ", "<", "|"))}
    names = {name.partition(":")[0] for name in names if _PACKAGE.fullmatch(name.partition(":")[0])}
    return sorted(name for name in names if not _NOT_NEEDED.fullmatch(name))


def _unpack(names: list[str], store: str, root: str) -> None:
    os.mkdir(store)
    # Fetched and checked against signed lists; the user that apt changes to as root could not write here.
    _run("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *names, cwd=store)
    for name in sorted(os.listdir(store)):
        _run("dpkg-deb", "-x", os.path.join(store, name), root)


def _trim(root: str, version: str) -> None:
    library = (f"usr/lib/{version}/{name}" for name in _LIBRARY_TRIMMED)
    for name in (*_TRIMMED, *library):
        shutil.rmtree(os.path.join(root, name), ignore_errors=True)
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            # A compiled module remembers when its source was written.
            os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)


def _compile_ours(root: str, version: str) -> None:
    """The code of ours that runs inside, as modules without sources."""
    into = root + inside.folder()
    os.makedirs(into)
    for name, text in inside.texts().items():
        with open(os.path.join(into, f"{name}.py"), "w", encoding="utf-8") as file:
            file.write(text)
    _python_of(root, version, inside.COMPILE, into, *inside.texts())
    for name in inside.texts():
        os.unlink(os.path.join(into, f"{name}.py"))


def _compile(root: str, version: str) -> None:
    """
    Compile all modules with the image's own interpreter, started from where it lies: nobody may write beside them
    later, and each start would compile them again.
    """
    program = (
        "import sys, compileall; root = sys.argv[1]; sys.exit(not compileall.compile_dir(root + sys.argv[2], quiet=2, "
        "stripdir=root, force=True, invalidation_mode=__import__('py_compile').PycInvalidationMode.UNCHECKED_HASH))"
    )
    for folder in (f"/usr/lib/{version}", "/usr/lib/python3/dist-packages"):
        if os.path.isdir(root + folder):
            _python_of(root, version, program, root, folder)


def _python_of(root: str, version: str, program: str, *arguments: str) -> None:
    """Run a program of ours with the interpreter of an image that lies below ``root``."""
    loaders = (f"{root}/{folder}/ld-linux-x86-64.so.2" for folder in ("lib64", "usr/lib64", "lib/x86_64-linux-gnu"))
    loader = next((path for path in loaders if os.path.exists(path)), None)
    if loader is None:
        raise EngineFault("unsupported", "the packages hold no loader for x86-64", "use an x86-64 machine")
    libraries = ":".join(f"{root}/{folder}/x86_64-linux-gnu" for folder in ("lib", "usr/lib"))
    command = [loader, "--library-path", libraries, f"{root}/usr/bin/{version}", "-S", "-c", program, *arguments]
    environment = {"PYTHONHOME": f"{root}/usr", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_APT_S, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["?"])[-1][:300]
        raise EngineFault("unsupported", f"compiling the image's modules failed: {last}", "please report this")
