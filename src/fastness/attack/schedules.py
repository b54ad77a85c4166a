"""
Schedules for attempts that go by the broker or by a host of plugins; and a careless one that believes what it is told.

Nothing here waits for long: what an attempt schedules is due within a few tenths of a second.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastness.attack import brokering, hosting
from fastness.capabilities._schedule_store import Due, Store
from fastness.capabilities.schedule import Schedule, ScheduleScope
from fastness.wire import values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastness.attack.arena import Arena
    from fastness.attack.outside import Bare
    from fastness.plugins.scheduling import Fired

#: How many may stand in an attempt, and the least seconds between two calls of one.
STANDING, INTERVAL_S = 20, 60
SCOPE = ScheduleScope(standing=STANDING, interval_s=INTERVAL_S)
WANTS = (
    '[[capabilities]]\nkind = "schedule"\nstanding = {standing}\ninterval_s = 60.0\nreason = "To go on."\n'
    + hosting.STORAGE
)

#: Keeps whatever it is told in a file; ``host.tick`` calls what has come due since it was called last, by its clock.
CARELESS = r"""
class _Schedule:
    rows = []

    def _keep(self):
        with open(DATABASE + '.schedule', 'w') as file:
            json.dump(self.rows, file, default=str)

    def _put(self, when, every, method, args, owner=None, plugin=None, **more):
        if isinstance(when, str):
            import datetime
            when = datetime.datetime.fromisoformat(when).timestamp()
        row = {'id': len(self.rows) + 1, 'when': when, 'every': every, 'method': method, 'args': args}
        self.rows.append({**row, 'owner': owner or OWNER, 'plugin': plugin or PLUGIN, 'gone': False, **more})
        self._keep()
        return len(self.rows)

    def at(self, when, method, args={}, **more):
        return self._put(when, None, method, args, **more)

    def every(self, seconds, method, args={}, first=None, **more):
        return self._put(first or time.time() + seconds, seconds, method, args, **more)

    def cancel(self, id, **more):
        self.rows[id - 1]['gone'] = True
        self._keep()
        return True

    def list(self, owner=None, **more):
        whose = owner or OWNER
        return {'schedules': [row for row in self.rows if row['owner'] == whose and not row['gone']]}

ctx.schedule = _Schedule()
"""
#: Beside the careless ``host``: it looks at what is due, and at nothing else.
TICK = r"""
host.ticked, host.fired = 0, 0

def tick(now):
    last, host.ticked = host.ticked, now
    for row in list(ctx.schedule.rows):
        if last < row['when'] <= now and host.fired < 100:
            host.fired += 1
            host.granted.add('plugin')
            host.invoke('plugin', row['method'], **row['args'])

host.tick = tick
"""


def broker(arena: Arena) -> brokering.Broker:
    """A broker whose plugins have the method ``work``."""
    folder = arena.folder / "broker"
    return brokering.Broker(
        arena, more={"schedule": Schedule(str(folder / "schedule.db"), lambda plugin: ("work", "other"))}
    )


def standing(made: brokering.Broker) -> list[tuple[str, str]]:
    """Plugin and owner of all that stands."""
    store = Store(str(made.folder / "schedule.db"))
    try:
        return [(one.plugin, one.owner) for one in store.standing()]
    finally:
        store.close()


def arguments(made: brokering.Broker) -> list[Any]:
    """What whatever stands would be called with, as if all of it were due."""
    store = Store(str(made.folder / "schedule.db"))
    try:
        found: list[Due] = store.claim("attack", 1 << 60, most=1000, each=1000, busy={}, grace=1 << 61)[0]
        return [values.decode(one.args) for one in found]
    finally:
        store.close()


def control(arena: Arena, code: str, **facts: Any) -> Bare:
    """The same text before a careless host."""
    given = {"DATABASE": str(arena.folder / "careless.db"), **facts}
    return brokering.control(arena, CARELESS + code, **given)


def careless_rows(arena: Arena) -> list[dict[str, Any]]:
    """What stands with the careless host."""
    path = arena.folder / "careless.db.schedule"
    rows = json.loads(path.read_text()) if path.exists() else []
    return [row for row in rows if not row["gone"]]


def careless(arena: Arena, steps: str, plugins: Mapping[str, hosting.Files], **facts: Any) -> Bare:
    """These steps with the careless host of plugins, which has a clock that it is told."""
    return hosting.careless(arena, CARELESS + TICK + steps, plugins=plugins, **facts)


class Timed:
    """A home whose host calls what is due; ``fired`` is what it told of that."""

    def __init__(self, arena: Arena) -> None:
        self.home = hosting.Home(arena)
        self.fired: list[Fired] = []
        self._arena = arena
        self.home.host._on_fired = self._told

    def install(self, code: str, *methods: str, standing: int = STANDING, **how: Any) -> None:
        """The plugin, with ``schedule`` and ``storage`` among its wishes."""
        more = WANTS.format(standing=standing)
        toml = hosting.manifest(*methods, more=how.pop("more", "") + more, version=how.pop("version", "1.0.0"))
        self.home.install({"plugin.toml": toml, "plugin.py": code}, **how)

    def start(self) -> None:
        """Have what is due called from now on."""
        self.home.host.start_schedule()

    def _told(self, fired: Fired) -> None:
        # They run in a host of their own.
        if fired.result is not None:
            self._arena.came(fired.result)
        self.fired.append(fired)

    def wait(self, count: int = 1) -> None:
        """Until so many were called, or were not and that was told.  Raises RuntimeError."""
        hosting.until(lambda: len(self.fired) >= count)

    def __enter__(self) -> Timed:
        return self

    def __exit__(self, *of: object) -> None:
        self.home.__exit__(*of)
