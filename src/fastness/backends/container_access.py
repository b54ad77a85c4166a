"""
The engine of one sandbox and the images that it has, looked for when they are first needed.
"""

from __future__ import annotations

import logging
import os
import threading
import time

from fastness._container import containers, image, probe
from fastness._container.deadline import Deadline
from fastness._container.faults import EngineFault
from fastness._container.image import Image
from fastness._container.probe import Engine
from fastness.errors import ConfigurationError, TierUnavailable
from fastness.tier import Guarantee, ProbeFailure, Tier

DOCTOR = "run: fastness doctor"
#: Seconds after which an engine is asked again whether it is there before it is asked for more.
_FRESH_S = 2.0


class Access:
    """
    ``named`` is an engine's address, None for the one that the environment names or the first usual one that answers.

    ``default_image`` is that of runs that name none, ``runtime`` one of the engine's, empty for its own; ``found`` is
    the engine once it was met.  Any thread may use it.
    """

    def __init__(self, named: str | None, default_image: str | None, runtime: str | None = None) -> None:
        self._named = named
        self.runtime = runtime or os.environ.get("FASTNESS_ENGINE_RUNTIME") or ""
        self.default_image = default_image or os.environ.get("FASTNESS_IMAGE") or image.DEFAULT
        self.found: Engine | None = None
        self._seen = 0.0
        self._images: dict[str, Image] = {}
        self._lock = threading.Lock()

    def engine(self) -> Engine:
        """
        The engine, asked whether it is there unless it has just answered.  Blocks for at most eight seconds.

        Raises TierUnavailable.
        """
        try:
            with self._lock:
                found, fresh = self.found, time.monotonic() - self._seen < _FRESH_S
            if found is None:
                found = probe.reach(os.environ, self._named)
                if wrong := (*probe.refusals(found), *self._without_runtime(found)):
                    raise TierUnavailable(Tier.CONTAINER.value, wrong)
                self._sweep(found)
            elif not fresh:
                deadline = Deadline(probe.PROBE_S, f"the engine at {found.endpoint}")
                found.client().call("GET", "/_ping", deadline, cap=1 << 12)
        except EngineFault as fault:
            raise unavailable(fault) from None
        with self._lock:
            self.found, self._seen = found, time.monotonic()
        return found

    def _without_runtime(self, engine: Engine) -> tuple[ProbeFailure, ...]:
        if not self.runtime or self.runtime in engine.runtimes:
            return ()
        cause = f"{engine.kind} {engine.version}: it has no runtime {self.runtime!r}, but {', '.join(engine.runtimes)}"
        remedy = "install it and name it in the engine's settings, or unset FASTNESS_ENGINE_RUNTIME"
        return (ProbeFailure(guarantee="all", cause=cause, remedy=remedy),)

    @staticmethod
    def _sweep(engine: Engine) -> None:
        try:
            containers.sweep(engine)
        except EngineFault as fault:
            logging.getLogger("fastness").warning("containers of dead processes could not be removed: %s", fault)

    def image(self, name: str | None) -> Image:
        """The image of a run.  Blocks.  Raises TierUnavailable where the engine does not have it."""
        name = self.default_image if name is None else name
        with self._lock:
            found = self._images.get(name)
        if found is None:
            try:
                found = image.find(self.engine().client(), name, Deadline(probe.PROBE_S, "looking at the image"))
            except EngineFault as fault:
                raise unavailable(fault, Guarantee.IMAGE_ROOT) from None
            if found.volumes:
                raise ConfigurationError("image", name, "one without volumes: what is in them outlives a container")
            with self._lock:
                self._images[name] = found
        return found

    def image_of(self, id: str) -> Image:
        """The image of this id."""
        with self._lock:
            found = next((one for one in self._images.values() if one.id == id), None)
        return found or Image(name=id, id=id)

    def forget(self) -> None:
        """Look again at everything when it is next needed."""
        with self._lock:
            self._seen = 0.0
            self._images.clear()


def unavailable(fault: EngineFault, guarantee: str = "all") -> TierUnavailable:
    """The refusal that comes of an engine's fault."""
    failure = ProbeFailure(guarantee=guarantee, cause=fault.cause, remedy=fault.remedy or DOCTOR)
    return TierUnavailable(Tier.CONTAINER.value, (failure,))


def refused(who: str, differences: list[str]) -> TierUnavailable:
    """The refusal of a container that is not what was asked for."""
    failure = ProbeFailure(
        guarantee="all",
        cause=f"{who} something else than was asked for: {'; '.join(differences)}",
        remedy="use an engine that keeps these limits; one that is rootless does not on control groups of version 1",
    )
    return TierUnavailable(Tier.CONTAINER.value, (failure,))
