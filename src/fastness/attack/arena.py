"""
What an attack finds: secrets to steal, doors to knock on, and a way in, fresh for each attempt.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fastness.attack.doors import Door, Listener, LocalDoor
from fastness.attack.model import Effect, Skip
from fastness.attack.outside import Bare, Outside
from fastness.errors import TierUnavailable
from fastness.runs import RunResult

if TYPE_CHECKING:
    from fastness.sync import Sandbox, Session

#: The variable of this process that holds a secret while an attempt runs.
VARIABLE = "FASTNESS_ATTACK_SECRET"
#: Tiers whose guests see files of this machine by their modes.
NATIVE = ("confined", "isolated", "container")
#: Guests have a /tmp of their own, where a missing file is no refusal; this one they never have.
_PLACE = "/var/tmp"  # noqa: S108  # a folder of our own is made in it, by mkdtemp


class _Session:
    """A session of an attempt, which takes note of what comes of each execute."""

    def __init__(self, arena: Arena, inner: Session) -> None:
        self._arena = arena
        self._inner = inner

    def execute(self, code: str, **options: Any) -> RunResult:
        """Run code in the session's guest."""
        return self._arena.came(self._inner.execute(code, **options))


class Arena:
    """
    One attempt's surroundings.

    ``token`` is the secret.  It is in ``secret_file``, in ``home/.ssh/id_ed25519`` and in the environment of this
    process.  ``mark_file`` is a path of this machine that does not exist yet, and ``name`` one that no file anywhere
    has, for what is tried in folders that are not the arena's.  ``outside`` runs programs where nothing stops them.
    """

    def __init__(self, tier: str, box: Sandbox) -> None:
        self._tier = tier
        self._box = box
        #: Whether the attempt has asked which tier it is made in, or for that tier's sandbox.
        self.knows_tier = False
        #: What came of the programs that were run in the tier, by whatever way in.
        self.results: list[RunResult] = []
        self.token = "canary-" + secrets.token_hex(12)
        self.name = "fastness_attack_" + secrets.token_hex(8)
        self._above = Path(tempfile.mkdtemp(prefix=_prefix(os.getpid()), dir=_place()))
        # Folders of the arena are open to everybody where guests have a user of their own.  They are in one that nobody
        # else may list, under names that nobody can guess, so that no other user puts a link where this one writes.
        self.folder = self._above / secrets.token_hex(12)
        self.folder.mkdir(0o700)
        self.home = self.folder / "home"
        self.work = self.folder / "work"
        self.secret_file = self.folder / "secret.txt"
        self.mark_file = self.folder / "mark"
        #: Whether this process is not root's.
        self.ordinary = os.geteuid() != 0
        self._doors: list[Door] = []
        self._victims: list[subprocess.Popen[bytes]] = []
        (self.home / ".ssh").mkdir(parents=True)
        (self.home / ".ssh" / "id_ed25519").write_text(self.token)
        self.work.mkdir()
        self.secret_file.write_text(self.token)
        if tier in NATIVE:
            # Guests may have a user of their own: the modes of files must not be what stops them.
            for path in (self.secret_file, self.home / ".ssh" / "id_ed25519"):
                path.chmod(0o666)
            for path in (self.home / ".ssh", self.home, self.work, self.folder):
                path.chmod(0o777)
            self._above.chmod(0o711)
        os.environ[VARIABLE] = self.token
        self.outside = Outside(
            self.work, {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.home), VARIABLE: self.token}
        )

    @property
    def tier(self) -> str:
        """The tier under attack, by name."""
        self.knows_tier = True
        return self._tier

    @property
    def box(self) -> Sandbox:
        """A sandbox in that tier."""
        self.knows_tier = True
        return self._box

    # what programs are told

    def python(self, body: str, **more: Any) -> str:
        """A Python program that knows where the secrets are, by the names of this class's attributes in capitals."""
        lines = [f"{name} = {value!r}" for name, value in {**self._facts(), **more}.items()]
        return "\n".join((*lines, body.strip("\n"), ""))

    def javascript(self, body: str, **more: Any) -> str:
        """As :meth:`python`, in JavaScript."""
        lines = [f"const {name} = {json.dumps(value)};" for name, value in {**self._facts(), **more}.items()]
        return "\n".join((*lines, body.strip("\n"), ""))

    def _facts(self) -> dict[str, Any]:
        return {
            "SECRET_FILE": str(self.secret_file),
            "MARK_FILE": str(self.mark_file),
            "NAME": self.name,
            "HOME": str(self.home),
            "VARIABLE": VARIABLE,
        }

    # ways in

    def run(self, code: str, **options: Any) -> RunResult:
        """A program in the tier under attack."""
        return self.came(self.box.run(code, **{"timeout": 10, **options}))

    def module(self, wasm: bytes, **options: Any) -> RunResult:
        """A WASI command module in the tier under attack."""
        return self.came(self.box.run(module=wasm, **{"timeout": 10, **options}))

    def command(self, *arguments: str, **options: Any) -> RunResult:
        """A command in the tier under attack.  Raises ``Skip`` where none can be run on this machine."""
        try:
            return self.came(self.box.run(command=list(arguments), **{"timeout": 10, **options}))
        except TierUnavailable as unavailable:
            raise Skip(f"no commands: {unavailable}") from None

    @contextlib.contextmanager
    def session(self, **options: Any) -> Iterator[_Session]:
        """A session in the tier under attack."""
        with self.box.session(**{"timeout": 10, **options}) as session:
            yield _Session(self, session)

    def came(self, result: RunResult) -> RunResult:
        """Take note of what came of a program that was run in another way; the result, as it was given."""
        self.results.append(result)
        return result

    def program(self, code: str, **options: Any) -> RunResult:
        """A Python program as a command, in an interpreter that it starts itself."""
        return self.command("python3", "-c", code, **options)

    def has_programs(self) -> bool:
        """Whether the tier under attack runs commands on this machine, and Python as one: images have little else."""
        try:
            return self.box.run(command=["python3", "-I", "-S", "-c", ""], timeout=10).ok
        except TierUnavailable:
            return False

    def listen(self) -> Listener:
        """A TCP and a UDP socket of this machine that note who comes."""
        listener = Listener()
        self._doors.append(listener)
        return listener

    def listen_locally(self, kind: str) -> LocalDoor:
        """A Unix socket of this machine that notes who comes; ``kind`` is ``path`` or ``name``."""
        door = LocalDoor(str(self.folder / "door"), kind)
        self._doors.append(door)
        return door

    def keep(self, door: Door) -> None:
        """Close this one too when the attempt is over."""
        self._doors.append(door)

    def victim(self) -> subprocess.Popen[bytes]:
        """A process of this user that does nothing, to be ended by somebody who may not."""
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"], start_new_session=True)
        self._victims.append(process)
        return process

    def witness(self) -> subprocess.Popen[bytes]:
        """A process in this process's own group that makes the mark when it is signalled, and is ready to be."""
        from fastness.attack import native

        process = subprocess.Popen([sys.executable, "-c", native.witness_code(self)], stdout=subprocess.PIPE)
        self._victims.append(process)
        assert process.stdout is not None
        with process.stdout as lines:
            lines.readline()
        return process

    def shared_folder(self, mode: int = 0o777) -> Path:
        """A new folder that everybody may use, as far as ``mode`` says, and that guests can be given to import from."""
        folder = self._above / secrets.token_hex(12)
        folder.mkdir(0o700)
        folder.chmod(mode)
        self._above.chmod(0o711)
        return folder

    # what came of it

    def leaked(self, ran: RunResult | Bare) -> Effect:
        """Whether the secret is in anything that the program could send out."""
        result = ran if isinstance(ran, RunResult) else None
        for name, data in _channels(ran):
            if self.token.encode() in data:
                return Effect(True, f"the secret came out by {name}", result)
        return Effect(False, f"no channel carried the secret{_ending(ran)}", result)

    def marked(self, ran: RunResult | Bare) -> Effect:
        """Whether the program made the file at ``mark_file``."""
        result = ran if isinstance(ran, RunResult) else None
        if os.path.lexists(self.mark_file):
            return Effect(True, "a file appeared outside", result)
        return Effect(False, f"no file appeared outside{_ending(ran)}", result)

    def said(self, ran: RunResult | Bare, word: str, what: str) -> Effect:
        """Whether the program printed ``word``, which it prints only once it has done ``what``."""
        result = ran if isinstance(ran, RunResult) else None
        if word.encode() in ran.stdout_bytes:
            return Effect(True, f"it {what}", result)
        return Effect(False, f"it never {what}{_ending(ran)}", result)

    def __enter__(self) -> Arena:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.environ.pop(VARIABLE, None)
        for door in self._doors:
            door.close()
        for process in self._victims:
            process.kill()
            process.wait()
        _remove(self._above)


