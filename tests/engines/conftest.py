"""
Both engines, each started once for all tests, with the image of this very interpreter.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

import pytest

import house
from engines import NotHere, PrivateEngine, kinds, of_kind
from fastness._container import image, image_host, inside, probe
from fastness._container.client import Client
from fastness._container.deadline import Deadline
from fastness._container.faults import EngineFault
from fastness._container.layer import Layer
from fastness._container.probe import Engine
from fastness.sync import Sandbox


@functools.cache
def _layer() -> Layer:
    return image_host.build()


def _has_image(client: Client) -> bool:
    try:
        return image.find(client, image.DEFAULT, Deadline(10)).guest == inside.digest()
    except EngineFault:
        return False


@pytest.fixture(scope="session", params=kinds())
def private(request: pytest.FixtureRequest) -> Iterator[PrivateEngine]:
    """An engine of one's own, with the default image."""
    if os.geteuid():
        house.lacks("only root starts an engine of its own")
    one = of_kind(request.param)
    try:
        one.start()
    except NotHere as error:
        house.lacks(str(error))
    try:
        names = ("localhost/fastness/python:host", image.DEFAULT)
        client = probe.reach({}, one.host).client()
        if not _has_image(client):
            image.load(client, _layer(), names, "host")
        yield one
    finally:
        one.stop()


@pytest.fixture(scope="session")
def engine(private: PrivateEngine) -> Engine:
    """What the engine tells of itself."""
    return probe.reach({}, private.host)


@pytest.fixture
def named(private: PrivateEngine, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine, named in the environment as a user would."""
    monkeypatch.setenv("FASTNESS_ENGINE", private.host)
    return private.host


@pytest.fixture(scope="session")
def box(private: PrivateEngine) -> Iterator[Sandbox]:
    """A sandbox in the tier, which looks for its engine when it first needs one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASTNESS_ENGINE", private.host)
        with Sandbox(tier="container") as sandbox:
            sandbox.run("1")
            yield sandbox
