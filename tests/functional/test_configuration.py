"""
A request that makes no sense is refused with the field, the value and what would be accepted; nothing runs.
"""

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest

import fastness
from fastness.limits import RANGES
from fastness.runner import request as requests
from fastness.testing import FakeBackend, fake_sandbox


def refused(code: Any = "1", **options: Any) -> fastness.ConfigurationError:
    """The error of a call, after making sure that nothing ran."""
    fake = FakeBackend()

    async def main() -> None:
        async with fake_sandbox(fake) as box:
            await box.run(code, **options)

    with pytest.raises(fastness.ConfigurationError) as caught:
        anyio.run(main)
    assert fake.requests == []
    return caught.value


@pytest.mark.parametrize("name", ["strong", "WASM", "", "none", "wasm ", "local2"])
def test_unknown_tier(name: str) -> None:
    """An unknown tier is named, with the tiers that exist."""
    error = refused(tier=name)
    assert (error.field, error.value) == ("tier", name)
    assert "wasm" in error.allowed and "isolated" in error.allowed
    assert repr(name)[1:-1] in str(error)


@pytest.mark.parametrize("name", ["ruby", "Python", "", 3, "wasi"])
def test_unknown_runtime(name: Any) -> None:
    """An unknown runtime is named, with those that exist; so is one that does not fit what is given."""
    error = refused(runtime=name)
    assert (error.field, error.value) == ("runtime", name)
    assert "python" in error.allowed


@pytest.mark.parametrize("field", sorted(RANGES))
@pytest.mark.parametrize("end", ["low", "high", "nan", "text", "bool"])
def test_limits_out_of_range(field: str, end: str) -> None:
    """Every limit has a range, and a value outside it is refused with both ends of the range."""
    low, high = RANGES[field]
    value: Any = {"low": low - 1, "high": high + 1, "nan": math.nan, "text": "lots", "bool": True}[end]
    error = refused(limits={field: value})
    assert error.field == field
    assert error.value is value
    assert str(low) in error.allowed and str(high) in error.allowed
    assert field in str(error)


@pytest.mark.parametrize("field", sorted(RANGES))
def test_limits_at_the_ends_of_the_range(field: str) -> None:
    """Both ends of a range are inside it."""
    low, high = RANGES[field]
    for value in (low, high):
        kind = float if field.endswith("_s") else int
        fastness.Limits(**{field: kind(value)})


@pytest.mark.parametrize("value", [0, -1, -0.5, 1e9, math.inf, math.nan, "soon", True])
def test_timeout_out_of_range(value: Any) -> None:
    """``timeout`` is the caller's word for a limit, so the error uses it."""
    error = refused(timeout=value)
    assert error.field == "timeout"


@pytest.mark.parametrize("value", [0, -1, 1 << 60, "1T T", "-5M", "", 1.5, True, "9" * 40, "1e400"])
def test_memory_out_of_range(value: Any) -> None:
    """``memory`` takes bytes or a short text with a unit."""
    error = refused(memory=value)
    assert error.field == "memory"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("args", "one text"),
        ("args", ["a\0b"]),
        ("args", ["\ud800"]),
        ("args", [1]),
        ("args", ["x" * (1 << 20)]),
        ("args", ["x" * 1000] * 1000),
        ("args", [""] * 500_000),
        ("args", ["\x01" * 500_000]),
        ("env", ["A=1"]),
        ("env", {"": "x"}),
        ("env", {"A=B": "x"}),
        ("env", {"A": "b\0"}),
        ("env", {"A\0": "b"}),
        ("env", {"A": 1}),
        ("env", {1: "a"}),
        ("env", {"A": "\udfff"}),
        ("env", {f"A{i}": "x" * 1000 for i in range(1000)}),
        ("stdin", 7),
        ("stdin", "\ud800"),
        ("stdin", b"x" * (requests.STDIN_CAP + 1)),
        ("files", ["a"]),
        ("preload", "numpy"),
        ("preopens", ["../up"]),
        ("preopens", [""]),
        ("tenant", ""),
        ("tenant", 5),
        ("tenant", "x" * 1000),
        ("seed", 1.5),
        ("seed", 1 << 64),
        ("seed", True),
        ("time", -1),
        ("time", math.nan),
        ("time", 1e12),
        ("time", "now"),
        ("deadline", 0),
        ("deadline", -3),
        ("deadline", math.inf),
        ("fresh", 1),
        ("filename", "a\nb"),
        ("filename", "x" * 300),
        ("on_event", "print"),
        ("limits", 7),
        ("limits", {"walls": 1}),
        ("entry", 7),
        ("no_such_option", 1),
        ("work", "."),
        ("image", "debian"),
    ],
)
def test_every_option_is_checked(field: str, value: Any) -> None:
    """A value of the wrong kind or size names its option."""
    options = {field: value}
    error = refused(None if field == "entry" else "1", **options)
    assert error.field.startswith(field)
    assert len(str(error)) < 2000