def _prefix(pid: int) -> str:
    return f"fastness-attack-{pid}-"


def _place() -> str:
    return _PLACE if os.access(_PLACE, os.W_OK) else tempfile.gettempdir()


def remove_left(pid: int) -> None:
    """Remove what a process of this user had made for its attempts, and has not removed as it was ended."""
    for path in Path(_place()).glob(_prefix(pid) + "*"):
        # Anybody may make a folder of such a name there, but none that is this user's.
        if path.lstat().st_uid == os.geteuid():
            _remove(path)


def sweep() -> int:
    """Remove what processes of this user left there that have ended; how many folders that were."""
    count = 0
    for path in Path(_place()).glob("fastness-attack-*-*"):
        number = path.name.split("-")[2]
        if number.isdecimal() and not os.path.exists(f"/proc/{number}") and path.lstat().st_uid == os.geteuid():
            _remove(path)
            count += 1
    return count


def _remove(folder: Path) -> None:
    """Remove a folder, with whatever programs have left in it: also folders that nobody may enter."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            inner = os.path.join(path, name)
            if not os.path.islink(inner):
                with contextlib.suppress(OSError):  # a control's program may have made it another user's
                    os.chmod(inner, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _channels(ran: RunResult | Bare) -> Iterable[tuple[str, bytes]]:
    yield "stdout", ran.stdout_bytes
    yield "stderr", ran.stderr_bytes
    if isinstance(ran, Bare):
        for path in ran.folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                yield "a file", path.read_bytes()
        return
    yield "value", repr(ran.value).encode("utf-8", "backslashreplace")
    yield "value_repr", (ran.value_repr or "").encode("utf-8", "backslashreplace")
    yield "outcome", ran.outcome.detail.encode("utf-8", "backslashreplace")
    for name, file in ran.files.items():
        yield "a file's name", name.encode("utf-8", "backslashreplace")
        yield "a file", file.read()


def _ending(ran: RunResult | Bare) -> str:
    """How the program ended, for the reader of ``-v``."""
    if isinstance(ran, RunResult):
        detail = f": {ran.outcome.detail[:160]}" if ran.outcome.detail else ""
        return f" ({ran.outcome.kind.value}{detail})"
    last = ran.stderr_bytes.decode("utf-8", "replace").strip().splitlines()[-1:]
    return f" (status {ran.status}{': ' + last[0][:160] if last else ''})"
