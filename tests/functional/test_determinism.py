"""
``seed=`` and ``time=`` make runs repeatable to the byte; without them no two runs share their randomness.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

import fastness

_FIXED = {"seed": 7, "time": 1_700_000_000.25}

#: Programs whose output depends on randomness, hashing, clocks or addresses.
_SOURCES = {
    "random": "import random; print(random.random(), random.getrandbits(256), random.sample(range(10**6), 5))",
    "random.Random": "import random; print(random.Random().random())",
    "random.SystemRandom": "import random; print(random.SystemRandom().random())",
    "os.urandom": "import os; print(os.urandom(64).hex())",
    "uuid4": "import uuid; print(uuid.uuid4())",
    "uuid1": "import uuid; print(uuid.uuid1())",
    "secrets": "import secrets; print(secrets.token_hex(32))",
    "tempfile": "import tempfile; print(tempfile.mktemp())",
    "numpy legacy": "import numpy; print(numpy.random.rand(5).tobytes().hex(), numpy.random.randint(1 << 30))",
    "numpy default_rng": "import numpy; print(numpy.random.default_rng().integers(1 << 60, size=5).tolist())",
    "pandas sample": "import pandas; print(pandas.Series(range(1000)).sample(10).tolist())",
    "shuffle and set order": (
        "import random; x = list({str(i) for i in range(200)}); random.shuffle(x); print(''.join(x))"
    ),
}
_CLOCKS = {
    "time.time": "import time; print(repr(time.time()), time.time_ns())",
    "datetime.now": "import datetime; print(datetime.datetime.now().isoformat())",
    "monotonic": "import time; print(time.monotonic_ns(), time.perf_counter_ns())",
    "file times": "open('f', 'w').write('x'); import os; print(os.stat('f').st_mtime_ns)",
    "strftime": "import time; print(time.strftime('%Y-%m-%d %H:%M:%S'))",
    "zip": (
        "import io, zipfile; b = io.BytesIO(); z = zipfile.ZipFile(b, 'w'); z.writestr('a', 'b'); z.close()\n"
        "print(b.getvalue().hex())"
    ),
}
_ADDRESSES = {
    "repr": "print(object(), [lambda: 0], type('T', (), {})())",
    "hash of str": "print(hash('x'), hash(b'x'), hash('a longer text'))",
    "order of a set": "print({str(i) for i in range(100)})",
    "order by id": "x = [object() for _ in range(20)]; print(sorted(range(20), key=lambda i: id(x[i])))",
    "hash of object": "print(hash(object()), hash(print), hash(float('nan')))",
}
_PICTURE = """
import matplotlib.pyplot as plt, numpy
plt.plot(numpy.random.rand(50)); plt.title("x"); plt.savefig("p.png")
"""


@pytest.fixture(scope="module")
def second(python_guest: None) -> Any:
    """A sandbox with engines of its own."""
    with fastness.Sandbox(tier="wasm", engines=1, timeout=20) as sandbox:
        yield sandbox


@pytest.mark.parametrize("name", [*_SOURCES, *_CLOCKS, *_ADDRESSES])
def test_equal_bytes(name: str, box: fastness.Sandbox, second: fastness.Sandbox) -> None:
    """The same seed and time give the same bytes: in a reset instance, in a fresh one and in another engine."""
    code = {**_SOURCES, **_CLOCKS, **_ADDRESSES}[name]
    first = box.run(code, **_FIXED)
    assert first.outcome.kind is fastness.OutcomeKind.OK, first.stderr
    assert first.stdout_bytes
    again = [
        box.run(code, **_FIXED),
        box.run(code, **_FIXED, fresh=True),
        second.run(code, **_FIXED),
        box.run(code, **_FIXED, tenant="somebody else"),
    ]
    assert [r.stdout_bytes for r in again] == [first.stdout_bytes] * 4


def test_a_picture_is_equal(box: fastness.Sandbox, second: fastness.Sandbox) -> None:
    """A matplotlib PNG is a function of code, seed and time, in every byte."""
    made = [box.run(_PICTURE, **_FIXED), box.run(_PICTURE, **_FIXED, fresh=True), second.run(_PICTURE, **_FIXED)]
    digests = {r.files["p.png"].sha256 for r in made}
    assert len(digests) == 1
    assert box.run(_PICTURE, seed=8, time=0.0).files["p.png"].sha256 not in digests


@pytest.mark.parametrize("name", list(_SOURCES))
def test_seeds_differ(name: str, box: fastness.Sandbox) -> None:
    """Seed 0 is a seed like another, and seeds of either sign and any size differ from one another."""
    seeds = [0, 1, -1, 1 << 62, -(1 << 63), (1 << 63) - 1]
    outputs = [box.run(_SOURCES[name], seed=seed, time=0.0).stdout for seed in seeds]
    assert len(set(outputs)) == len(seeds)
    assert box.run(_SOURCES[name], seed=0, time=0.0).stdout == outputs[0]


@pytest.mark.parametrize("fresh", [False, True], ids=["reset", "fresh"])
@pytest.mark.parametrize("name", list(_SOURCES))
def test_without_a_seed(name: str, fresh: bool, box: fastness.Sandbox) -> None:
    """Nothing random repeats, though every run starts from one memory image."""
    outputs = [box.run(_SOURCES[name], fresh=fresh).stdout for _ in range(4)]
    assert all(outputs)
    assert len(set(outputs)) == 4


def test_a_seed_leaves_nothing_behind(box: fastness.Sandbox) -> None:
    """A run without a seed after one with a seed is as random as ever."""
    seeded = box.run(_SOURCES["random"], seed=1).stdout
    outputs = {box.run(_SOURCES["random"]).stdout for _ in range(3)}
    assert len(outputs) == 3
    assert seeded not in outputs


@pytest.mark.parametrize("name", ["random", "os.urandom", "numpy legacy"])
def test_sessions_differ(name: str, box: fastness.Sandbox) -> None:
    """Sessions start from the same image and share no randomness either, unless they share a seed."""

    def shown(**options: Any) -> str:
        with box.session(**options) as session:
            return session.execute(_SOURCES[name]).stdout

    assert shown() != shown()
    assert shown(seed=3, time=0.0) == shown(seed=3, time=0.0)


def test_a_session_draws_on(box: fastness.Sandbox) -> None:
    """In a session with a seed the second execute goes on where the first stopped, and the whole repeats."""

    def drawn() -> list[Any]:
        with box.session(seed=5, time=9.0) as session:
            return [session.execute("import random, os\n(random.random(), os.urandom(4))").value for _ in range(3)]

    first = drawn()
    assert first[0] != first[1] != first[2]
    assert drawn() == first


@pytest.mark.parametrize("fresh", [False, True], ids=["reset", "fresh"])
def test_javascript(fresh: bool, box: fastness.Sandbox) -> None:
    """The same rules in JavaScript."""
    code = "console.log(Math.random(), Math.random()); Date.now()"

    def shown(**options: Any) -> tuple[str, Any]:
        result = box.run(code, runtime="javascript", fresh=fresh, **options)
        assert result.outcome.kind is fastness.OutcomeKind.OK, result.stderr
        return result.stdout, result.value

    assert shown(**_FIXED) == shown(**_FIXED)
    assert shown(**_FIXED)[1] == 1_700_000_000_250
    assert shown(seed=0, time=0.0) != shown(seed=1, time=0.0)
    assert len({shown()[0] for _ in range(4)}) == 4


@pytest.mark.parametrize("given", [0.001, 1e9 + 0.1, 1_700_000_000.123, 1_700_000_000.999999, float((1 << 33) - 1)])
def test_time_is_what_was_said(given: float, box: fastness.Sandbox) -> None:
    """The guest's clock shows the given time to the microsecond, not what is left of it in binary nanoseconds."""
    assert box.run("import time; time.time_ns()", time=given).value == round(given * 1e6) * 1000
    milliseconds = box.run("Date.now()", runtime="javascript", time=given).value
    assert milliseconds == round(given * 1e6) // 1000


