"""``fastness plugin signals``: what waits is shown, sent, handed over and erased, and read by programs."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import fastness
from fastness.cli.main import main
from fastness.runs import Outcome, OutcomeKind, RunResult
from fastness.waiting import ThreadWaiting
from plugin_homes import package

Capture = pytest.CaptureFixture[str]
WISH = {
    "kind": "signals",
    "publish": ["out"],
    "subscribe": ["news", "other"],
    "handlers": [{"topic": "news", "method": "on"}],
    "reason": "To hear.",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(folder))
    for name in ("FASTNESS_TIER", "FASTNESS_RUNTIME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def installed(tmp_path: Path, capfd: Capture) -> None:
    source = package(tmp_path / "hello", "x = 1\n", [WISH], methods=["on"])
    assert main(["plugin", "install", str(source), "--yes"]) == 0
    capfd.readouterr()


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What plugins were called with, where no guest runs."""
    had: list[Any] = []

    async def run(self: Any, request: Any, calls: Any, *, run_id: str = "") -> RunResult:
        had.append(request.plugin.arguments)
        return RunResult(outcome=Outcome(OutcomeKind.OK), tier=request.tier, runtime="python", run_id=run_id)

    monkeypatch.setattr("fastness.runner.runner.Runner.run", run)
    return had


def read(capfd: Capture, *words: str) -> dict[str, Any]:
    capfd.readouterr()
    assert main(["plugin", "signals", *words, "--json"]) == 0
    out, err = capfd.readouterr()
    assert (err, out.count("\n"), out.isascii()) == ("", 1, True)
    found: dict[str, Any] = json.loads(out)
    assert found.pop("schema") == 1
    return found


def test_the_screen_says_what_it_asks_for(tmp_path: Path, capfd: Capture) -> None:
    source = package(tmp_path / "hello", "x = 1\n", [WISH], methods=["on"])
    assert main(["plugin", "check", str(source)]) == 0
    out = " ".join(capfd.readouterr().out.split())
    for words in (
        "It asks for signals publish out subscribe news, other",
        '{"topic":"news","method":"on"}',
        "It can tell all that it knows to whatever receives out for you",
        "It learns what other plugins and this program tell of news, other for you.",
        "It is called whenever such a signal comes, without you.",
    ):
        assert words in out, words


def test_nothing_waits(capfd: Capture) -> None:
    assert main(["plugin", "signals", "list"]) == 0
    assert capfd.readouterr() == ("", "fastness: no signal waits, and none was dropped\n")
    assert main(["plugin", "signals", "deliver"]) == 0
    assert capfd.readouterr() == ("", "fastness: no signal waits for a method\n")
    assert main(["plugin", "signals", "publish", "news"]) == 0
    assert capfd.readouterr() == ("no plugin of me receives news\n", "")


def test_from_one_end_to_the_other(installed: None, guests: list[Any], capfd: Capture) -> None:
    """Sent, shown, handed over; what has no method stays until it is erased."""
    assert main(["plugin", "signals", "publish", "news", "--data", '{"n": [1, "\\u202e"]}']) == 0
    assert capfd.readouterr().out == "it waits for 1 plugin of me\n"
    assert read(capfd, "publish", "other", "--owner", "me") == {"queued": 1, "dropped": 0}
    assert main(["plugin", "signals", "list"]) == 0
    out = capfd.readouterr().out
    assert "me" in out and "hello" in out and " 2 " in out
    (queue,) = read(capfd, "list", "--owner", "me")["queues"]
    assert (queue["owner"], queue["plugin"], queue["waiting"], queue["dropped"]) == ("me", "hello", 2, 0)
    assert read(capfd, "list", "--owner", "eve") == {"queues": []}
    assert main(["plugin", "signals", "deliver"]) == 0
    assert capfd.readouterr().out == "hello on news from (the program), owner me: ok\n"
    assert guests[0]["signal"]["data"] == {"n": [1, "\u202e"]}
    assert read(capfd, "deliver") == {"delivered": []}
    read(capfd, "publish", "news")
    (made,) = read(capfd, "deliver", "--owner", "me")["delivered"]
    assert (made["method"], made["topic"], made["outcome"], made["refused"], made["hop"]) == ("on", "news", "ok", "", 1)
    assert main(["plugin", "signals", "erase"]) == 2
    assert "say so with --yes" in capfd.readouterr().err
    assert read(capfd, "erase", "--yes", "--plugin", "none") == {"erased": 0}
    assert main(["plugin", "signals", "erase", "--yes"]) == 0
    assert capfd.readouterr().out == "erased for the owner me: 1 signal\n"


@pytest.mark.parametrize(
    "words",
    [
        ["publish", "A b"],
        ["publish", "news", "--data", "{"],
        ["publish", "news", "--owner", " "],
        ["deliver", "--run", "--owner", "me"],
        ["deliver", "--run", "--json"],
        ["erase", "--owner", "", "--yes"],
    ],
    ids=" ".join,
)
def test_mistakes(words: list[str], capfd: Capture) -> None:
    assert main(["plugin", "signals", *words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err


def test_serving_until_it_is_ended(
    installed: None, guests: list[Any], capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM, as from what keeps services."""
    before = signal.getsignal(signal.SIGTERM)
    poll = ThreadWaiting._poll

    def wait(*given: Any) -> bool:
        while not guests:
            time.sleep(0.01)
        signal.raise_signal(signal.SIGTERM)
        return poll(*given)

    monkeypatch.setattr(ThreadWaiting, "_poll", wait)
    main(["plugin", "signals", "publish", "news"])
    try:
        assert main(["plugin", "signals", "deliver", "--run"]) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(guests) == 1


def test_serving_until_interrupted(installed: None, guests: list[Any], capfd: Capture, monkeypatch: Any) -> None:
    """What waits is handed over; Ctrl-C is how it ends, and no failure."""

    def wait(*_: Any) -> None:
        while not guests:
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr("fastness.waiting.ThreadWaiting._poll", wait)
    main(["plugin", "signals", "publish", "news"])
    assert main(["plugin", "signals", "deliver", "--run"]) == 0
    assert "Ctrl-C ends this" in capfd.readouterr().err
    assert len(guests) == 1
    with fastness.PluginHost() as host:
        assert host.signal_queues() == []
