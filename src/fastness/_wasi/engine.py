"""
The engine process: holds one guest's compiled code, confines itself, and runs guests for one tenant, one at a time.

It is started as ``python -I -S`` with an empty environment, a conversation socket as descriptor 0, a control socket
(cancel; its end of file means that the parent is gone) and read-only descriptors of what it needs.  While a guest is
alive the only input and output of this process are frames to and from its parent.

The order of start-up matters.  Everything that needs the kernel happens first; then the process confines itself,
still with one thread; then the runner thread starts and proves to be running; then the second filter takes away what
only thread starting needed; then ``ready`` is sent.  No guest code runs before.
"""

from __future__ import annotations

import _socket
import _thread
import gc
import os
import sys
import time

from fastness._linux import confine, memory, pagemap
from fastness._wasi import binding, memfs_tree, preview1, serving, tiny_json
from fastness._wasi import image as images
from fastness._wasi.engine_talk import Conversation, fill_rows
from fastness._wasi.output import Output
from fastness._wasi.preview1_denials import DenialLog
from fastness._wasi.watch import Watch
from fastness.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The guest's stack is 8 MiB of this; the rest is for the host calls below it.
_RUNNER_STACK = 64 << 20
_PIECE = 1 << 20


def _guest_driver(runtime: str, options: dict[str, Any]) -> Any:
    if runtime == "python":
        from fastness._wasi.guest_python import PythonGuest

        return PythonGuest(options)
    if runtime == "javascript":
        from fastness._wasi.guest_javascript import JavaScriptGuest

        return JavaScriptGuest(options)
    from fastness._wasi.guest_command import CommandGuest

    return CommandGuest(options)


def _load_image(options: dict[str, Any]) -> images.Image | None:
    """The image that the parent handed over.  Its numbers are checked: they become addresses."""
    if not options.get("image"):
        return None
    meta = tiny_json.loads(options["image"])
    size = int(meta["size"])
    fd = options["image_fd"]
    if not 0 < size <= os.fstat(fd).st_size or size % images.PAGE:
        raise ValueError("the image's size does not fit its file")
    generators = []
    for words, index in meta["generators"]:
        if not (0 < words <= size - 4 * 624 and 0 < index <= size - 4):
            raise ValueError("a generator lies outside the image")
        generators.append((int(words), int(index)))
    saved = [
        (int(number), str(label), str(path), int(offset), int(flags))
        for number, label, path, offset, flags in meta["saved"]
    ]
    return images.Image(fd, size, saved, generators, {str(k): int(v) for k, v in meta["state"].items()})


