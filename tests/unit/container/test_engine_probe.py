"""
Whatever an engine does, asking it comes to an end, says what is wrong and what would mend it.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_engines as fakes
import pytest

from fastness._container import image, probe
from fastness._container.client import Client
from fastness._container.deadline import Deadline
from fastness._container.endpoint import Endpoint, find, parse
from fastness._container.faults import EngineFault
from fastness.cli.image import list_images
from fastness.tier import Guarantee

_PATIENCE_S = 0.4
#: For an engine that answers.
_ANSWER_S = 10.0


def within(function: Callable[[], Any]) -> Any:
    """The result of a function, or its error; a hang fails the test instead of stopping the run."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(function())
        except BaseException as error:  # noqa: BLE001  # it is what the test looks at
            found.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert found, "it did not come back"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def fault_of(path: Path | str, seconds: float = _PATIENCE_S) -> EngineFault:
    host = str(path) if "://" in str(path) else f"unix://{path}"
    with pytest.raises(EngineFault) as caught:
        within(lambda: probe.reach({}, host, seconds))
    assert caught.value.cause
    return caught.value


class TestWedged:
    @pytest.mark.parametrize(
        "behave", [fakes.mute, fakes.drip, fakes.drip_body, fakes.half, fakes.ping_only], ids=lambda one: one.__name__
    )
    def test_an_engine_that_does_not_come_to_an_end_is_silent(self, behave: fakes.Behave, tmp_path: Path) -> None:
        """One absolute deadline holds over connect, send and every read: a byte now and then does not renew it."""
        with fakes.engine(behave, tmp_path / "s"):
            fault = fault_of(tmp_path / "s")
        assert fault.kind == "silent"
        assert "0.4 s" in fault.cause
        assert "restart" in fault.remedy

    def test_an_engine_that_hangs_up_amid_its_answer_is_broken(self, tmp_path: Path) -> None:
        with fakes.engine(fakes.cut, tmp_path / "s"):
            assert fault_of(tmp_path / "s").kind == "broken"

    def test_a_full_queue_is_a_busy_engine(self, tmp_path: Path) -> None:
        """It is tried again until the deadline, for an engine may be busy only now."""
        with fakes.full(tmp_path / "s"):
            fault = fault_of(tmp_path / "s")
        assert fault.kind == "busy"
        assert "queue is full" in fault.cause

    def test_a_queue_that_was_full_only_for_a_moment_is_none(self, tmp_path: Path) -> None:
        path = tmp_path / "s"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(0)
        first, second = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        first.connect(str(path))

        def serve() -> None:
            listener.accept()[0].close()
            for _ in range(3):
                with listener.accept()[0] as conn:
                    fakes.answering()(conn, threading.Event())

        thread = threading.Timer(0.2, serve)
        thread.start()
        found = within(lambda: probe.reach({}, f"unix://{path}", 10.0))
        thread.join()
        for one in (first, second, listener):
            one.close()
        assert found.kind == "docker"

    def test_a_server_that_does_not_speak_http(self, tmp_path: Path) -> None:
        with fakes.engine(fakes.saying(b"SSH-2.0-OpenSSH_9\r\n"), tmp_path / "s"):
            fault = fault_of(tmp_path / "s")
        assert fault.kind == "broken"
        assert "FASTNESS_ENGINE" in fault.remedy


