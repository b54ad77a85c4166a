"""
What happens where an engine, a caller or a guest fails in the middle: nothing hangs, nothing is hidden, nothing stays.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import house
from engines import PrivateEngine
from fastness._container import containers, image, inside, spec
from fastness._container.deadline import Deadline
from fastness._container.faults import EngineFault
from fastness._container.probe import Engine
from fastness.backends import container_box
from fastness.backends.container import ContainerBackend
from fastness.errors import BackendError, TierUnavailable
from fastness.limits import Limits
from fastness.runs import OutcomeKind, RunRequest
from fastness.sync import Sandbox
from fastness.waiting import ThreadWaiting


def processes_with(mark: str) -> list[int]:
    """Processes of this machine whose command line has this text, in whatever namespace."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def gone(mark: str, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not processes_with(mark):
            return True
        time.sleep(0.1)
    return False


class TestFrozen:
    def test_a_run_ends_inside_while_its_engine_is_frozen(self, private: PrivateEngine, named: str) -> None:
        """Two timeouts that know nothing of each other: the host's, and that of the container's first process."""
        mark = f"mark-{os.urandom(6).hex()}"
        with Sandbox(tier="container", pool=0) as box:
            box.run("1")
            frozen = threading.Event()

            def freeze() -> None:
                end = time.monotonic() + 20
                while not processes_with(mark) and time.monotonic() < end:
                    time.sleep(0.05)
                private.freeze()
                frozen.set()

            thread = threading.Thread(target=freeze)
            thread.start()
            try:
                code = f"import time; time.sleep(600) # {mark}"
                result = box.run(command=["python3", "-c", code], timeout=2.0, limits={"grace_s": 0.0})
                thread.join()
                assert frozen.is_set()
                assert result.outcome.kind is OutcomeKind.TIMEOUT
                assert gone(mark, 30.0), "the payload outlived its deadline"
            finally:
                thread.join()
                private.thaw()
            assert box.run("6 * 7").value == 42

    def test_a_frozen_engine_is_unavailable(self, private: PrivateEngine) -> None:
        private.freeze()
        try:
            backend = ContainerBackend(engine=private.host)
            began = time.monotonic()
            with pytest.raises(TierUnavailable) as caught:
                backend.engine()
            assert time.monotonic() - began < 12
        finally:
            private.thaw()
        assert "8 s" in str(caught.value)
        assert "restart" in str(caught.value)

    def test_a_removal_that_fails_is_told_and_made_up_for(
        self, private: PrivateEngine, engine: Engine, caplog: pytest.LogCaptureFixture
    ) -> None:
        backend = ContainerBackend(engine=private.host)
        kind = backend.kind(RunRequest(code="1", tier="container"))
        box = backend._stock.make(engine, backend.image(None), kind)
        with pytest.MonkeyPatch.context() as patch:

            def fail(*_: object, **__: object) -> None:
                raise EngineFault("silent", "it did not answer")

            patch.setattr(containers, "remove", fail)
            backend._stock._end(box, engine)
        assert backend._stock.left() == [box.container]
        assert "could not be removed" in caplog.text
        # The next burial takes it along.
        other = backend._stock.make(engine, backend.image(None), kind)
        backend._stock._end(other, engine)
        assert backend._stock.left() == []
        backend._stock.close()


