"""
The blocking host of plugins: the same coroutines as the asynchronous one, run to their end in the calling thread.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from fastness.capabilities._schedule_store import Scheduled
from fastness.capability import Scope, Spec
from fastness.grant import Ceiling, Grant
from fastness.metering.ledger import Left, Used
from fastness.plugins.host import AsyncPluginHost
from fastness.plugins.shown import Revocation, Shown
from fastness.plugins.signalling import Delivery, Heard, Received, Sent
from fastness.plugins.states import Known
from fastness.runs import RunResult
from fastness.waiting import ThreadWaiting, drive

if TYPE_CHECKING:
    from fastness.capabilities.signals import Queue

__all__ = ["PluginHost"]


class PluginHost:
    """
    The blocking form of ``AsyncPluginHost``; same arguments.  Threads may share it.

    Use as ``with``, or call :meth:`close`.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._inner = AsyncPluginHost(_waiting=ThreadWaiting(), **options)
        self._pid = os.getpid()
        _all.add(self)

    def _host(self) -> AsyncPluginHost:
        if self._pid != os.getpid():
            # Guests belong to the process that started them; a forked child starts its own.
            self._inner = AsyncPluginHost(_waiting=ThreadWaiting(), **self._options)
            self._pid = os.getpid()
        return self._inner

    @property
    def ceiling(self) -> Ceiling:
        """The most that plugins of this host may have."""
        return self._host().ceiling

    @property
    def specs(self) -> Mapping[str, Spec]:
        """Every capability that plugins of this host may ask for, by kind."""
        return self._host().specs

    def plugins(self) -> list[Known]:
        """All plugins, by id."""
        return self._host().plugins()

    def show(self, plugin: str) -> Shown:
        """What a plugin is and asks for, and what stands."""
        return self._host().show(plugin)

    def install(self, path: str | os.PathLike[str], *, source: str = "local", upgrade: bool = False) -> Shown:
        """Copy a plugin's files and note what it asks for; see ``AsyncPluginHost.install``."""
        return drive(self._host().install(path, source=source, upgrade=upgrade))

    def grant(
        self,
        plugin: str,
        *,
        owner: str,
        allowed: Iterable[Scope | str] | None = None,
        provides: Iterable[str] | None = None,
        lookups: Iterable[str] | None = None,
        declares: Iterable[str] | None = None,
        all: bool = False,
        expires: float | None = None,
        granted_by: str = "",
        digest: str | None = None,
    ) -> Grant:
        """Let an owner allow a plugin something; see ``AsyncPluginHost.grant``."""
        return drive(
            self._host().grant(
                plugin,
                owner=owner,
                allowed=allowed,
                provides=provides,
                lookups=lookups,
                declares=declares,
                all=all,
                expires=expires,
                granted_by=granted_by,
                digest=digest,
            )
        )

    def revoke(self, plugin: str, *, owner: str | None = None) -> Revocation:
        """End the grant of an owner, or of all; see ``AsyncPluginHost.revoke``."""
        return drive(self._host().revoke(plugin, owner=owner))

    def enable(self, plugin: str) -> Known:
        """Let a disabled plugin be called again."""
        return drive(self._host().enable(plugin))

    def disable(self, plugin: str) -> Known:
        """Let nobody call a plugin; grants are kept."""
        return drive(self._host().disable(plugin))

    def quarantine(self, plugin: str, why: str = "the operator said so") -> Known:
        """Let nobody call a plugin, for a reason."""
        return drive(self._host().quarantine(plugin, why))

    def remove(self, plugin: str) -> Known:
        """End a plugin, its grants and what was kept for it."""
        return drive(self._host().remove(plugin))

    def set_tier(self, plugin: str, tier: str, trust: str = "") -> Known:
        """Choose the tier of one plugin; see ``AsyncPluginHost.set_tier``."""
        return drive(self._host().set_tier(plugin, tier, trust))

    def invoke(
        self,
        plugin: str,
        method: str,
        args: Mapping[str, Any] | None = None,
        *,
        owner: str,
        timeout: float | None = None,
        on_event: Callable[[str, Any], None] | None = None,
    ) -> RunResult:
        """Call a method of a plugin; see ``AsyncPluginHost.invoke``."""
        return drive(self._host().invoke(plugin, method, args, owner=owner, timeout=timeout, on_event=on_event))

    def usage(self, *, plugin: str | None = None, owner: str | None = None, since: float = 0.0) -> list[Used]:
        """What plugins used for owners; see ``AsyncPluginHost.usage``."""
        return self._host().usage(plugin=plugin, owner=owner, since=since)

    def quotas(self, plugin: str, owner: str) -> list[Left]:
        """How far quotas are used up; see ``AsyncPluginHost.quotas``."""
        return self._host().quotas(plugin, owner)

    @property
    def currency(self) -> str:
        """What the operator's prices are in; empty where nobody said so."""
        return self._host().currency

    def export_memory(self, owner: str, *, plugin: str | None = None) -> list[dict[str, Any]]:
        """All notes that were kept for an owner; see ``AsyncPluginHost.export_memory``."""
        return drive(self._host().export_memory(owner, plugin=plugin))

    def erase_memory(self, owner: str, *, plugin: str | None = None) -> int:
        """Forget all notes that were kept for an owner; see ``AsyncPluginHost.erase_memory``."""
        return drive(self._host().erase_memory(owner, plugin=plugin))

    def publish(self, topic: str, data: Any = None, *, owner: str, after: Heard | None = None) -> Sent:
        """Send a signal to the plugins of an owner; see ``AsyncPluginHost.publish``."""
        return drive(self._host().publish(topic, data, owner=owner, after=after))

    def signals(self, owner: str, topics: Iterable[str] = ("*",), most: int = 100) -> Received:
        """Take what plugins of an owner published; see ``AsyncPluginHost.signals``."""
        return drive(self._host().signals(owner, topics, most))

    def deliver(self, *, owner: str | None = None, most: int = 1000) -> list[Delivery]:
        """Hand over what waits for methods of plugins; see ``AsyncPluginHost.deliver``."""
        return drive(self._host().deliver(owner=owner, most=most))

    def serve_signals(self, stop: threading.Event | None = None) -> None:
        """Hand over signals as they come, in this thread; see ``AsyncPluginHost.serve_signals``."""
        drive(self._host().serve_signals(stop))

    def signal_queues(self, owner: str | None = None) -> list[Queue]:
        """What waits, and what was dropped; see ``AsyncPluginHost.signal_queues``."""
        return self._host().signal_queues(owner)

    def erase_signals(self, owner: str, *, plugin: str | None = None) -> int:
        """Forget what waits for an owner; see ``AsyncPluginHost.erase_signals``."""
        return drive(self._host().erase_signals(owner, plugin=plugin))

    def schedules(self, *, plugin: str | None = None, owner: str | None = None) -> list[Scheduled]:
        """What stands on the schedule; see ``AsyncPluginHost.schedules``."""
        return self._host().schedules(plugin=plugin, owner=owner)

    def cancel_schedule(self, plugin: str, id: int, *, owner: str) -> bool:
        """Take off what a plugin scheduled; see ``AsyncPluginHost.cancel_schedule``."""
        return drive(self._host().cancel_schedule(plugin, id, owner=owner))

    def start_schedule(self) -> None:
        """Call what plugins scheduled when it is due; see ``AsyncPluginHost.start_schedule``."""
        self._host().start_schedule()

    def data(self, plugin: str, *, owner: str) -> dict[str, bytes]:
        """The files of a plugin of ``data``; see ``AsyncPluginHost.data``."""
        return drive(self._host().data(plugin, owner=owner))

    def call(self, plugin: str, operation: str, args: Mapping[str, Any] | None = None, *, owner: str) -> Any:
        """Do one thing under the policy of a plugin of ``data``; see ``AsyncPluginHost.call``."""
        return drive(self._host().call(plugin, operation, args, owner=owner))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every guest and box.  Plugins stay installed.  Idempotent."""
        if self._pid == os.getpid():
            drive(self._inner.aclose())
            _all.discard(self)


# Weak: a host that nobody holds any more must not live, with its guests, until the process ends.
_all: weakref.WeakSet[PluginHost] = weakref.WeakSet()


def _close_all() -> None:
    """End guests before the interpreter does."""
    for host in list(_all):
        with contextlib.suppress(Exception):  # at exit there is nobody to tell
            host.close()


# Threads are joined before atexit handlers run; this comes before both, while threads can still be started.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # the hook that concurrent.futures uses
