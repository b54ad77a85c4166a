"""
The guest's library: archives mapped read-only into its file tree.

The Python guest reads its standard library straight from a zip, so the zip is one file of the tree, backed by a
mapping and never copied.  Matplotlib's data files must exist as files, and sit in an archive inside that zip; they
are unpacked once, when the guest is built, into a *bundle*: a length, a JSON index of offsets, the contents.
"""

from __future__ import annotations

import mmap
import os

from fastness._wasi import memfs_tree, tiny_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Where the language guests find their library.
LIBRARY = "/usr/local/lib"
_INDEX_CAP = 4 << 20


def map_file(fd: int) -> memoryview:
    """The whole file behind ``fd`` as read-only memory.  Raises ``OSError``."""
    size = os.fstat(fd).st_size
    return memoryview(mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ))


def pack_bundle(files: dict[str, bytes]) -> bytes:
    """A bundle of ``files`` by relative path."""
    index: dict[str, tuple[int, int]] = {}
    at = 0
    for path, data in sorted(files.items()):
        index[path] = (at, len(data))
        at += len(data)
    head = tiny_json.dumps(index).encode()
    return len(head).to_bytes(8, "little") + head + b"".join(files[path] for path in sorted(files))


def open_bundle(data: memoryview) -> dict[str, memoryview]:
    """The files of a bundle, as views.  Raises ``ValueError`` where it is damaged."""
    length = int.from_bytes(data[:8], "little")
    if length > min(len(data) - 8, _INDEX_CAP):
        raise ValueError("the bundle's index is longer than the bundle")
    body = data[8 + length :]
    files: dict[str, memoryview] = {}
    index: Any = tiny_json.loads(bytes(data[8 : 8 + length]).decode())
    for path, (at, size) in index.items():
        if not 0 <= at <= at + size <= len(body):
            raise ValueError(f"the bundle's entry {path!r} lies outside it")
        files[path] = body[at : at + size]
    return files


def matplotlib_data(stdlib_zip: str) -> dict[str, bytes]:
    """Matplotlib's data files out of the archive inside the guest's library zip; empty where it has none."""
    import io
    import zipfile

    with zipfile.ZipFile(stdlib_zip) as outer:
        try:
            inner = outer.read("matplotlib/mpl-data.zip")
        except KeyError:
            return {}
    with zipfile.ZipFile(io.BytesIO(inner)) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        return {name.removeprefix("mpl-data/"): archive.read(name) for name in names}


class Library:
    """Trees by label, in the order in which they are preopened; the order is part of every image."""

    def __init__(self) -> None:
        self.trees: dict[str, Any] = {}
        self.mounts: list[tuple[bytes, Any]] = []

    def mount(self, label: str, path: str, files: dict[str, Any]) -> None:
        """Add a read-only tree at ``path``."""
        tree = memfs_tree.build_tree(files, read_only=True)
        self.trees[label] = tree
        self.mounts.append((path.encode(), tree))

    def find(self, label: str, path: str) -> Any:
        """The node at ``path`` of the tree ``label``.  Raises ``KeyError``."""
        node = self.trees[label]
        for part in path.split("/"):
            if part:
                node = node.entries[part]
        return node

    def locate(self, wanted: Any) -> tuple[str, str] | None:
        """The label and path of a node, by identity; None where it is in no library tree."""
        stack = [(tree, label, "") for label, tree in self.trees.items()]
        while stack:
            node, label, path = stack.pop()
            if node is wanted:
                return label, path
            children = getattr(node, "entries", None)
            if children:
                stack.extend((child, label, f"{path}/{name}") for name, child in children.items())
        return None


def python_library(stdlib: memoryview, bundle: memoryview | None) -> Library:
    """The Python guest's library: the zip under both names that it looks for, and matplotlib's data beside it."""
    library = Library()
    library.mount("lib", LIBRARY, {"python315.zip": stdlib, "python-stdlib.zip": stdlib})
    if bundle is not None:
        files = open_bundle(bundle)
        if files:
            library.mount("mpl", f"{LIBRARY}/python315.zip/matplotlib/mpl-data", files)
    return library
