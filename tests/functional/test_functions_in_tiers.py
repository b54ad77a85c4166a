"""Functions of the host in plain runs and sessions: what code of each tier finds, calls and gets back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastness
import house
from fastness.audit import reading
from fastness.errors import BackendError, ConfigurationError
from fastness.runner.trail import places
from fastness.runs import DenialCode, OutcomeKind

PLACES = [
    ("wasm", "python"),
    ("wasm", "javascript"),
    ("isolated", "python"),
    ("confined", "python"),
    ("worker", "python"),
]


def price(item: str, count: int = 1) -> float:
    """The price of so many of an item.

    Items that nobody sells cost nothing.
    """
    return {"tea": 2.5, "cake": 4.0}.get(item, 0.0) * count


def refuses(item: str) -> None:
    """Never does it."""
    raise fastness.Denied(DenialCode.OUTSIDE, item)


def fails(item: str) -> None:
    """Fails with words for the guest."""
    raise fastness.CapabilityError(f"nobody sells {item}")


def breaks(item: str) -> None:
    """Fails with words that are the host's own."""
    raise RuntimeError("/home/of/the/host")


def gives_itself(item: str) -> Any:
    """Gives back what cannot cross."""
    return {"items": [1, breaks]}


FUNCTIONS = {"price": price, "refuses": refuses, "fails": fails, "breaks": breaks, "gives_itself": gives_itself}


@pytest.fixture(scope="module", params=PLACES, ids="-".join)
def place(request: pytest.FixtureRequest) -> Iterator[tuple[fastness.Sandbox, str]]:
    """A sandbox and a runtime."""
    tier, runtime = request.param
    house.require(f"{runtime} guest" if tier == "wasm" else f"{tier} tier")
    with fastness.Sandbox(tier=tier, runtime=runtime, timeout=30) as box:
        yield box, runtime


def run(place: tuple[fastness.Sandbox, str], python: str, javascript: str, **options: Any) -> fastness.RunResult:
    box, runtime = place
    preload = {"preload": ()} if runtime == "python" else {}
    return box.run(python if runtime == "python" else javascript, **{"functions": FUNCTIONS, **preload, **options})


def value(place: tuple[fastness.Sandbox, str], python: str, javascript: str, **options: Any) -> Any:
    return run(place, python, javascript, **options).raise_for_outcome().value


def records(run_id: str) -> list[Any]:
    return [row for row in reading.records(places()[0]) if row.run == run_id]


def test_functions_are_called_and_recorded(place: tuple[fastness.Sandbox, str]) -> None:
    """By position and by name; each call is counted, and has its two records under the run's own id."""
    result = run(
        place,
        "[price('tea'), price('tea', 2), price(item='cake', count=3), ctx.host.price('x')]",
        "[await price('tea'), await price('tea', 2), await price({item: 'cake', count: 3}), await ctx.host.price('x')]",
        tenant="ann",
    )
    assert result.raise_for_outcome().value == [2.5, 5.0, 12.0, 0.0]
    assert result.usage.calls == 4
    assert result.denials == ()
    rows = records(result.run_id)
    assert [(row.phase, row.plugin, row.owner, row.capability, row.op, row.decision) for row in rows] == [
        ("intent", "", "ann", "host", "price", "allowed"),
        ("outcome", "", "ann", "host", "price", "allowed"),
    ] * 4


def test_functions_have_signatures_and_documentation(place: tuple[fastness.Sandbox, str]) -> None:
    """What a program can read of a function is what the host wrote."""
    found = value(
        place,
        "import inspect\n[price.__name__, str(inspect.signature(price)).replace(\"'\", ''), inspect.getdoc(price)]",
        "[price.name, price.signature, price.doc]",
    )
    text = "The price of so many of an item.\n\nItems that nobody sells cost nothing."
    assert found == ["price", "(item: str, count: int = 1) -> float", text]


_EACH_PYTHON = """
found = {}
for function in (refuses, fails, breaks, gives_itself):
    try:
        found[function.__name__] = function('tea')
    except ctx.Refused as error:
        found[function.__name__] = [error.code, error.message]
found
"""
_EACH_JAVASCRIPT = """
const found = {};
for (const one of [refuses, fails, breaks, gives_itself]) {
  try { found[one.name] = await one('tea') } catch (error) { found[one.name] = [error.code, error.reason] }
}
found
"""


