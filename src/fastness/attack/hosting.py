"""
Hosts of plugins that attacks are made on: the one that ships, in a home of the attempt's own, and a careless one.

The home is made for the attempt and nothing of the user's is in it; guests are those of the sandbox under attack.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fastness import config
from fastness._wasi import home
from fastness.attack import brokering
from fastness.attack.model import Skip
from fastness.errors import FastnessError
from fastness.plugins.host import AsyncPluginHost
from fastness.plugins.shown import Revocation, Shown
from fastness.runner import trail
from fastness.waiting import ThreadWaiting, drive

if TYPE_CHECKING:
    from fastness.attack.arena import Arena
    from fastness.attack.outside import Bare
    from fastness.capability import Adapter
    from fastness.plugins.isolated import IsolatedPlugin
    from fastness.runner.runner import Runner
    from fastness.runs import RunResult

#: Files of a plugin by path.
Files = Mapping[str, str | bytes]

STORAGE = '[[capabilities]]\nkind = "storage"\nquota = 1048576\nreason = "To keep things."\n'
_MANIFEST = """
id = "{id}"
version = "{version}"
api = 1
runtime = "python"
entry = "plugin.py"
methods = [{methods}]
{more}
"""
#: Who grants, unless an attack says otherwise.
OWNER = "mine"
#: Runs plugins in its own process, from where they lie, under the name that they give; grants are for names.
_CARELESS = r"""
import sys, threading, traceback

class Host:
    def __init__(self):
        self.folders, self.granted = {}, set()

    def install(self, id, folder):
        self.folders[id] = folder
        sys.path.insert(0, folder)

    def grant(self, id):
        self.granted.add(id)

    def invoke(self, id, method='work', **given):
        if id not in self.granted:
            raise PermissionError(id)
        path = os.path.join(self.folders[id], 'plugin.py')
        with open(path) as file:
            text = file.read()
        # Its module by its path, as an import would; but always as it is now.
        space = {'__name__': 'plugin', '__file__': path}
        exec(compile(text, path, 'exec'), space)
        value = space[method](ctx, **given)
        print(value, flush=True)
        return value

host = Host()
"""
_LATE_S = 8.0
_CALL_S = 6.0


def manifest(*methods: str, id: str = "attack.plugin", version: str = "1.0.0", more: str = STORAGE) -> str:
    """A ``plugin.toml``."""
    return _MANIFEST.format(id=id, version=version, methods=", ".join(f'"{one}"' for one in methods), more=more)


def put(folder: Path, files: Files) -> Path:
    """A folder with these files."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


class _Runner:
    """That of the sandbox under attack, which is there already; the attempt takes note of what comes of each run."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._inner = arena.box._sandbox()._runner

    async def run(self, *given: Any, **named: Any) -> RunResult:
        """As the sandbox's own."""
        return self._arena.came(await self._inner.run(*given, **named))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Home:
    """
    A host of plugins in a home of its own; ``data`` is that home's folder, and ``settings`` what its operator says.
    """

    def __init__(
        self,
        arena: Arena,
        *,
        adapters: Mapping[str, Adapter] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        settings: str = "",
    ) -> None:
        self._arena = arena
        # Not in the folder that guests of another user may write to: such a home is refused, and rightly.
        self.top = arena.shared_folder(0o700)
        self.data = self.top / "data"
        if settings:
            (self.top / "config").mkdir(0o700)
            (self.top / "config" / config.NAME).touch(0o600)
            (self.top / "config" / config.NAME).write_text(settings)
        self._before = home._base
        self._count = 0
        # Caches and running things stay the user's own; what is kept and decided is the attempt's.
        home._base = self._base
        config.forget()
        try:
            self.host = AsyncPluginHost(adapters=adapters, functions=functions, _waiting=ThreadWaiting())
        except BaseException:
            self._put_back()
            raise
        self._own = self.host._runner
        self.host._runner = cast("Runner", _Runner(arena))

    def _base(self, kind: str) -> str:
        return str(self.top / kind) if kind in ("data", "config") else self._before(kind)

    def _put_back(self) -> None:
        home._base = self._before
        config.forget()

    def install(self, files: Files, *, id: str = "attack.plugin", **how: Any) -> Shown:
        """Install a plugin of these files, to run in the tier under attack unless ``choose`` is False."""
        self._count += 1
        return self.install_from(put(self.top / "sources" / str(self._count), files), id=id, **how)

    def install_from(self, folder: Path, *, id: str = "attack.plugin", **how: Any) -> Shown:
        """Install what is there; see :meth:`install`."""
        choose = how.pop("choose", True)
        found: Shown = drive(self.host.install(folder, **how))
        if choose and found.manifest.runtime == "python":
            drive(self.host.set_tier(id, self._arena.tier, trust="reviewed"))
        return found

    def grant(self, id: str = "attack.plugin", *, owner: str = OWNER, **how: Any) -> None:
        """Let the owner allow all that it asks for."""
        drive(self.host.grant(id, owner=owner, **{"all": True, **how}))

    def invoke(self, id: str = "attack.plugin", method: str = "work", *, owner: str = OWNER, **given: Any) -> RunResult:
        """Call a method.  Raises what the host raises, where nothing ran."""
        return drive(self.host.invoke(id, method, given, owner=owner, timeout=_CALL_S))

    def tried(self, id: str = "attack.plugin", method: str = "work", **how: Any) -> RunResult | None:
        """Call a method; None where the host refused, and nothing ran."""
        try:
            return self.invoke(id, method, **how)
        except FastnessError:
            return None

    def revoke(self, id: str = "attack.plugin", *, owner: str | None = OWNER) -> Revocation:
        """End a grant, in this process."""
        return drive(self.host.revoke(id, owner=owner))

    def kept(self, id: str = "attack.plugin", *, owner: str = OWNER) -> int:
        """How many keys the plugin has in its storage."""
        import sqlite3

        path = self.data / "storage.db"
        if not path.exists():
            return 0
        with contextlib.closing(sqlite3.connect(path)) as connection:
            try:
                found = connection.execute("SELECT count(*) FROM items WHERE plugin=? AND owner=?", (id, owner))
                return int(found.fetchone()[0])
            except sqlite3.OperationalError:
                # It is being made.
                return 0

    def __enter__(self) -> Home:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            # What runs guests here is the sandbox's, and goes on.
            self.host._runner = self._own
            drive(self.host.aclose())
            place = (str(self.data / "audit.db"), str(self.top / "config" / "audit.key"))
            # The file goes with the home; a trail that is forgotten is opened by nobody again.
            log = trail._logs.pop(place, None)
            if log is not None:
                with contextlib.suppress(FastnessError):
                    log.close()
        finally:
            self._put_back()

    @contextlib.contextmanager
    def another(self, text: str) -> Iterator[subprocess.Popen[bytes]]:
        """Another process with this home, as any user's; it has read one line when this begins.  See ``SAYS``."""
        source = str(Path(__file__).resolve().parents[2])
        environment = {**os.environ, "FASTNESS_HOME": str(self.top), "PYTHONPATH": source}
        with subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        ) as process:
            timer = threading.Timer(_LATE_S, process.kill)
            timer.start()
            try:
                _heard(process, b"ready\n")
                yield process
            finally:
                timer.cancel()
                process.kill()


