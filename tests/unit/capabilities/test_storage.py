"""The capability ``storage``: what is kept, for whom, how much, and by how many processes at once."""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import house
from fastness.capabilities.storage import KEY_OVERHEAD, SPEC, Storage, StorageScope
from fastness.capability import CallContext
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.runs import DenialCode


def context(quota: int = 1 << 20, **fields: Any) -> CallContext:
    scope = StorageScope(quota=quota, value_bytes=fields.pop("value_bytes", 1 << 20))
    given = {"plugin": "p", "owner": "o", "run": "r", "deadline": time.monotonic() + 60, "spent": {}}
    return CallContext(scope=scope, **{**given, **fields})


def ask(storage: Storage, name: str, of: CallContext | None = None, **arguments: Any) -> Any:
    operation = SPEC.operation(name)
    assert operation is not None
    decoded = msgspec.convert(arguments, operation.arguments, strict=True, builtin_types=(bytes,))
    return asyncio.run(storage.call(name, decoded, of or context()))


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    made = Storage(str(tmp_path / "storage.db"))
    yield made
    asyncio.run(made.aclose())


def used(storage: Storage) -> int:
    """What the database says is in use, and what it really is: the same."""
    path = storage._database.path
    with sqlite3.connect(path) as connection:
        (kept,) = connection.execute("SELECT coalesce(sum(bytes), 0) FROM used").fetchone()
        (real,) = connection.execute(
            f"SELECT coalesce(sum(length(key) + length(value) + {KEY_OVERHEAD}), 0) FROM items"
        ).fetchone()
    connection.close()
    assert kept == real
    return int(kept)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**70),
        1.5,
        -0.0,
        math.inf,
        "",
        "text",
        "\ud800",
        b"",
        b"\x00\xff" * 100,
        [],
        [1, [b"x"]],
        {"$": [1], "a": {"b": None}},
    ],
    ids=repr,
)
def test_values_come_back_as_they_were(value: object, storage: Storage) -> None:
    """Any plain data, and its type."""
    ask(storage, "put", key="k", value=value)
    back = ask(storage, "get", key="k")
    assert back == value
    assert type(back) is type(value)


def test_keys(storage: Storage) -> None:
    """Missing, replaced, deleted and listed in order, by prefix and from one on."""
    assert ask(storage, "get", key="gone") is None
    assert ask(storage, "delete", key="gone") is False
    for key in ("b", "a/2", "a/1", "a", "ä", "a\0x"):
        ask(storage, "put", key=key, value=key)
    assert ask(storage, "list") == {"keys": ["a", "a\0x", "a/1", "a/2", "b", "ä"], "more": False}
    assert ask(storage, "list", prefix="a/")["keys"] == ["a/1", "a/2"]
    assert ask(storage, "list", after="a/1")["keys"] == ["a/2", "b", "ä"]
    ask(storage, "put", key="b", value="other")
    assert ask(storage, "get", key="b") == "other"
    assert ask(storage, "delete", key="b") is True
    assert ask(storage, "get", key="b") is None


def test_many_keys_are_listed_in_pages(storage: Storage) -> None:
    """A thousand at a time; all of them, each once."""
    for number in range(1200):
        ask(storage, "put", key=f"{number:05}", value=None)
    first = ask(storage, "list")
    assert (len(first["keys"]), first["more"]) == (1000, True)
    rest = ask(storage, "list", after=first["keys"][-1])
    assert (len(rest["keys"]), rest["more"]) == (200, False)
    assert sorted({*first["keys"], *rest["keys"]}) == [f"{number:05}" for number in range(1200)]


def test_nobody_sees_what_is_anothers(storage: Storage) -> None:
    """Of four plugins and owners, whose names run together in every way, each sees its own value and deletes its own."""
    everybody = [("p", "o"), ("p", "oo"), ("po", "o"), ("", "po"), ("p%", "_"), ("o", "p")]
    for plugin, owner in everybody:
        ask(storage, "put", context(plugin=plugin, owner=owner), key="k", value=f"{plugin}|{owner}")
    for plugin, owner in everybody:
        of = context(plugin=plugin, owner=owner)
        assert ask(storage, "get", of, key="k") == f"{plugin}|{owner}"
        assert ask(storage, "list", of)["keys"] == ["k"]
    ask(storage, "delete", context(plugin="p", owner="o"), key="k")
    assert [ask(storage, "get", context(plugin=p, owner=o), key="k") for p, o in everybody] == [
        None, "p|oo", "po|o", "|po", "p%|_", "o|p",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["plugin", "owner", "Owner", "as_owner"])
def test_a_guest_has_no_words_for_anothers(name: str, storage: Storage) -> None:
    """An argument that would name somebody is no argument."""
    with pytest.raises(msgspec.ValidationError):
        ask(storage, "get", key="k", **{name: "bob"})