class TestNoSocket:
    def test_absent(self, tmp_path: Path) -> None:
        fault = fault_of(tmp_path / "nothing")
        assert fault.kind == "absent"
        assert "systemctl" in fault.remedy

    def test_stale(self, tmp_path: Path) -> None:
        path = tmp_path / "s"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.close()
        assert fault_of(path).kind == "stale"

    def test_a_plain_file(self, tmp_path: Path) -> None:
        (tmp_path / "s").write_text("x")
        assert fault_of(tmp_path / "s").kind == "not_a_socket"

    def test_a_fifo(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "s")
        assert fault_of(tmp_path / "s").kind == "not_a_socket"

    def test_a_closed_port(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        fault = fault_of(f"tcp://127.0.0.1:{port}")
        assert fault.kind == "no_host"
        assert "refused" in fault.cause.lower()

    def test_a_host_that_never_answers(self) -> None:
        """As a dead host is to TCP: a queue that is full takes no more first packets."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            where = listener.getsockname()
            fill = [socket.socket() for _ in range(4)]
            for one in fill:
                one.setblocking(False)
                one.connect_ex(where)
            fault = fault_of(f"tcp://127.0.0.1:{where[1]}")
            for one in fill:
                one.close()
        assert fault.kind == "silent"


class TestWhere:
    def test_what_was_named_is_used_or_refused(self, tmp_path: Path) -> None:
        """A name that leads nowhere is no reason to look elsewhere."""
        with fakes.engine(fakes.answering(), tmp_path / "s"):
            variables = {"DOCKER_HOST": f"unix://{tmp_path}/dead", "CONTAINER_HOST": f"unix://{tmp_path}/s"}
            with pytest.raises(EngineFault) as caught:
                probe.reach(variables, None, 1.0)
        assert caught.value.kind == "absent"

    @pytest.mark.parametrize("variable", ["FASTNESS_ENGINE", "DOCKER_HOST", "CONTAINER_HOST"])
    def test_variables(self, variable: str) -> None:
        (found,) = find({variable: "unix:///x/y"})
        assert (found.path, found.source) == ("/x/y", variable)

    def test_our_own_variable_counts_first(self) -> None:
        (found,) = find({"FASTNESS_ENGINE": "unix:///a", "DOCKER_HOST": "unix:///b", "CONTAINER_HOST": "unix:///c"})
        assert found.path == "/a"

    def test_nothing_anywhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fastness._container.endpoint.usual", lambda variables: (str(tmp_path / "none"),))
        with pytest.raises(EngineFault) as caught:
            find({"HOME": str(tmp_path)})
        assert caught.value.kind == "absent"
        assert str(tmp_path / "none") in caught.value.cause

    def test_usual_places_are_looked_at_in_turn(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        places = (str(tmp_path / "stale"), str(tmp_path / "good"))
        monkeypatch.setattr("fastness._container.endpoint.usual", lambda variables: places)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(places[0])
        listener.close()
        with fakes.engine(fakes.answering(), Path(places[1])):
            assert probe.reach({"HOME": str(tmp_path)}).endpoint.path == places[1]
        with pytest.raises(EngineFault) as caught:
            probe.reach({"HOME": str(tmp_path)}, None, 1.0)
        assert "stale" in caught.value.cause
        assert "good" in caught.value.cause

    def _context(self, home: Path, host: str, **more: object) -> dict[str, str]:
        folder = home / ".docker"
        digest = hashlib.sha256(b"far").hexdigest()
        (folder / "contexts" / "meta" / digest).mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"currentContext": "far"}))
        meta = {"Name": "far", "Endpoints": {"docker": {"Host": host, **more}}}
        (folder / "contexts" / "meta" / digest / "meta.json").write_text(json.dumps(meta))
        return {"HOME": str(home)}

    def test_a_context_leads_to_its_engine(self, tmp_path: Path) -> None:
        with fakes.engine(fakes.answering(), tmp_path / "s"):
            variables = self._context(tmp_path, f"unix://{tmp_path}/s")
            assert probe.reach(variables).endpoint.source == "the Docker context 'far'"

    def test_a_context_to_a_dead_host_comes_to_an_end(self, tmp_path: Path) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            where = listener.getsockname()
            fill = [socket.socket() for _ in range(4)]
            for one in fill:
                one.setblocking(False)
                one.connect_ex(where)
            variables = self._context(tmp_path, f"tcp://127.0.0.1:{where[1]}")
            with pytest.raises(EngineFault) as caught:
                within(lambda: probe.reach(variables, None, _PATIENCE_S))
            for one in fill:
                one.close()
        assert caught.value.kind == "silent"

    def test_a_context_that_checks_nobody_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(EngineFault) as caught:
            find(self._context(tmp_path, "tcp://192.0.2.1:2376", SkipTLSVerify=True))
        assert caught.value.kind == "insecure"

    def test_a_context_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(EngineFault) as caught:
            find({"HOME": str(tmp_path), "DOCKER_CONTEXT": "gone"})
        assert "'gone' names no engine" in caught.value.cause

    @pytest.mark.parametrize("host", ["tcp://192.0.2.1:2375", "http://engine.example:2375", "tcp://[2001:db8::1]:1"])
    def test_a_network_without_tls_is_refused(self, host: str) -> None:
        with pytest.raises(EngineFault) as caught:
            parse(host, {}, "DOCKER_HOST")
        assert caught.value.kind == "insecure"
        assert "DOCKER_CERT_PATH" in caught.value.remedy

    @pytest.mark.parametrize(
        "host", ["tcp://127.0.0.1:2375", "tcp://localhost", "tcp://[::1]:99", "http://127.9.9.9:1"]
    )
    def test_loopback_needs_no_tls(self, host: str) -> None:
        assert parse(host, {}, "DOCKER_HOST").tls is None

    def test_tls_without_its_files_is_refused(self, tmp_path: Path) -> None:
        variables = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(tmp_path)}
        with pytest.raises(EngineFault) as caught:
            parse("tcp://192.0.2.1:2376", variables, "DOCKER_HOST")
        assert caught.value.kind == "insecure"
        assert "ca.pem" in caught.value.cause

    @pytest.mark.parametrize(
        "host", ["ssh://somebody@host", "npipe:////./pipe/docker_engine", "unix://relative", "x", "tcp://h:x"]
    )
    def test_other_addresses_are_refused(self, host: str) -> None:
        with pytest.raises(EngineFault) as caught:
            parse(host, {}, "DOCKER_HOST")
        assert caught.value.kind == "unsupported"


class TestAnswers:
    def test_docker(self, tmp_path: Path) -> None:
        with fakes.engine(fakes.answering(), tmp_path / "s"):
            found = probe.reach({}, f"unix://{tmp_path}/s")
        assert (found.kind, found.api, found.seccomp, found.rootless) == ("docker", "1.41", True, False)
        assert probe.refusals(found) == ()

    def test_podman_is_told_by_its_components(self, tmp_path: Path) -> None:
        version = {**fakes.VERSION, "Components": [{"Name": "Podman Engine"}, {"Name": "Conmon"}]}
        with fakes.engine(fakes.answering(version=version), tmp_path / "s"):
            assert probe.reach({}, f"unix://{tmp_path}/s").kind == "podman"

    def test_over_tcp_on_loopback(self) -> None:
        with fakes.engine(fakes.answering(), ("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            assert probe.reach({}, f"tcp://localhost:{port}").kind == "docker"

    @pytest.mark.parametrize(
        ("newest", "oldest", "agreed"),
        [("1.41", "1.12", "1.41"), ("1.99", "1.44", "1.47"), ("1.40", None, "1.40"), ("1.47", "1.47", "1.47")],
    )
    def test_versions_are_agreed_on(self, newest: str, oldest: str | None, agreed: str) -> None:
        assert probe.negotiate(newest, oldest) == agreed

    @pytest.mark.parametrize(
        ("newest", "oldest"), [("1.24", "1.12"), ("1.60", "1.50"), ("", ""), (None, None), ("1.x", "1")]
    )
    def test_versions_that_cannot_be_agreed_on(self, newest: object, oldest: object) -> None:
        with pytest.raises(EngineFault) as caught:
            probe.negotiate(newest, oldest)
        assert caught.value.kind in ("unsupported", "broken")

    @pytest.mark.parametrize(
        ("change", "guarantee", "words"),
        [
            ({"Rootless": True}, Guarantee.TOTAL_MEM_CAP, "rootless on control groups of version 1"),
            (
                {"SecurityOptions": ["name=seccomp,profile=default", "name=rootless"]},
                Guarantee.TOTAL_MEM_CAP,
                "rootless",
            ),
            ({"MemoryLimit": False}, Guarantee.TOTAL_MEM_CAP, "cannot limit memory"),
            ({"PidsLimit": False}, Guarantee.PIDS_CAP, "cannot limit processes"),
            ({"CpuCfsQuota": False}, Guarantee.WALL_KILL, "cannot limit processor time"),
            ({"SecurityOptions": []}, Guarantee.SYSCALL_FILTERED, "filters no system calls"),
            ({"SecurityOptions": ["name=seccomp,profile=unconfined"]}, Guarantee.SYSCALL_FILTERED, "filters no"),
            ({"OSType": "windows"}, "all", "containers of windows"),
            ({"Architecture": "riscv64"}, Guarantee.SYSCALL_FILTERED, "untested"),
        ],
    )
    def test_engines_that_are_refused(
        self, change: dict[str, object], guarantee: str, words: str, tmp_path: Path
    ) -> None:
        with fakes.engine(fakes.answering(info={**fakes.INFO, **change}), tmp_path / "s"):
            found = probe.refusals(probe.reach({}, f"unix://{tmp_path}/s"))
        assert any(one.guarantee == guarantee and words in one.cause and one.remedy for one in found), found

    def test_rootless_on_version_2_is_not_refused_for_its_word(self, tmp_path: Path) -> None:
        """What it does is looked at in each container."""
        info = {**fakes.INFO, "Rootless": True, "CgroupVersion": "2"}
        with fakes.engine(fakes.answering(info=info), tmp_path / "s"):
            assert probe.refusals(probe.reach({}, f"unix://{tmp_path}/s")) == ()

    def test_podman_over_a_network_is_refused(self) -> None:
        engine = probe.Engine(
            endpoint=Endpoint(host="127.0.0.1", port=1), kind="podman", version="4", api="1.41", machine="amd64",
            system="linux", seccomp=True, memory_limit=True, pids_limit=True, cpu_quota=True, cgroup_version="2",
        )  # fmt: skip
        (found,) = probe.refusals(engine)
        assert "its own disk" in found.cause


class TestHttp:
    def _call(self, tmp_path: Path, data: bytes, cap: int = 1000) -> Any:
        with fakes.engine(fakes.saying(data), tmp_path / "s"):
            client = Client(Endpoint(path=str(tmp_path / "s")))
            return within(lambda: client.call("GET", "/x", Deadline(5.0), cap=cap))

    def test_chunks(self, tmp_path: Path) -> None:
        data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: z\r\n\r\n"
        assert self._call(tmp_path, data).body == b"abcde"

    def test_until_the_end_of_the_stream(self, tmp_path: Path) -> None:
        assert self._call(tmp_path, b"HTTP/1.0 200 OK\r\n\r\nabc").body == b"abc"

    def test_what_comes_first_is_passed_over(self, tmp_path: Path) -> None:
        data = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
        assert self._call(tmp_path, data).status == 204

    @pytest.mark.parametrize(
        "data",
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000,
            b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n" + b"x" * 5000 + b"\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"64\r\n" + b"x" * 100 + b"\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            b"HTTP/1.1 2000 OK\r\n\r\n",
            b"HTTP/1.1 abc\r\n\r\n",
            b"",
            b"x" * 200_000,
            b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000,
        ],
    )
    def test_what_is_no_answer_is_broken(self, data: bytes, tmp_path: Path) -> None:
        with pytest.raises(EngineFault) as caught:
            self._call(tmp_path, data)
        assert caught.value.kind == "broken"

    def test_a_refusal_tells_what_the_engine_said(self, tmp_path: Path) -> None:
        with pytest.raises(EngineFault) as caught:
            self._call(tmp_path, fakes.http({"message": "no such  image"}, "404 Not Found"))
        assert (caught.value.kind, caught.value.status) == ("status", 404)
        assert "no such image" in caught.value.cause

    def test_json_that_is_nested_without_end(self, tmp_path: Path) -> None:
        answer = self._call(tmp_path, fakes.http(b"[" * 100_000), cap=1 << 20)
        with pytest.raises(EngineFault):
            answer.json()

    def test_an_upload_that_nobody_reads_comes_to_an_end(self, tmp_path: Path) -> None:
        with fakes.engine(fakes.mute, tmp_path / "s"):
            client = Client(Endpoint(path=str(tmp_path / "s")))
            upload = ((b"x" * (1 << 20) for _ in range(64)), 64 << 20)
            with pytest.raises(EngineFault) as caught:
                within(lambda: client.call("POST", "/images/load", Deadline(_PATIENCE_S), upload=upload))
        assert caught.value.kind == "silent"


class TestOddAnswers:
    """Whatever type a part of an answer has, it is refused or left out, and no error of Python's comes of it."""

    @pytest.mark.parametrize("odd", [5, "text", [5], {"a": 5}, True, None])
    def test_of_security(self, odd: object, tmp_path: Path) -> None:
        with fakes.engine(fakes.answering(info={**fakes.INFO, "SecurityOptions": odd}), tmp_path / "s"):
            found = probe.reach({}, f"unix://{tmp_path}/s", _ANSWER_S)
        assert not found.seccomp

    @pytest.mark.parametrize("odd", [5, "text", [5], {"a": 5}, True])
    @pytest.mark.parametrize("key", ["Config", "Labels", "RootFS", "Size", "Env", "Id", ""])
    def test_of_images(self, key: str, odd: object, tmp_path: Path) -> None:
        honest = {"Id": f"sha256:{'a' * 64}", "Config": {"Labels": {}}, "RepoTags": ["x:y"]}
        told = {**honest, key: odd} if key in ("Config", "RootFS", "Size", "Id") else {**honest, "Config": {key: odd}}
        answers = {
            "/images/x/json": fakes.http(told if key else odd),
            "/images/json": fakes.http([told if key else odd]),
        }
        with fakes.engine(fakes.answering(answers), tmp_path / "s"):
            client = Client(Endpoint(path=str(tmp_path / "s")))
            try:
                found = image.find(client, "x", Deadline(_ANSWER_S))
            except EngineFault as fault:
                assert (key in ("Id", ""), fault.kind) == (True, "broken")
            else:
                assert (found.id, found.flavour) == ("a" * 64, "")
            assert all(one.flavour == "" for one in image.list_ours(client, Deadline(_ANSWER_S)))

    @pytest.mark.parametrize("name", ["x/../../info", "..", "a b", ""])
    def test_a_name_leads_nowhere_else(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(EngineFault, match="no image has such a name"):
            image.find(Client(Endpoint(path=str(tmp_path / "s"))), name, Deadline(_ANSWER_S))


def test_what_an_image_says_of_itself_is_shown_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"Id": f"sha256:{'a' * 64}", "RepoTags": ["x:y"], "Labels": {"fastness.image": "\x1b]0;title\x07"}}
    monkeypatch.setenv("FASTNESS_ENGINE", f"unix://{tmp_path}/s")
    with fakes.engine(fakes.answering({"/images/json": fakes.http([row])}), tmp_path / "s"):
        list_images(as_json=False)
    shown = capsys.readouterr().out
    assert "x:y" in shown
    assert "title" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown
