"""
Signals between plugins, for attempts that go by the broker; and a careless host that passes on whatever it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastness.attack import brokering
from fastness.capabilities.signals import Signals, SignalsScope, shown

if TYPE_CHECKING:
    from fastness.attack.arena import Arena
    from fastness.attack.outside import Bare

#: By owner, the plugins that receive signals, and how far.
Receivers = Mapping[str, Sequence[tuple[str, SignalsScope]]]

#: What an attempt may send and receive.
SCOPE = SignalsScope(publish=("mine.*",), subscribe=("mine.*",))

#: Keeps signals in one table, with whatever words about them somebody gave; anybody may take any.
CARELESS = r"""
class _Signals:
    def _base(self):
        base = sqlite3.connect(DATABASE)
        base.execute('PRAGMA synchronous=OFF')
        base.execute('CREATE TABLE IF NOT EXISTS signals (topic TEXT, data TEXT, owner TEXT, sender TEXT)')
        return base

    def publish(self, topic, data=None, owner=None, plugin=None, **more):
        _noted(f'publish {topic} {data}')
        with self._base() as base:
            row = (topic.split('\n')[-1], json.dumps(data), owner or OWNER, plugin or PLUGIN)
            base.execute('INSERT INTO signals VALUES (?, ?, ?, ?)', row)
        return {'queued': 1, 'dropped': 0}

    def take(self, most=10, owner=None, topic='%', **more):
        asked = (owner or OWNER, topic)
        with self._base() as base:
            found = base.execute('SELECT topic, data FROM signals WHERE owner = ? AND topic LIKE ?', asked).fetchall()
            base.execute('DELETE FROM signals WHERE owner = ? AND topic LIKE ?', asked)
        return {'signals': [{'topic': topic, 'data': json.loads(data)} for topic, data in found], 'dropped': 0}

ctx.signals = _Signals()
"""


class Broker(brokering.Broker):
    """A broker whose plugins may send signals to these receivers; ``signals`` is the adapter."""

    def __init__(self, arena: Arena, receivers: Receivers) -> None:
        self.signals = Signals(str(arena.folder / "broker" / "signals.db"), lambda owner: receivers.get(owner, ()))
        super().__init__(arena, more={"signals": self.signals})

    def waiting(self, owner: str, plugin: str) -> list[dict[str, Any]]:
        """All that waits for a plugin, which waits no more."""
        found = [self.signals.claim(number) for number, _ in self.signals.waiting(owner, plugin)]
        return [shown(one) for one in found if one is not None]

    def __enter__(self) -> Broker:
        super().__enter__()
        return self


def control(arena: Arena, code: str, **facts: Any) -> Bare:
    """The same text before a careless host."""
    return brokering.control(arena, CARELESS + code, **{"DATABASE": str(arena.folder / "careless.db"), **facts})


def wants(
    *, publish: Sequence[str] = (), subscribe: Sequence[str] = (), handlers: Mapping[str, str] | None = None
) -> str:
    """A wish for signals, as it stands in a manifest; ``handlers`` are methods by topic."""
    named = ", ".join(f'{{topic = "{topic}", method = "{method}"}}' for topic, method in (handlers or {}).items())
    lists = [f"{name} = {list(given)}" for name, given in (("publish", publish), ("subscribe", subscribe))]
    lines = ["[[capabilities]]", 'kind = "signals"', *lists, f"handlers = [{named}]", 'reason = "To tell."']
    return "\n".join(lines) + "\n"