def test_errors_cross_as_data(place: tuple[fastness.Sandbox, str]) -> None:
    """A code and words that are meant for guests; nothing of the host, and no object of it."""
    result = run(place, _EACH_PYTHON, _EACH_JAVASCRIPT)
    assert result.raise_for_outcome().value == {
        "refuses": ["outside", "tea"],
        "fails": ["failed", "nobody sells tea"],
        "breaks": ["failed", "breaks failed (RuntimeError)"],
        "gives_itself": ["failed", "the answer cannot be given: $.items[1] is not plain data: function"],
    }
    (row,) = result.denials
    assert (row.capability, row.operation, row.code, row.layer) == ("host", "refuses", DenialCode.OUTSIDE, "broker")
    assert [row.code for row in records(result.run_id) if row.phase == "outcome"] == ["outside", "failed"] + [
        "failed"
    ] * 2


@pytest.mark.parametrize(
    ("python", "javascript", "words"),
    [
        ("price(5)", "await price(5)", "Expected `str`, got `int` - at `$.item`"),
        ("price('tea', 1.5)", "await price('tea', 1.5)", "Expected `int`, got `float` - at `$.count`"),
        ("price(b'tea')", "await price(new Uint8Array([116]))", "Expected `str`, got `bytes` - at `$.item`"),
    ],
)
def test_arguments_are_of_the_declared_types(
    place: tuple[fastness.Sandbox, str], python: str, javascript: str, words: str
) -> None:
    """Another type is refused with the place of it, and the function is not called."""
    called: list[Any] = []

    def price(item: str, count: int = 1) -> None:
        called.append(item)

    result = run(place, python, javascript, functions={"price": price})
    assert result.outcome.kind is OutcomeKind.GUEST_ERROR
    assert f"host.price: invalid: {words}" in result.outcome.detail
    assert called == []


def test_without_functions_there_is_nothing_to_call(place: tuple[fastness.Sandbox, str]) -> None:
    """The control: the next run in the same sandbox has neither the name nor a ctx."""
    assert value(place, "price('tea')", "await price('tea')") == 2.5
    python = "[name in globals() for name in ('price', 'ctx')]"
    javascript = "[typeof price !== 'undefined', typeof ctx !== 'undefined']"
    assert value(place, python, javascript, functions=None) == [False, False]
    assert value(place, python, javascript, functions={}) == [False, False]


def test_calls_are_counted_against_the_limit(place: tuple[fastness.Sandbox, str]) -> None:
    """One call more than a run may make ends it, and is not made."""
    made: list[int] = []

    def count(number: int) -> None:
        made.append(number)

    result = run(
        place,
        "for number in range(10): count(number)",
        "for (let number = 0; number < 10; number++) await count(number)",
        functions={"count": count},
        limits={"calls": 5},
    )
    assert result.outcome.kind is OutcomeKind.CALL_LIMIT
    assert (made, result.usage.calls) == ([0, 1, 2, 3, 4], 5)


def test_a_run_ends_while_a_function_does_not_come_back(place: tuple[fastness.Sandbox, str]) -> None:
    """The deadline ends guest and call; the record says, once the function has come back, that nobody waited for it."""
    hold = threading.Event()

    def block(number: int) -> None:
        hold.wait(30)

    began = time.monotonic()
    result = run(place, "block(1)", "await block(1)", functions={"block": block}, timeout=0.5)
    assert result.outcome.kind is OutcomeKind.TIMEOUT
    # The function blocks for half a minute.
    assert time.monotonic() - began < 15
    assert [row.code for row in records(result.run_id)] == [""]
    hold.set()
    ends = time.monotonic() + 20
    while len(records(result.run_id)) < 2 and time.monotonic() < ends:
        time.sleep(0.01)
    assert [(row.decision, row.code) for row in records(result.run_id)] == [("allowed", ""), ("allowed", "late")]


def test_a_session_keeps_its_functions(place: tuple[fastness.Sandbox, str]) -> None:
    """They are there in each execute, given to the session and not to one of its executes."""
    box, runtime = place
    python = runtime == "python"
    options: dict[str, Any] = {"functions": FUNCTIONS, **({"preload": ()} if python else {})}
    with box.session(**options) as session:
        first = session.execute("p = price('tea')" if python else "globalThis.p = await price('tea')")
        second = session.execute("p + price('cake')" if python else "p + await price('cake')")
        assert (first.outcome.kind, second.value) == (OutcomeKind.OK, 6.5)
        assert (first.usage.calls, second.usage.calls) == (1, 1)
        with pytest.raises(ConfigurationError, match="functions"):
            session.execute("1", functions=FUNCTIONS)