def test_time_stands_still(box: fastness.Sandbox) -> None:
    """With ``time=`` the clock shows that instant however much work goes by."""
    code = "import time\na = time.time(), time.monotonic()\nsum(range(10**6))\na == (time.time(), time.monotonic())"
    assert box.run(code, time=5.0).value is True
    assert box.run("import time; time.time()", time=1_234_567.5).value == 1_234_567.5
    assert box.run("import datetime; datetime.datetime.now().isoformat()", time=0.0).value == "1970-01-01T00:00:00"


def test_sleeping_costs_nothing(box: fastness.Sandbox) -> None:
    """With ``time=`` a sleep moves the clock by just so much and does not wait."""
    began = time.monotonic()
    result = box.run("import time\na = time.time()\ntime.sleep(3600)\ntime.time() - a", time=100.0, timeout=10)
    assert result.outcome.kind is fastness.OutcomeKind.OK
    assert result.value == pytest.approx(3600, abs=1e-3)
    assert time.monotonic() - began < 60
    code = "import asyncio, time\na = time.time()\nasyncio.run(asyncio.sleep(1000))\ntime.time() - a"
    assert box.run(code, time=100.0, timeout=10).value == pytest.approx(1000, abs=0.1)


def test_sleeping_for_ever_still_ends(box: fastness.Sandbox) -> None:
    """A virtual clock is no way around the deadline."""
    result = box.run("import time\nwhile True: time.sleep(1e6)", time=100.0, timeout=0.5)
    assert result.outcome.kind is fastness.OutcomeKind.TIMEOUT


def test_the_clock_is_the_real_one_otherwise(box: fastness.Sandbox) -> None:
    """Without ``time=`` the guest sees this machine's time, and its clock moves forward."""
    before = time.time()
    first, second = box.run("import time; a = time.time(); sum(range(10**6)); (a, time.time())").value
    assert before - 1 <= first < second <= time.time() + 1