@pytest.mark.parametrize("key", ["'; DROP TABLE items; --", "%", "_", "k' OR '1'='1", "*"])
def test_keys_are_only_keys(key: str, storage: Storage) -> None:
    """No key is read as anything else."""
    ask(storage, "put", key="k", value=1)
    assert ask(storage, "get", key=key) is None
    ask(storage, "put", key=key, value=2)
    assert (ask(storage, "get", key=key), ask(storage, "get", key="k")) == (2, 1)
    assert ask(storage, "list", prefix=key)["keys"] == [key]


# the quota


def test_many_tiny_keys(storage: Storage) -> None:
    """Each key costs what its row takes, so that a quota of bytes is one of keys too; the control counts as if not."""
    quota = 10_000
    stored = 0
    with pytest.raises(QuotaExceeded):
        for number in range(quota):
            ask(storage, "put", context(quota), key=f"{number}", value=b"")
            stored += 1
    assert stored < quota / KEY_OVERHEAD
    assert used(storage) <= quota
    naive = sum(len(f"{number}") for number in range(stored + 1))
    assert naive < quota / 10


def test_exactly_the_quota(storage: Storage) -> None:
    """As much as is allowed and not a byte more; what is replaced or deleted gives its room back."""
    quota = 2 * (KEY_OVERHEAD + 1) + 100
    of = context(quota)
    ask(storage, "put", of, key="a", value=b"x" * 60)
    with pytest.raises(QuotaExceeded):
        ask(storage, "put", of, key="b", value=b"x" * 41)
    assert ask(storage, "get", of, key="b") is None
    ask(storage, "put", of, key="b", value=b"x" * 40)
    assert used(storage) == quota
    ask(storage, "put", of, key="a", value=b"x" * 50)
    ask(storage, "put", of, key="b", value=b"x" * 50)
    ask(storage, "delete", of, key="a")
    assert used(storage) == KEY_OVERHEAD + 51


def test_a_quota_that_was_lowered(storage: Storage) -> None:
    """What is there stays and can be read, replaced by less, and deleted; nothing may grow."""
    ask(storage, "put", key="a", value=b"x" * 500)
    small = context(100)
    assert ask(storage, "get", small, key="a") == b"x" * 500
    with pytest.raises(QuotaExceeded):
        ask(storage, "put", small, key="a", value=b"x" * 501)
    with pytest.raises(QuotaExceeded):
        ask(storage, "put", small, key="b", value=b"")
    ask(storage, "put", small, key="a", value=b"x" * 400)
    assert ask(storage, "delete", small, key="a") is True


def test_each_owner_has_a_quota(storage: Storage) -> None:
    """One owner's keys take nothing from another's."""
    quota = KEY_OVERHEAD + 10
    for owner in ("ann", "bob"):
        ask(storage, "put", context(quota, owner=owner), key="k", value=b"x" * 9)
    with pytest.raises(QuotaExceeded):
        ask(storage, "put", context(quota, owner="ann"), key="l", value=b"")


def test_sizes(storage: Storage) -> None:
    """A value as large as allowed is kept, a larger one refused, whatever it is made of."""
    of = context(value_bytes=100)
    ask(storage, "put", of, key="k", value=b"x" * 100)
    ask(storage, "put", of, key="k", value="x" * 98)
    deep: Any = []
    for _ in range(1000):
        deep = [deep]
    for value in (b"x" * 101, "x" * 99, "x" * 1_000_000, [0] * 60, "ä" * 50):
        with pytest.raises(Denied) as caught:
            ask(storage, "put", of, key="k", value=value)
        assert caught.value.code is DenialCode.TOO_LARGE
    for value in (deep, object(), {1: 2}, {"f": len}):
        with pytest.raises((AdapterError, Denied)):
            ask(storage, "put", of, key="k", value=value)
    assert ask(storage, "get", key="k") == "x" * 98


