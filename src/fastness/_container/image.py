"""
Images: made without a registry, named, looked up and told apart by digest.

An image is handed to an engine as one archive with its own configuration, so that its identity is the same wherever
and whenever it is made of the same files.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from typing import Any

import msgspec

from fastness._container import inside
from fastness._container.client import Client
from fastness._container.deadline import Deadline
from fastness._container.faults import EngineFault
from fastness._container.layer import EPOCH, USER, Layer
from fastness._container.typed import as_list, as_size, as_table

#: The image of runs that name none.
DEFAULT = "localhost/fastness/python:default"
_LABEL = "fastness.image"
_GUEST_LABEL = "fastness.guest"
_LOAD_S = 300.0
_PIECE = 1 << 20
_BUILD = "run: fastness image build"
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/work",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """
    An image that an engine has.  ``id`` is the SHA-256 of its configuration.

    Of one that we made, ``flavour`` says how, and ``guest`` names the code that it has inside, compiled.
    """

    name: str
    id: str
    size: int = 0
    flavour: str = ""
    guest: str = ""
    layers: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()


def find(client: Client, name: str, deadline: Deadline) -> Image:
    """The image of this name or id.  Raises EngineFault with kind ``absent`` where the engine does not have it."""
    if (
        not name
        or len(name) > 256
        or not all(32 < ord(letter) < 127 and letter not in "?#%\\" for letter in name)
        or ".." in name
    ):
        raise EngineFault("unsupported", f"no image has such a name: {name[:100]!r}", "give it as NAME:TAG")
    answer = client.call("GET", f"/images/{name}/json", deadline, good=(404,))
    if answer.status == 404:
        fix = _BUILD if name == DEFAULT else f"pull or load it yourself; nothing is ever fetched here. Or {_BUILD}"
        raise EngineFault("absent", f"the engine has no image {name}", fix, status=404)
    found = as_table(answer.json())
    if not (identity := _identity(found)):
        raise EngineFault("broken", "the engine told nothing of the image")
    config = as_table(found.get("Config"))
    return Image(
        name=name,
        id=identity,
        size=as_size(found.get("Size")),
        flavour=_label(config, _LABEL),
        guest=_label(config, _GUEST_LABEL),
        layers=tuple(map(str, as_list(as_table(found.get("RootFS")).get("Layers")))),
        environment=tuple(map(str, as_list(config.get("Env")))),
        # The engine's own way is an object with nothing but keys.
        volumes=tuple(as_table(config.get("Volumes")) or map(str, as_list(config.get("Volumes") or None))),
    )


def list_ours(client: Client, deadline: Deadline) -> list[Image]:
    """Every image that has the label of those that are made by this package."""
    query = {"filters": json.dumps({"label": [_LABEL]})}
    rows = client.call("GET", "/images/json", deadline, query=query).json()
    return [
        Image(
            name=str(name),
            id=_identity(one),
            size=as_size(one.get("Size")),
            flavour=_label(one, _LABEL),
            guest=_label(one, _GUEST_LABEL),
        )
        for one in map(as_table, as_list(rows))
        for name in as_list(one.get("RepoTags"))
        if not str(name).startswith("<none>")
    ]


def _identity(found: dict[str, Any]) -> str:
    """The SHA-256 that names an image; empty where there is none."""
    text = str(found.get("Id")).removeprefix("sha256:")
    return text if len(text) == 64 and text.isalnum() and text.isascii() else ""


def _label(found: dict[str, Any], name: str) -> str:
    return str(as_table(found.get("Labels")).get(name, ""))[:64]


def load(client: Client, layer: Layer, names: tuple[str, ...], flavour: str, seconds: float = _LOAD_S) -> str:
    """Hand a layer to the engine as an image with these names; returns its id.  Raises EngineFault, ``OSError``."""
    with tempfile.TemporaryDirectory(prefix="fastness-image-") as folder:
        path = os.path.join(folder, "layer.tar")
        digest = layer.write(path)
        config = configuration(digest, flavour)
        image = hashlib.sha256(config).hexdigest()
        pieces = list(_archive(config, image, digest, path, names, body=False))
        size = sum(len(piece) for piece in pieces) + _padded(os.path.getsize(path))
        deadline = Deadline(seconds, "loading the image")
        client.call(
            "POST", "/images/load", deadline, query={"quiet": "1"},
            upload=(_archive(config, image, digest, path, names), size),
        )  # fmt: skip
    found = find(client, names[0], deadline)
    if f"sha256:{digest}" not in found.layers:
        # What runs later is judged by its id; that it is what was made is known now or never.
        raise EngineFault("broken", "the engine has another image by that name than the one it was given")
    return found.id


def configuration(digest: str, flavour: str) -> bytes:
    """The configuration of an image with one layer (OCI image specification 1.0)."""
    stamp = "2023-11-14T22:13:20Z"
    told = {
        "created": stamp,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": [f"{name}={value}" for name, value in _ENVIRONMENT.items()],
            "Cmd": ["python3"],
            "WorkingDir": "/work",
            "Labels": {_LABEL: flavour, _GUEST_LABEL: inside.digest()},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": stamp, "created_by": f"fastness image build ({flavour})"}],
    }
    return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()


def _archive(
    config: bytes, image: str, digest: str, path: str, names: tuple[str, ...], *, body: bool = True
) -> Iterator[bytes]:
    """An archive as engines load it, in pieces; without ``body`` the layer's own bytes are left out."""
    manifest = [{"Config": f"{image}.json", "RepoTags": list(names), "Layers": [f"{digest}/layer.tar"]}]
    yield _member(f"{image}.json", config)
    yield _member("manifest.json", json.dumps(manifest).encode())
    size = os.path.getsize(path)
    yield _header(f"{digest}/layer.tar", size)
    if body:
        with open(path, "rb") as file:
            while data := file.read(_PIECE):
                yield data
        yield b"\0" * (_padded(size) - size)
    yield b"\0" * 1024


def _member(name: str, data: bytes) -> bytes:
    return _header(name, len(data)) + data + b"\0" * (_padded(len(data)) - len(data))


def _header(name: str, size: int) -> bytes:
    one = tarfile.TarInfo(name)
    one.size, one.mode, one.mtime = size, 0o644, EPOCH
    return one.tobuf(tarfile.USTAR_FORMAT)


def _padded(size: int) -> int:
    return (size + 511) // 512 * 512