class TestCallers:
    def _caller(self, code: str, host: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "FASTNESS_ENGINE": host, "PYTHONPATH": str(house.SOURCE)}
        return subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def test_a_caller_that_is_killed_leaves_nothing_running(self, private: PrivateEngine, engine: Engine) -> None:
        mark = f"mark-{os.urandom(6).hex()}"
        code = f"""
import fastness
with fastness.Sandbox(tier="container", pool=1) as box:
    print("ready", flush=True)
    box.run(command=["python3", "-c", "import time; time.sleep(600) # {mark}"], timeout=600)
"""
        caller = self._caller(code, private.host)
        assert caller.stdout is not None
        assert caller.stdout.readline() == "ready\n"
        end = time.monotonic() + 20
        while not processes_with(mark)[1:] and time.monotonic() < end:
            time.sleep(0.1)
        caller.kill()
        caller.wait()
        caller.stdout.close()
        # The end of the connection is the end of everything in the container.
        assert gone(mark, 15.0)
        left = [name for name, who in containers.ours(engine).items() if containers.is_dead(who)]
        assert left
        assert set(containers.sweep(engine)) >= set(left)
        assert not [name for name, who in containers.ours(engine).items() if containers.is_dead(who)]

    def test_two_that_sweep_at_once(self, private: PrivateEngine, engine: Engine) -> None:
        client = engine.client()
        found = image.find(client, image.DEFAULT, Deadline(10))
        ask = spec.Ask(memory=128 << 20, work=1 << 20, files=10, pids=8, fds=64)
        dead = ".".join([containers.owner().rsplit(".", 2)[0], "4194000", "1"])
        made = set()
        for _ in range(4):
            body = spec.body(engine, found, ask, {spec.OWNER_LABEL: dead})
            made.add(client.call("POST", "/containers/create", Deadline(30), body=body).json()["Id"])
        errors: list[BaseException] = []

        def sweep() -> None:
            try:
                containers.sweep(engine)
            except BaseException as error:  # noqa: BLE001  # what it is, is what the test looks at
                errors.append(error)

        threads = [threading.Thread(target=sweep) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert errors == []
        assert not made & set(containers.ours(engine))

    def test_a_label_alone_has_nothing_removed(self, engine: Engine) -> None:
        """Containers have the labels of their image: somebody else's may have ours."""
        client = engine.client()
        found = image.find(client, image.DEFAULT, Deadline(10))
        ask = spec.Ask(memory=128 << 20, work=1 << 20, files=10, pids=8, fds=64)
        dead = ".".join([containers.owner().rsplit(".", 2)[0], "4194000", "1"])
        body = spec.body(engine, found, ask, {spec.OWNER_LABEL: dead})
        theirs = {**body, "Cmd": ["python3", "-c", "1"], "Entrypoint": []}
        names = [
            client.call("POST", "/containers/create", Deadline(30), body=one).json()["Id"] for one in (theirs, body)
        ]
        try:
            gone = containers.sweep(engine)
            assert (names[0] in gone, names[1] in gone) == (False, True)
            assert names[0] in containers.ours(engine)
        finally:
            containers.remove(engine, names[0])

    def test_another_machines_containers_run_on(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        """A forwarded socket is one of this machine's, and the engine behind it is not."""
        with monkeypatch.context() as patch:
            patch.setattr(containers, "_here", lambda: "00000000-0000-0000-0000-000000000000.1")
            name, sock, _ = containers.make(engine, *self._small(engine))
        try:
            assert containers.is_dead(containers.ours(engine)[name])
            assert name not in containers.sweep(engine)
            # Also one that has just ended, of which somebody may still ask how.
            client = engine.client()
            client.call("POST", f"/containers/{name}/kill", Deadline(10))
            client.call("POST", f"/containers/{name}/wait", Deadline(10))
            assert name not in containers.sweep(engine)
            monkeypatch.setattr(containers, "_REST_S", -10.0)
            assert name in containers.sweep(engine)
        finally:
            sock.close()
            containers.remove(engine, name)

    @staticmethod
    def _small(engine: Engine) -> tuple[image.Image, spec.Ask]:
        found = image.find(engine.client(), image.DEFAULT, Deadline(10))
        return found, spec.Ask(memory=128 << 20, work=1 << 20, files=10, pids=8, fds=64)

    def test_a_living_callers_containers_are_left_alone(self, named: str, engine: Engine) -> None:
        with Sandbox(tier="container", pool=1) as box:
            box.run("1")
            mine = {name for name, who in containers.ours(engine).items() if who == containers.owner()}
            assert mine
            assert not mine & set(containers.sweep(engine))


_HOSTILE = """
import json, os, sys
def send(channel, data):
    data = bytes((channel,)) + len(data).to_bytes(4, "big") + data
    while data:
        data = data[os.write(1, data):]
def frame(kind, head):
    text = json.dumps(head).encode()
    return bytes((1, kind, 0, 0)) + len(text).to_bytes(4, "big") + bytes(4) + text
def main(config):
    send(0, b'{"ready": true}')
    send(1, frame(0x41, {"protocol": 1, "guest": "command"}) + frame(0x42, {"layers": {}, "gaps": []}))
    heard = b""
    while b"SAY" not in heard or b"YAS" not in heard:
        heard += os.read(0, 65536)
    said = heard[heard.index(b"SAY") + 3 : heard.index(b"YAS")].decode()
    if said != "nothing":
        send(0, json.dumps({"over": True, "status": 0, "why": eval(said), "cpu": 9e8, "peak": 1 << 59}).encode())
        os._exit(0)
    while True:
        os.read(0, 65536) or os._exit(0)
"""


class TestHostileFirstProcess:
    """A first process of somebody else's tells what it likes: it is data, and within what can be."""

    @pytest.fixture
    def lied_to(self, monkeypatch: pytest.MonkeyPatch, named: str) -> Iterator[Sandbox]:
        texts = {**inside.texts(), "_fastness_supervisor": _HOSTILE}
        with Sandbox(tier="container", pool=0) as box:
            box.run("1")
            monkeypatch.setattr(inside, "digest", lambda: "f" * 32)
            monkeypatch.setattr(inside, "texts", lambda: texts)
            yield box

    @pytest.mark.parametrize("why", ["[1]", "{}", "None", "'deadline'", "7"])
    def test_what_it_tells_never_raises(self, why: str, lied_to: Sandbox) -> None:
        result = lied_to.run(command=[f"SAY{why}YAS"], timeout=5.0)
        assert not result.ok
        assert result.usage.cpu_s < 120
        assert result.usage.memory < 1 << 40

    def test_one_that_says_nothing_is_not_waited_for(self, lied_to: Sandbox) -> None:
        """Nothing comes any more once it was hung up on; to wait for files then would be to wait for nothing."""
        result = lied_to.run(command=["SAYnothingYAS"], timeout=1.0, limits={"grace_s": 0.0})
        assert result.outcome.kind is OutcomeKind.TIMEOUT
        assert "was not waited for" in result.outcome.detail
        assert result.usage.wall_s < 10


class TestNotAsAsked:
    """An engine that does something else than it was asked for is found out, twice."""

    ASK = spec.Ask(memory=256 << 20, work=1 << 20, files=100, pids=16, fds=128)

    def _kind(self, engine: Engine) -> tuple[image.Image, container_box.Kind]:
        found = image.find(engine.client(), image.DEFAULT, Deadline(10))
        return found, container_box.Kind(image=found.id, python=False, ask=self.ASK)

    @pytest.mark.parametrize(
        ("key", "value", "words"),
        [
            ("Memory", 128 << 20, "Memory"),
            ("PidsLimit", 99, "PidsLimit"),
            ("NanoCpus", 500_000_000, "NanoCpus"),
            ("CapDrop", [], "CapDrop"),
            ("ReadonlyRootfs", False, "ReadonlyRootfs"),
            ("Binds", ["/etc:/host:ro"], "Binds"),
            ("SecurityOpt", ["no-new-privileges"], "seccomp"),
            ("LogConfig", {"Type": "json-file"}, "LogConfig"),
        ],
    )
    def test_by_what_the_engine_says_of_it(
        self, key: str, value: object, words: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        body = spec.body

        def other(*arguments: object) -> dict[str, object]:
            made = body(*arguments)  # type: ignore[arg-type]  # passed on as they came
            made["HostConfig"][key] = value
            if key == "Memory":
                made["HostConfig"]["MemorySwap"] = value
            return made

        monkeypatch.setattr(spec, "body", other)
        found, kind = self._kind(engine)
        if key == "LogConfig" and engine.kind == "podman":
            value = {"Type": "k8s-file"}
        with pytest.raises(containers.NotAsAsked) as caught:
            container_box.birth(engine, found, kind, ThreadWaiting())
        assert words in str(caught.value)

    @pytest.mark.parametrize(
        ("key", "value", "words"),
        [
            ("Memory", 128 << 20, "memory is"),
            ("PidsLimit", 99, "pids is 99, not 16"),
            ("NanoCpus", 500_000_000, "processor time is 0.5"),
            ("ReadonlyRootfs", False, "the root is not read-only"),
            ("SecurityOpt", ["no-new-privileges"], "AF_NETLINK can be made"),
            ("Tmpfs", {"/work": "rw,mode=1777"}, "/work is larger"),
            ("NetworkMode", "host", "networks"),
            ("Mounts", "a list of hosts", "/etc/hosts has something of the machine's"),
        ],
    )
    def test_from_inside(
        self, key: str, value: object, words: str, engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        body = spec.body

        def other(*arguments: object) -> dict[str, object]:
            made = body(*arguments)  # type: ignore[arg-type]  # passed on as they came
            made["HostConfig"][key] = value
            if key == "Mounts":
                source = tmp_path / "hosts"
                source.write_text("127.0.0.1 localhost guest\n192.0.2.2 a-name-of-the-machine\n")
                options = {"Propagation": "rprivate"}
                mount = {"Type": "bind", "Source": str(source), "Target": "/etc/hosts", "BindOptions": options}
                made["HostConfig"][key] = [mount]
            if key == "Memory":
                made["HostConfig"]["MemorySwap"] = value
            if key == "NetworkMode":
                made["NetworkDisabled"] = False
                del made["Hostname"]
            return made

        monkeypatch.setattr(spec, "body", other)
        # As if the engine's own account were a lie.
        monkeypatch.setattr(spec, "differences", lambda *_: [])
        backend = ContainerBackend(engine=str(engine.endpoint))
        with pytest.raises(TierUnavailable) as caught:
            backend_run(backend)
        assert words in str(caught.value)
        assert "inside" in str(caught.value)


def backend_run(backend: ContainerBackend, **fields: str) -> object:
    from fastness.backends.base import Staged
    from fastness.waiting import drive

    limits = Limits(pids=15, memory=64 << 20, file_bytes=1 << 20)
    request = RunRequest(code="1", tier="container", limits=limits, **fields)
    try:
        return drive(backend.run(request, Staged(), None))
    finally:
        drive(backend.aclose())


def test_an_engine_that_is_killed_while_a_container_is_made(tmp_path: Path) -> None:
    """What was begun fails as the machinery's fault, with the fix, and nothing hangs."""
    from fastness.backends.base import Staged
    from fastness.waiting import drive

    backend = ContainerBackend(engine=f"unix://{tmp_path}/none")
    with pytest.raises((TierUnavailable, BackendError)) as caught:
        drive(backend.run(RunRequest(code="1", tier="container"), Staged(), None))
    assert "none" in str(caught.value)
    drive(backend.aclose())