def test_nothing_by_default(storage: Storage) -> None:
    """The scope of all defaults keeps nothing and reads nothing."""
    of = context(0)
    for name, more in [
        ("get", {"key": "k"}),
        ("put", {"key": "k", "value": 1}),
        ("delete", {"key": "k"}),
        ("list", {}),
    ]:
        with pytest.raises(Denied) as caught:
            ask(storage, name, of, **more)
        assert caught.value.code is DenialCode.NOT_GRANTED
    assert SPEC.meet(StorageScope(), StorageScope(quota=5)) is None


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.binary(max_size=300) | st.none(), st.sampled_from(["o", "p"])), max_size=25
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=house.examples(30))
def test_the_count_is_right(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bytes | None, str]]
) -> None:
    """After any puts and deletes, what is kept is that of a dict, what is counted is what is there, within the quota."""
    storage = Storage(str(tmp_path_factory.mktemp("storage") / "storage.db"))
    quota = 900
    model: dict[str, dict[str, bytes]] = {"o": {}, "p": {}}
    for key, value, owner in steps:
        of, mine = context(quota, owner=owner), model[owner]
        if value is None:
            assert ask(storage, "delete", of, key=key) is (mine.pop(key, None) is not None)
            continue
        try:
            ask(storage, "put", of, key=key, value=value)
            mine[key] = value
        except QuotaExceeded:
            grown = {**mine, key: value}
            assert sum(len(k) + len(v) + KEY_OVERHEAD for k, v in grown.items()) > quota
    for owner, mine in model.items():
        assert {k: ask(storage, "get", context(owner=owner), key=k) for k in "abc"} == {k: mine.get(k) for k in "abc"}
        assert sum(len(k) + len(v) + KEY_OVERHEAD for k, v in mine.items()) <= quota
    if steps:
        used(storage)
    asyncio.run(storage.aclose())


# processes


WRITER = """
import asyncio, sys, time
from fastness.capabilities.storage import Put, Storage, StorageScope
from fastness.capability import CallContext
from fastness.errors import QuotaExceeded
storage = Storage(sys.argv[1])
def context():
    return CallContext(plugin="p", owner="o", run="r", scope=StorageScope(quota=int(sys.argv[3])), deadline=time.monotonic() + 60, spent={})
async def main():
    for number in range(int(sys.argv[4])):
        try:
            await storage.call("put", Put(key=f"{sys.argv[2]}-{number % 50}", value=[number] * 100), context())
        except QuotaExceeded:
            print("quota")
        sys.stdout.write(f"{number}\\n"); sys.stdout.flush()
asyncio.run(main())
"""


def writer(storage: Storage, name: str, quota: int, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WRITER, storage._database.path, name, str(quota), str(count)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(house.SOURCE)}, stdout=subprocess.PIPE)


def test_two_processes(storage: Storage) -> None:
    """Both write at once to a file that is not there yet: nothing is lost, and one quota holds for both."""
    writers = [writer(storage, name, 1 << 20, 100) for name in ("a", "b")]
    assert [process.communicate(timeout=120)[0].count(b"\n") for process in writers] == [100, 100]
    assert len(ask(storage, "list")["keys"]) == 100
    used(storage)
    quota = used(storage) + 500
    writers = [writer(storage, name, quota, 60) for name in ("c", "d")]
    assert b"quota" in b"".join(process.communicate(timeout=120)[0] for process in writers)
    assert used(storage) <= quota


def test_a_killed_writer(storage: Storage) -> None:
    """Whenever it is killed, each value is whole, what was acknowledged is there, and the count is right."""
    for round_ in range(6):
        process = writer(storage, f"k{round_}", 1 << 24, 1_000_000)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.05 * round_)
        process.kill()
        heard = process.stdout.read().split(b"\n")[:-1]
        process.wait()
        process.stdout.close()
        last = int(heard[-1]) if heard else 0
        value = ask(storage, "get", key=f"k{round_}-{last % 50}")
        assert value is not None
        assert value[0] >= last
        assert value == [value[0]] * 100
        used(storage)


def test_a_held_database(storage: Storage) -> None:
    """A call waits for another process without holding up the loop, ends with its time, and is done when it is free."""
    ask(storage, "put", key="k", value=1)
    holder = sqlite3.connect(storage._database.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(AdapterError):
        ask(storage, "put", context(deadline=time.monotonic() + 0.05), key="k", value=2)
    # Readers are in nobody's way.
    assert ask(storage, "get", key="k") == 1

    async def both() -> object:
        put = asyncio.ensure_future(storage.call("put", SPEC.operation("put").arguments(key="k", value=3), context()))  # type: ignore[union-attr]
        await asyncio.sleep(0.05)
        assert not put.done()
        holder.execute("ROLLBACK")
        return await put

    asyncio.run(both())
    holder.close()
    assert ask(storage, "get", key="k") == 3


def test_a_damaged_value(storage: Storage) -> None:
    """A value that somebody changed in the file is an error and not something else."""
    ask(storage, "put", key="k", value={"a": 1})
    with sqlite3.connect(storage._database.path) as connection:
        connection.execute("UPDATE items SET value = X'7B7B'")
    connection.close()
    with pytest.raises(AdapterError):
        ask(storage, "get", key="k")


def test_it_is_private(storage: Storage) -> None:
    """Its owner's alone."""
    ask(storage, "put", key="k", value=1)
    for path in Path(storage._database.path).parent.glob("storage.db*"):
        assert path.stat().st_mode & 0o077 == 0