@pytest.mark.parametrize(
    "code", [b"print(1)", 1, ["x"], "\ud800", "x" * (requests.CODE_CAP + 1), "\N{SNOWMAN}" * 5_000_000]
)
def test_source_of_the_wrong_kind_or_size(code: Any) -> None:
    """Source is text that UTF-8 can carry, of at most the cap in bytes."""
    assert refused(code).field == "code"


def test_exactly_one_thing_to_run() -> None:
    """Nothing to run, or two things, is a mistake."""
    assert refused(None).field == "code"
    assert refused("1", module=b"\0asm").field == "code"
    assert refused(None, module="text").field == "module"
    assert refused(None, module=b"", runtime="python").field == "runtime"


def test_defaults_are_checked_where_they_are_written() -> None:
    """A sandbox with a bad default raises when it is made, not when it is used."""
    with pytest.raises(fastness.ConfigurationError) as caught:
        fastness.Sandbox(timeout=-1)
    assert caught.value.field == "timeout"
    with pytest.raises(fastness.ConfigurationError) as caught:
        fastness.Sandbox(colour="red")
    assert caught.value.field == "colour"
    for name, value in (("pool", -1), ("pool", 1000), ("engines", 0), ("engines", "many"), ("engines", True)):
        with pytest.raises(fastness.ConfigurationError) as caught:
            fastness.Sandbox(**{name: value})
        assert (caught.value.field, caught.value.value) == (name, value)


def test_entry_is_a_readable_file_of_a_known_kind(tmp_path: Any) -> None:
    """``entry`` needs a runtime that its name tells, and UTF-8."""
    (tmp_path / "a.rb").write_text("puts 1")
    assert refused(None, entry=tmp_path / "a.rb").field == "entry"
    (tmp_path / "a.py").write_bytes(b"\xff\xfe")
    assert refused(None, entry=tmp_path / "a.py").field == "entry"


def test_errors_are_one_tree() -> None:
    """Callers may catch everything of ours with one name."""
    for name in fastness.__all__:
        value = getattr(fastness, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, fastness.FastnessError), name


def test_arguments_and_variables_share_one_cap() -> None:
    """What is small enough by itself may be too much together; the larger one is named."""
    error = refused(args=["x" * 400_000] * 2, env={"A": "x" * 300_000})
    assert error.field == "args"
    assert "together" in error.allowed


@pytest.mark.tiers("wasm", "isolated", "confined")
@pytest.mark.parametrize("preload", [["a b"], ["x" + str(i) for i in range(100)], ["../x"], ["no_such_module"]])
def test_preload_names_modules_of_the_guest(preload: list[str], box: fastness.Sandbox) -> None:
    """A preload that is no module is the caller's mistake; the next run works."""
    with pytest.raises(fastness.ConfigurationError) as caught:
        box.run("1", preload=preload)
    assert caught.value.field == "preload"
    assert box.run("2").value == 2


@pytest.mark.tiers("wasm", "isolated", "confined")
def test_large_arguments_that_fit_arrive(box: fastness.Sandbox) -> None:
    """Just below the caps everything arrives."""
    result = box.run("import sys, os; [len(sys.argv[1]), sys.argv[2], len(os.environ['A'])]",
                     args=["x" * 400_000, "\x01\u2603"], env={"A": "y" * 400_000})  # fmt: skip
    assert result.value == [400_000, "\x01\u2603", 400_000]


def test_layers_of_settings() -> None:
    """A call's setting changes what it names; the sandbox's others stay."""
    fake = FakeBackend()

    async def main() -> None:
        async with fake_sandbox(fake, timeout=5, memory="64M", limits={"files": 7, "cpu_s": 2.0}) as box:
            await box.run("1")
            await box.run("1", limits={"file_bytes": 9})
            await box.run("1", limits={"wall_s": 3.0, "cpu_s": 1.0})
            await box.run("1", timeout=60)
            await box.run("1", timeout=60, limits={"cpu_s": 0.5})
            await box.run("1", limits=fastness.Limits(files=1))

    anyio.run(main)
    found = [(r.limits.wall_s, r.limits.cpu_s, r.limits.memory >> 20, r.limits.files) for r in fake.requests]
    assert found == [(5, 2, 64, 7), (5, 2, 64, 7), (3, 1, 64, 7), (60, 60, 64, 7), (60, 0.5, 64, 7), (30, 30, 512, 1)]
    assert fake.requests[1].limits.file_bytes == 9
