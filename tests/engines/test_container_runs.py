"""
The tier as its callers meet it, on both engines.
"""

from __future__ import annotations

import asyncio
import json
import resource
import shutil
import threading
from pathlib import Path

import pytest

import fastness
import house
from engines import PrivateEngine
from fastness._container import containers, image, image_debian, image_host, inside
from fastness._container.deadline import Deadline
from fastness._container.probe import Engine
from fastness.backends.container import ContainerBackend
from fastness.errors import ConfigurationError, StagingError, TierUnavailable
from fastness.runs import OutcomeKind
from fastness.sync import Sandbox
from fastness.testing import check_backend


class TestPython:
    def test_values_output_and_files(self, box: Sandbox) -> None:
        code = """
import sys
print(input(), sys.argv[1:], open("in/a.txt").read())
print("to stderr", file=sys.stderr)
open("out.txt", "w").write("left")
{"answer": 6 * 7}
"""
        result = box.run(code, stdin="typed\n", args=["x"], files={"in/a.txt": "given"})
        assert (result.outcome.kind, result.value) == (OutcomeKind.OK, {"answer": 42})
        assert result.stdout == "typed ['x'] given\n"
        assert result.stderr == "to stderr\n"
        assert result.files["out.txt"].read() == b"left"
        assert result.changes.added == ("out.txt",)
        assert (result.tier, result.backend, result.sandboxed) == ("container", "container", True)

    def test_the_result_tells_what_was_proven(self, box: Sandbox) -> None:
        result = box.run("1")
        promised = {guarantee.value for guarantee in fastness.Tier.CONTAINER.guarantees}
        assert promised <= set(result.guarantees)
        assert result.layers["TOTAL_MEM_CAP"].startswith("cgroup")
        assert result.layers["WALL_KILL"] == "host+first process"

    def test_the_environment(self, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FASTNESS_SECRET_OF_TEST", "x")
        result = box.run("import os; dict(os.environ)", env={"MINE": "y"})
        assert "FASTNESS_SECRET_OF_TEST" not in result.value
        assert result.value["MINE"] == "y"

    def test_large_files_both_ways(self, box: Sandbox) -> None:
        data = bytes(range(256)) * (4 << 12)
        result = box.run("open('b', 'wb').write(open('a', 'rb').read()[::-1])", files={"a": data})
        assert result.files["b"].read() == data[::-1]

    def test_large_output_is_whole(self, box: Sandbox) -> None:
        result = box.run("import sys\nfor i in range(200000): print(i)", limits={"output_bytes": 4 << 20})
        assert result.stdout == "".join(f"{i}\n" for i in range(200000))

    def test_events_come_as_they_happen(self, box: Sandbox) -> None:
        seen: list[str] = []
        box.run("print('a', flush=True); 1 / 0", on_event=lambda name, data: seen.append(name))
        assert seen[0] == "stdout"
        assert "stderr" in seen

    def test_functions_of_the_host(self, box: Sandbox) -> None:
        def double(number: int) -> int:
            return number * 2

        result = box.run("[double(n) for n in range(50)]", functions={"double": double})
        assert result.value == [n * 2 for n in range(50)]
        assert result.usage.calls == 50

    def test_preload(self, box: Sandbox) -> None:
        result = box.run("import sys; 'decimal' in sys.modules", preload=("decimal",))
        assert result.value is True
        with pytest.raises(ConfigurationError, match="no_such_module"):
            box.run("1", preload=("no_such_module",))

    def test_seeds(self, box: Sandbox) -> None:
        code = "import random; random.random()"
        assert box.run(code, seed=5).value == box.run(code, seed=5).value
        assert box.run(code).value != box.run(code).value

    def test_nothing_of_a_run_is_in_the_next(self, box: Sandbox) -> None:
        code = "import os; found = os.listdir('/work') + os.listdir('/tmp'); open('/tmp/x', 'w'); open('y', 'w'); found"
        assert box.run(code).value == []
        assert box.run(code).value == []

    @pytest.mark.parametrize(
        ("options", "field"),
        [({"time": 5.0}, "time"), ({"packages": ("/usr/lib",)}, "packages"), ({"preopens": ("/x",)}, "preopens")],
    )
    def test_what_other_tiers_have_is_refused(self, options: dict[str, object], field: str, box: Sandbox) -> None:
        with pytest.raises(ConfigurationError) as caught:
            box.run("1", **options)
        assert caught.value.field == field


class TestSessions:
    def test_state_is_kept(self, box: Sandbox) -> None:
        with box.session() as session:
            session.execute("x = 20")
            result = session.execute("x += 1; open('f', 'w').write('1'); x * 2")
            assert (result.value, result.state) == (42, "kept")
            assert list(result.files) == ["f"]
            assert session.execute("open('f').read()").value == "1"

    def test_a_session_that_was_ended_is_lost(self, box: Sandbox) -> None:
        with box.session() as session:
            session.execute("x = 1")
            result = session.execute("while True: pass", timeout=0.3)
            assert (result.outcome.kind, result.state) == (OutcomeKind.TIMEOUT, "lost")
            assert session.execute("x").state == "lost"

    def test_files_swapped_while_they_are_collected(self, box: Sandbox) -> None:
        """What goes on in a session changes its files meanwhile; none of it leads out, and the result comes."""
        with box.session() as session:
            session.execute("""
import os, threading
def swap():
    while True:
        try:
            os.symlink("/etc/passwd", "t"); os.rename("t", "x")
            open("t", "w").write("plain"); os.rename("t", "x")
            os.mkdir("d"); os.rename("d", "e"); os.symlink("/etc", "d"); os.unlink("d"); os.rmdir("e")
        except OSError: pass
threading.Thread(target=swap, daemon=True).start()
""")
            for _ in range(5):
                result = session.execute("1")
                assert result.outcome.kind in (OutcomeKind.OK, OutcomeKind.PROTOCOL)
                assert all(b"root:" not in file.read() for file in result.files.values())


class TestPrograms:
    def test_any_program(self, box: Sandbox) -> None:
        code = "import sys, os; print(sys.stdin.read(), os.getcwd()); open('made', 'w'); sys.exit(3)"
        result = box.run(command=["python3", "-c", code], stdin="in")
        assert (result.stdout, result.exit_code) == ("in /work\n", 3)
        assert (result.outcome.kind, result.outcome.detail) == (OutcomeKind.GUEST_ERROR, "exit status 3")
        assert list(result.files) == ["made"]

    def test_one_that_is_not_there(self, box: Sandbox) -> None:
        result = box.run(command=["no-such-program"])
        assert (result.exit_code, result.stderr) == (127, "no-such-program: not found\n")

    def test_files_of_its_own_can_be_started(self, box: Sandbox) -> None:
        """A build runs what it has built."""
        code = "import os, subprocess; os.chmod('p', 0o755); print(subprocess.check_output(['./p'], text=True))"
        result = box.run(command=["python3", "-c", code], files={"p": "#!/usr/bin/python3\nprint('built')\n"})
        assert result.stdout == "built\n\n"

    def test_a_project(self, box: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub" / "a.txt").write_text("old")
        (tmp_path / "gone").write_text("x")
        (tmp_path / "run.sh").write_text("x")
        (tmp_path / "run.sh").chmod(0o755)
        code = """
import os
assert os.access("run.sh", os.X_OK)
open("sub/a.txt", "w").write("new"); os.unlink("gone"); os.symlink("sub/a.txt", "link"); os.mkdir("more")
open("more/b", "w").write("b")
"""
        result = box.run(command=["python3", "-c", code], work=tmp_path)
        assert result.ok, result.stderr
        assert result.changes.added == ("link", "more/b")
        assert result.changes.changed == ("sub/a.txt",)
        assert result.changes.deleted == ("gone",)
        assert (tmp_path / "sub" / "a.txt").read_text() == "old"
        result.apply()
        assert (tmp_path / "sub" / "a.txt").read_text() == "new"
        assert (tmp_path / "link").readlink() == Path("sub/a.txt")
        assert not (tmp_path / "gone").exists()

    def test_a_program_that_is_out_of_time_is_asked_first(self, box: Sandbox) -> None:
        code = """
import signal, sys, time
def leave(*_):
    print("asked", flush=True); open("left", "w"); sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
time.sleep(60)
"""
        result = box.run(command=["python3", "-c", code], timeout=1.5, limits={"grace_s": 5.0})
        assert result.outcome.kind is OutcomeKind.TIMEOUT
        assert result.stdout == "ready\nasked\n"
        assert "left" in result.files

    def test_what_it_leaves_running_ends_with_it(self, box: Sandbox) -> None:
        code = "import subprocess; subprocess.Popen(['python3', '-c', 'import time; time.sleep(99)']); print('over')"
        result = box.run(command=["python3", "-c", code], timeout=20)
        assert (result.outcome.kind, result.stdout) == (OutcomeKind.OK, "over\n")
        assert result.usage.wall_s < 15


class TestImages:
    def test_an_image_that_is_not_there_is_refused_and_never_fetched(self, box: Sandbox) -> None:
        with pytest.raises(TierUnavailable) as caught:
            box.run("1", image="localhost/no/such:image")
        assert "nothing is ever fetched" in str(caught.value)

    def test_without_any_image_the_tier_says_how_to_make_one(self, private: PrivateEngine) -> None:
        backend = ContainerBackend(engine=private.host, default_image="localhost/no/default:at-all")
        with pytest.raises(TierUnavailable) as caught:
            backend.image(None)
        assert caught.value.failures[0].guarantee == "IMAGE_ROOT"

    def test_an_image_that_is_removed_between_plan_and_run(self, named: str, engine: Engine) -> None:
        client = engine.client()
        with Sandbox(tier="container", pool=0) as box:
            client.call("POST", f"/images/{image.DEFAULT}/tag", Deadline(10), query={"repo": "localhost/t", "tag": "x"})
            assert box.run("1", image="localhost/t:x").ok
            client.call("DELETE", "/images/localhost/t:x", Deadline(10))
            # It is known by its digest by now, which another name still holds.
            assert box.run("1", image="localhost/t:x").ok

    def test_an_image_of_debian(self, box: Sandbox, engine: Engine) -> None:
        """Made twice it is the same, to the byte, and it is another Python than the host's image has."""
        if shutil.which("apt-get") is None:
            house.lacks("this machine has no apt-get")
        name = "localhost/fastness/python:debian"
        client = engine.client()
        # Where the command has made it on both engines, .ci/engines compares these two.
        if name not in [one.name for one in image.list_ours(client, Deadline(10))]:
            first, second = (image.load(client, image_debian.build(), (name,), "debian") for _ in range(2))
            assert first == second
        code = "import sys, sqlite3, ssl, ctypes, zoneinfo; [sys.prefix, str(zoneinfo.ZoneInfo('Europe/Oslo'))]"
        assert box.run(code, image=name).value == ["/usr", "Europe/Oslo"]
        result = box.run(command=["sh", "-c", "true"], image=name)
        assert (result.exit_code, result.stderr) == (127, "sh: not found\n")

    def test_an_images_own_check_of_health_does_not_run(
        self, box: Sandbox, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The engine would start it beside the guest, and keep what it prints."""
        configuration = image.configuration
        check = {"Test": ["CMD", "python3", "-c", "open('/tmp/health', 'w')"], "Interval": 10**9, "Timeout": 10**9}

        def with_check(digest: str, flavour: str) -> bytes:
            told = json.loads(configuration(digest, flavour))
            told["config"]["Healthcheck"] = check
            return json.dumps(told).encode()

        monkeypatch.setattr(image, "configuration", with_check)
        name = "localhost/fastness/test:health"
        image.load(engine.client(), image_host.build(), (name,), "test")
        code = "import os, time; time.sleep(2.5); print(os.path.exists('/tmp/health'))"
        assert box.run(code, image=name).stdout == "False\n"

    def test_an_image_without_the_code_that_runs_inside(
        self, box: Sandbox, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As of another version, or of anybody else: it is sent that code."""
        name = "localhost/fastness/python:other"
        with monkeypatch.context() as patch:
            patch.setattr(inside, "digest", lambda: "f" * 32)
            image.load(engine.client(), image_host.build(), (name,), "host")
        assert image.find(engine.client(), name, Deadline(10)).guest == "f" * 32
        assert box.run("6 * 7", image=name).value == 42
        assert box.run(command=["python3", "-c", "print(1)"], image=name).stdout == "1\n"

    def test_other_tiers_have_none(self) -> None:
        with Sandbox(tier="worker") as box, pytest.raises(ConfigurationError, match="image"):
            box.run("1", image="x")


class TestLimits:
    def test_conformance(self, private: PrivateEngine) -> None:
        """Every hostile program of the kit, with a harmless one after each."""
        faults = asyncio.run(check_backend(lambda: ContainerBackend(engine=private.host), wall_s=4.0))
        assert faults == []

    def test_processor_time(self, box: Sandbox) -> None:
        result = box.run("while True: pass", timeout=30, limits={"cpu_s": 0.5})
        assert result.outcome.kind is OutcomeKind.CPU

    def test_memory_of_all_processes(self, box: Sandbox) -> None:
        code = """
import os, time
for _ in range(6):
    if not os.fork():
        x = bytearray(60 << 20); time.sleep(5); os._exit(0)
time.sleep(5)
"""
        result = box.run(command=["python3", "-c", code], memory="64M", limits={"file_bytes": 1 << 20}, timeout=20)
        assert result.outcome.kind in (OutcomeKind.MEMORY, OutcomeKind.OK)
        code = "x = []\nwhile True: x.append(bytearray(1 << 20))"
        result = box.run(command=["python3", "-c", code], memory="64M", limits={"file_bytes": 1 << 20}, timeout=20)
        assert result.outcome.kind is OutcomeKind.MEMORY

    def test_the_work_folder_has_an_end(self, box: Sandbox) -> None:
        code = """
n = 0
try:
    while True:
        with open(f"f{n}", "wb") as file: file.write(b"x" * (1 << 20))
        n += 1
except OSError as error:
    print(n, error.errno)
    raise
"""
        result = box.run(code, limits={"file_bytes": 8 << 20})
        assert result.outcome.kind is OutcomeKind.DISK
        assert int(result.stdout.split()[0]) <= 8

    def test_many_files(self, box: Sandbox) -> None:
        result = box.run("for i in range(300): open(f'f{i}', 'w')", limits={"files": 100})
        assert result.outcome.kind is OutcomeKind.DISK
        assert len(result.files) <= 100

    def test_more_folders_than_descriptors(self, box: Sandbox, tmp_path: Path) -> None:
        """A project as package managers leave it, through a command that does nothing: all in, all out, no change."""
        for number in range(300):
            (tmp_path / f"d{number}").mkdir()
            (tmp_path / f"d{number}" / "file").write_text("kept")
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        try:
            code = "import os; print(len(os.listdir('.'))); open('d0/new', 'w').close()"
            result = box.run(command=["python3", "-c", code], work=tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert (result.stdout, result.usage.denials_dropped) == ("300\n", 0)
        assert (result.changes.added, result.changes.deleted) == (("d0/new",), ())

    def test_files_that_are_all_holes(self, box: Sandbox) -> None:
        """What is sent is bounded by the quota, and not by how long files say that they are."""
        code = "for n in range(100): open(f'hole{n}', 'wb').truncate(1 << 20)\nopen('kept', 'w').write('x')"
        result = box.run(code, limits={"file_bytes": (2 << 20) + 4096})
        assert result.outcome.kind is OutcomeKind.DISK
        assert result.files["kept"].read() == b"x"

    def test_a_work_folder_that_its_user_closed(self, box: Sandbox) -> None:
        code = """
import os
open("kept", "w").write("x")
try:
    os.chmod("/work", 0)
except OSError:
    pass
"""
        result = box.run(code)
        assert (result.outcome.kind, result.files["kept"].read()) == (OutcomeKind.OK, b"x")

    def test_inputs_that_do_not_fit_are_refused(self, box: Sandbox) -> None:
        with pytest.raises(StagingError):
            box.run("1", files={"a": b"x" * (2 << 20)}, limits={"file_bytes": 1 << 20})

    def test_a_deadline_covers_waiting(self, box: Sandbox) -> None:
        result = box.run("import time; time.sleep(30)", deadline=3.0)
        assert result.outcome.kind is OutcomeKind.TIMEOUT
        assert "deadline" in result.outcome.detail


class TestPool:
    def test_runs_at_once(self, named: str) -> None:
        """Twenty runs, four at a time, are all right."""
        found: list[object] = []
        with Sandbox(tier="container", pool=4) as box:

            def work(first: int) -> None:
                found.extend(box.run(f"{number} * 2").value for number in range(first, 20, 4))

            threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
        assert sorted(found) == [number * 2 for number in range(20)]  # type: ignore[type-var]  # they are whole numbers

    def test_a_container_is_used_once(self, named: str) -> None:
        with Sandbox(tier="container", pool=2) as box:
            first, second = box.run("open('/tmp/x', 'w')"), box.run("import os; os.path.exists('/tmp/x')")
            assert (first.ok, second.value) == (True, False)

    def test_nothing_is_left(self, named: str, engine: Engine) -> None:
        before = set(containers.ours(engine))
        with Sandbox(tier="container", pool=2) as box:
            box.run("1")
            assert set(containers.ours(engine)) - before
        assert not set(containers.ours(engine)) - before

    def test_cancelled(self, box: Sandbox) -> None:
        code = "import time; print('on', flush=True); time.sleep(60)"
        result = box.run(code, on_event=lambda name, data: box.cancel())
        assert result.outcome.kind is OutcomeKind.CANCELLED

    def test_runs_given_up_while_their_container_is_made(self, named: str, engine: Engine) -> None:
        """Whatever a cancelled caller had asked for is removed while the sandbox lives on."""
        before = set(containers.ours(engine))

        async def work() -> None:
            async with fastness.AsyncSandbox(tier="container", pool=0) as box:
                await box.run("1")
                for number in range(6):
                    task = asyncio.ensure_future(box.run("1"))
                    await asyncio.sleep(0.02 + 0.03 * number)
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                for _ in range(100):
                    # One may have been made ahead for a sandbox of other tests.
                    if len(left := set(containers.ours(engine)) - before) < 2:
                        break
                    await asyncio.sleep(0.1)
                assert len(left) < 2

        asyncio.run(work())