def tell(process: subprocess.Popen[bytes]) -> None:
    """Have it go on."""
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


def wait_for(process: subprocess.Popen[bytes], word: bytes) -> None:
    """Until it says this.  Raises RuntimeError where it says something else, or ends."""
    _heard(process, word + b"\n")


def _heard(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdout is not None
    said = process.stdout.readline()
    if said != line:
        raise RuntimeError(f"another process said {said!r}, not {line!r}")


class Meanwhile:
    """A call of a plugin that goes on in a thread; ``result`` is None until it is over, or where it never ran."""

    def __init__(self, work: Callable[[], RunResult | None]) -> None:
        self.result: RunResult | None = None
        self.error: Exception | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name="attack-call")
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._work()
        except Exception as error:  # noqa: BLE001  # given to whoever asks for the result
            self.error = error

    def over(self) -> RunResult | None:
        """The result, or None where the host refused.  Raises what the call raised."""
        self._thread.join()
        if self.error is not None:
            raise self.error
        return self.result


def until(true: Callable[[], bool], seconds: float = _LATE_S) -> None:
    """Wait for something.  Raises RuntimeError where it does not come true in time."""
    ends = time.monotonic() + seconds
    while not true():
        if time.monotonic() > ends:
            raise RuntimeError("what the attack waits for did not happen")
        time.sleep(0.005)


def careless(arena: Arena, steps: str, *, limit_s: float = 6.0, plugins: Mapping[str, Files], **facts: Any) -> Bare:
    """The control: these steps with the careless ``host``, which has ``FOLDERS`` of plugins by name."""
    folders = {name: str(put(arena.folder / "careless-plugins" / name, files)) for name, files in plugins.items()}
    base = str(arena.folder / "careless.db")
    return brokering.control(arena, _CARELESS + steps, limit_s=limit_s, FOLDERS=folders, DATABASE=base, **facts)


def command(home: Home, *arguments: str) -> str:
    """What the command line prints, with this home and without a terminal.  Raises Skip where it is not installed."""
    source = str(Path(__file__).resolve().parents[2])
    ran = subprocess.run(
        [sys.executable, "-c", "from fastness.cli.main import main; main()", *arguments],
        env={**os.environ, "FASTNESS_HOME": str(home.top), "PYTHONPATH": source, "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_LATE_S,
        check=False,
    )
    text = (ran.stdout + ran.stderr).decode("utf-8", "replace")
    if "fastness[cli]" in text:
        raise Skip("the command line is not installed")
    return text


class Nothing:
    """What a plugin in a guest is given that does nothing."""

    def lookup(self, name: str) -> object:
        """Nothing is provided."""
        return None

    def provide(self, name: str, value: object) -> None:
        """It is not kept."""

    def declare_capability(self, tag: str) -> None:
        """Nobody is told."""

    def log(self, level: str, text: str) -> None:
        """It is not kept."""


class Lookups(Nothing):
    """The same with a value under every name; ``asked`` are those that were given."""

    def __init__(self, value: str) -> None:
        self.asked: list[str] = []
        self._value = value

    def lookup(self, name: str) -> object:
        """The value."""
        self.asked.append(name)
        return self._value


@contextlib.contextmanager
def isolated(arena: Arena, path: Path, **how: Any) -> Iterator[IsolatedPlugin]:
    """A plugin of this file that is loaded in the tier under attack, and whose records are the attempt's own."""
    from fastness.audit.log import AuditLog
    from fastness.plugins.isolated import IsolatedPlugin

    folder = arena.shared_folder(0o700)
    log = AuditLog(str(folder / "audit.db"), str(folder / "audit.key"))
    plugin = IsolatedPlugin.load(path, **{"tier": arena.tier, "trail": log, **how})
    try:
        yield plugin
    finally:
        for result in plugin.results.values():
            arena.came(result)
        plugin.close()
        log.close()