class EngineProcess:
    """Everything between ``start`` and the end of the process."""

    def __init__(self, conversation: Conversation, control: Any) -> None:
        self.talk = conversation
        self.control = control
        #: The process to die with; taken at the very start, so that a parent that died since is noticed.
        self.parent = os.getppid()
        self.marks: dict[str, float] = {}
        self._last = time.perf_counter()
        self.sessions: dict[int, serving.Run] = {}
        self.staged: dict[str, bytes] = {}
        self._open_file: tuple[str, list[bytes]] | None = None

    def mark(self, name: str) -> None:
        """Remember how long a step of the start took, in milliseconds."""
        now = time.perf_counter()
        self.marks[name] = round((now - self._last) * 1e3, 2)
        self._last = now

    def start(self, runtime: str, options: dict[str, Any]) -> None:
        """Load, link and confine."""
        memory.give_back()
        lib = binding.load(options["library"])
        self.mark("library")
        engine = binding.Engine(
            lib,
            binding.EngineConfig(
                stack=options["stack"],
                opt_level=options["opt_level"],
                regalloc=options["regalloc"],
                user_module=options["user_module"],
            ),
        )
        module = binding.Module.deserialize_file(engine, f"/proc/self/fd/{options['module_fd']}")
        self.mark("module")
        self.guest = _guest_driver(runtime, options)
        self.mark("guest")
        linker = binding.Linker(engine)
        current: list[Any] = [None]
        preview1.register(linker, current)
        self.guest.imports(linker)
        pre = linker.instantiate_pre(module)
        self.mark("linker")
        self.image_mode = options["mode"] == "image"
        output = Output(self.talk.send, self._flush_soon)
        self.watch = Watch(engine, self.control, self._flush, options.get("idle_s", 0.0), self._idle, self.talk.fileno)
        scanner = pagemap.Scanner(pagemap.open_pagemap())
        self.server = serving.Server(
            engine, pre, self.guest, current, output, self.watch, scanner, options["variant"] == "quick", self.talk
        )
        self.output = output
        self.image_fd = options.get("image_fd", -1)
        if self.image_mode:
            # Imported while files can still be opened, and only where it is needed.
            from fastness._wasi import image_maker

            self.image_maker = image_maker
        if not self.image_mode:
            self.server.image = _load_image(options)
        self.mark("image")
        os.close(options["module_fd"])
        # libffi's closure page is about to lose its write permission.  Closures that are garbage by now (importing
        # ctypes leaves one) would be written to when they are freed, so they are freed first.
        gc.collect()
        self.confinement = confine.confine_engine(image_mode=self.image_mode, parent=self.parent)
        self.mark("confinement")

    def _idle(self) -> bool:
        return not self.sessions

    def _flush_soon(self) -> None:
        self.watch.flush_soon()

    def _flush(self) -> None:
        self.output.flush()

    # the runner thread

    def serve(self) -> None:
        """Answer the parent for ever, on the runner thread."""
        try:
            self.watch.bind_runner()
            if self.server.image is not None:
                self._rehearse()
            self.mark("rehearsal")
            gc.freeze()
            self.talk.send_json(
                frames.READY,
                {
                    "layers": self.confinement.layers,
                    "gaps": [[name, why[:256]] for name, why in self.confinement.gaps],
                    "timings": self.marks,
                },
            )
            while True:
                kind, head, blob = self.talk.receive()
                if kind == frames.STAGE:
                    self._stage(head, blob)
                elif kind == frames.INVOKE:
                    self._invoke(head, blob)
                else:
                    raise ValueError(f"a frame of type {kind} is not expected here")
        except BaseException as error:  # noqa: BLE001  # the last words of a process that is about to end
            try:
                text = f"{type(error).__name__}: {error}"[:500]
                self.talk.send_json(frames.ERROR, {"id": 0, "where": "engine", "message": text})
            finally:
                os._exit(70)

    def _rehearse(self) -> None:
        """One smallest run: hides the first run's cost and tells which pages every run writes."""
        limits = {
            "wall_s": 5.0,
            "cpu_s": 5.0,
            "memory": 64 << 20,
            "fds": 64,
            "files": 100,
            "file_bytes": 1 << 20,
            "output_total_bytes": 1 << 20,
            "frame_bytes": 1 << 20,
        }
        invoke = {"id": 0, "limits": limits, "args": [], "env": [], "fresh": True, "session": 0}
        run = self.server.open(invoke, {}, b"")
        self.server.execute(run, invoke, self.guest.rehearsal)
        self.output.discard()
        assert run.instance is not None and self.server.image is not None
        if run.ending == "returned":
            images.learn_hot(run.instance, self.server.image, self.server.scanner)
        self.server.recycle(run, fresh=False)

    def _stage(self, head: dict[str, Any], blob: bytes) -> None:
        path = head["path"]
        if self._open_file is None or self._open_file[0] != path:
            self._open_file = (path, [])
        self._open_file[1].append(blob)
        if head["last"]:
            self.staged[path] = b"".join(self._open_file[1])
            self._open_file = None

    def _invoke(self, head: dict[str, Any], blob: bytes) -> None:
        code_length = head["code_len"]
        context_at = code_length + head["stdin_len"]
        code, stdin, context = blob[:code_length], blob[code_length:context_at], blob[context_at:]
        operation = head["op"]
        if operation == "image":
            image_maker = self.image_maker
            sources = {"encode": code.decode(), "boot": stdin.decode()}
            made = image_maker.make(self.server, self.watch, self.talk, self.image_fd, head, sources)
            if made is not None:
                self._answer(head, made, "none")
            return
        if operation == "close":
            run = self.sessions.pop(head["session"], None)
            if run is not None:
                self.server.close(run)
                self.server.recycle(run, fresh=True)
            self._answer(head, serving.Run(), "none")
            return
        if operation == "compare":
            clean = serving.Run()
            clean.ending = "returned" if self.server.compare() else "refused"
            self._answer(head, clean, "none")
            return
        session = head["session"]
        staged, self.staged = self.staged, {}
        run = self.sessions.get(session) if session else None
        if run is None:
            if operation == "execute":
                self._refuse(head, "the session is gone", "lost")
                return
            try:
                run = self.server.open(head, staged, stdin, context)
            except preview1.Errno as error:
                self._refuse(head, f"the files do not fit the limits (errno {error.code})", "none")
                return
            except ValueError as error:
                self._refuse(head, f"the files do not fit the tree: {error}", "none")
                return
            except binding.WasmtimeError as error:
                # Either the memory that it asks for at once is too much, or its start function ended in a host call.
                if "wasm backtrace" in str(error):
                    self._refuse(head, "its start function ended", "none", "trap")
                else:
                    self._refuse(head, str(error), "none", "memory")
                return
            except binding.Trap as trap:
                self._refuse(head, trap.code, "none", "trap")
                return
        else:
            try:
                for path, data in staged.items():
                    memfs_tree.add(run.work, path, data, run.host.clock.realtime(), replace=True)
            except (preview1.Errno, ValueError) as error:
                self._refuse(head, f"the files do not fit the session: {error}", "kept")
                return
            run.baseline = memfs_tree.snapshot_state(run.work)
            run.host.set_stdin(stdin)
            run.denials = run.host.denials = DenialLog()
        # A session's ctx is what it was opened with.
        run.context = context if run.calls is not None else b""
        self.server.execute(run, head, code)
        if run.ending == "stub" and not self.output.sent:
            self.output.discard()
        state = "none"
        if session:
            state = "kept" if run.ending == "returned" else "lost"
            if state == "kept":
                self.sessions[session] = run
            else:
                self.sessions.pop(session, None)
        self._answer(head, run, state)
        if not session:
            self.server.recycle(run, fresh=head["fresh"])
        elif state == "lost":
            self.server.close(run)

    def _refuse(self, head: dict[str, Any], why: str, state: str, ending: str = "refused") -> None:
        """Answer an invoke whose guest never ran."""
        run = serving.Run()
        run.ending, run.trap = ending, why[:200]
        self._answer(head, run, state)

    def _answer(self, head: dict[str, Any], run: serving.Run, state: str) -> None:
        """Send the files that changed, then the result."""
        deleted: list[str] = []
        if run.work is not None and run.ending != "stub":
            delta = memfs_tree.changes(run.work, run.baseline)
            if delta:
                deleted = delta.deleted
                change = dict.fromkeys(delta.changed, "changed") | dict.fromkeys(delta.added, "added")
                for path, node in memfs_tree.walk(run.work):
                    if path in change:
                        self._send_file(head["id"], path, change[path], node.data)
        out, err = self.output.take()
        payload = b"".join(run.payload)
        result = {
            "id": head["id"],
            "ending": run.ending or "returned",
            "exit_code": run.exit_code,
            "trap": run.trap,
            "usage": {
                "wall_us": run.wall_ns // 1000,
                "cpu_us": run.cpu_ns // 1000,
                "memory_bytes": run.instance.size() if run.instance is not None else 0,
                "file_bytes": run.quota.bytes if run.quota is not None else 0,
                "files": run.quota.files if run.quota is not None else 0,
                "stdout_bytes": self.output.written[1],
                "stderr_bytes": self.output.written[2],
                "reset": self.server.was_reset,
            },
            "denials": [],
            "denials_dropped": run.denials.dropped,
            "deleted": [],
            "changes_dropped": 0,
            "stdout_len": len(out),
            "stderr_len": len(err),
            "payload_len": len(payload),
            "claims_len": len(run.claims),
            "session_state": state,
        }
        self.talk.send_json(frames.RESULT, fill_rows(result, run, deleted), out + err + payload + bytes(run.claims))

    def _send_file(self, run: int, path: str, change: str, data: Any) -> None:
        size = len(data)
        at = 0
        while True:
            piece = bytes(data[at : at + _PIECE])
            at += len(piece)
            more = at < size
            head = {"id": run, "path": path, "size": size, "more": more, "change": change}
            self.talk.send_json(frames.ARTEFACT, head, piece)
            if not more:
                return


def main() -> None:
    """Entry point: ``engine.py CONTROL_FD``; the conversation is descriptor 0."""
    control = _socket.socket(fileno=int(sys.argv[1]))
    talk = Conversation(0)
    talk.send_json(frames.HELLO, {"protocol": frames.VERSION, "guest": "engine", "pid": os.getpid()})
    kind, head, _ = talk.receive()
    if kind != frames.START:
        os._exit(70)
    process = EngineProcess(talk, control)
    try:
        process.start(head["runtime"], head["options"])
        _thread.stack_size(_RUNNER_STACK)
        up, go = _thread.allocate_lock(), _thread.allocate_lock()
        up.acquire()
        go.acquire()

        def runner() -> None:
            up.release()
            # The second filter is installed for all threads while this one is known to be past its own start-up
            # system calls, and before it does anything else.
            go.acquire()
            process.serve()

        _thread.start_new_thread(runner, ())
        up.acquire()
        confine.seal_engine(process.confinement)
        go.release()
        process.watch.loop()
    except BaseException as error:  # noqa: BLE001  # reported to the parent, then the process ends
        talk.send_json(frames.ERROR, {"id": 0, "where": "start", "message": f"{type(error).__name__}: {error}"[:2000]})
        os._exit(70)