def test_functions_of_a_sandbox_are_there_in_each_run(place: tuple[fastness.Sandbox, str]) -> None:
    """As any other default; those of a run stand in their place."""
    box, runtime = place
    tier = box.probe().tier
    preload = {"preload": ()} if runtime == "python" else {}
    code = "price('tea')" if runtime == "python" else "await price('tea')"
    with fastness.Sandbox(tier=tier, runtime=runtime, functions=FUNCTIONS, **preload) as own:
        assert own.run(code).raise_for_outcome().value == 2.5

        def price(item: str) -> str:
            return "free"

        assert own.run(code, functions={"price": price}).raise_for_outcome().value == "free"


def test_an_async_program(place: tuple[fastness.Sandbox, str]) -> None:
    """An async function runs in the program's own loop, while the run waits in it; a plain one in another thread."""
    box, runtime = place
    tier = box.probe().tier
    seen: list[Any] = []

    async def later(item: str) -> str:
        await asyncio.sleep(0.001)
        seen.append(asyncio.get_running_loop())
        return item.upper()

    async def program() -> tuple[Any, Any]:
        here = asyncio.get_running_loop()
        preload = {"preload": ()} if runtime == "python" else {}
        async with fastness.AsyncSandbox(tier=tier, runtime=runtime, **preload) as own:
            code = "[later('a'), price('tea')]" if runtime == "python" else "[await later('a'), await price('tea')]"
            result = await own.run(code, functions={"later": later, "price": price})
        return here, result.raise_for_outcome().value

    here, found = asyncio.run(program())
    assert found == ["A", 2.5]
    assert seen == [here]


def test_awaited_calls_go_on_together(place: tuple[fastness.Sandbox, str]) -> None:
    """Calls of an async program in the guest are in flight at once."""
    both = threading.Barrier(2, timeout=20)

    def meet(number: int) -> int:
        both.wait()
        return number

    python = "import asyncio\nasync def main():\n  return await asyncio.gather(meet(1), meet(2))\nasyncio.run(main())"
    assert value(place, python, "await Promise.all([meet(1), meet(2)])", functions={"meet": meet}) == [1, 2]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"functions": [price]}, "functions"),
        ({"functions": {"price": lambda item: 1}}, "functions"),
        ({"functions": {"p-q": price}}, "functions"),
        ({"functions": {"ctx": price}}, "functions"),
        ({"functions": {"price": None}}, "functions"),
    ],
)
def test_what_cannot_be_a_function_is_refused(options: dict[str, Any], field: str) -> None:
    """Before anything runs, in a run and in the defaults of a sandbox."""
    with pytest.raises(ConfigurationError, match=field):
        fastness.run("1", **options)
    with pytest.raises(ConfigurationError, match=field):
        fastness.Sandbox(**options)


def test_commands_have_no_functions() -> None:
    """A program knows nothing to call, and that is said; defaults of a sandbox are for its other runs."""
    with pytest.raises(ConfigurationError, match="functions"):
        fastness.run(command=["true"], tier="isolated", functions=FUNCTIONS)


def test_the_policy_digest_tells_of_functions() -> None:
    """What a run could call is part of what it was allowed."""
    house.require("python guest")
    plain = fastness.run("1", preload=())
    with_one = fastness.run("1", preload=(), functions={"price": price})
    with_two = fastness.run("1", preload=(), functions={"price": price, "fails": fails})
    assert len({plain.policy_digest, with_one.policy_digest, with_two.policy_digest}) == 3


def test_unsandboxed_runs_have_no_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is brokered where nothing is contained."""
    monkeypatch.setenv("FASTNESS_ALLOW_UNSANDBOXED", "1")
    with pytest.raises(ConfigurationError, match="sandbox"):
        fastness.run("1", tier="local", functions=FUNCTIONS)


def test_where_nothing_can_be_recorded_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that others may write to has no trail, and so no run with functions."""
    house.require("worker tier")
    home = tmp_path / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    with pytest.raises((BackendError, ConfigurationError)):
        fastness.run("1", tier="worker", functions=FUNCTIONS)


def test_the_example() -> None:
    """What ``examples/functions.py`` prints is what its code did with this program's own functions."""
    house.require("python guest")
    house.require("javascript guest")
    example = Path(__file__).parents[2] / "examples" / "functions.py"
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout.endswith(
        "refused: 1000 are too many at once\n"
        "ordered: {'cake': 5, 'milk': 8} in 6 calls\n"
        "in all: 25\n"
        "in this program: {'tea': 12, 'cake': 5, 'milk': 8}\n"
    )
    assert "def order(item: str, count: int = 1) -> int:\n" in done.stdout
