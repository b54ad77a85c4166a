"""
Modules of a plugin that came with its call and lie in no folder: an importer that finds them where files would be.

Its text is executed in the guest as a module called ``_fastness_sources``.  A guest without files is ready sooner, and
there is nothing to look at when it has ended.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


class Sources:
    """Finds and loads modules of ``texts``, path to source, as if the paths were below ``folder``."""

    def __init__(self, folder: str, texts: dict[str, str]) -> None:
        self._folder = folder
        self._texts = texts

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module, or None for one that is not here."""
        from _frozen_importlib import ModuleSpec

        base = name.replace(".", "/")
        for file, package in ((f"{base}/__init__.py", True), (f"{base}.py", False)):
            if file in self._texts:
                spec = ModuleSpec(name, self, origin=f"{self._folder}/{file}", is_package=package)
                spec.has_location = True
                break
        else:
            if not any(file.startswith(f"{base}/") for file in self._texts):
                return None
            # A folder without a module of its own is a package all the same.
            spec = ModuleSpec(name, None, is_package=True)
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(f"{self._folder}/{base}")
        return spec

    def create_module(self, spec: Any) -> None:
        """As any module is made."""

    def exec_module(self, module: ModuleType) -> None:
        """Run it."""
        spec = module.__spec__
        assert spec is not None
        place = str(spec.origin)
        code = compile(self._texts[place[len(self._folder) + 1 :]], place, "exec", dont_inherit=True)
        exec(code, module.__dict__)

    def get_source(self, name: str) -> str | None:
        """The text of a module, for tracebacks."""
        base = name.replace(".", "/")
        return self._texts.get(f"{base}/__init__.py") or self._texts.get(f"{base}.py")


def install(folder: str, texts: dict[str, str]) -> None:
    """Have imports find these before any folder, and after what is built in."""
    from _frozen_importlib_external import PathFinder

    finders: list[Any] = sys.meta_path
    at = finders.index(PathFinder) if PathFinder in finders else len(finders)
    finders.insert(at, Sources(folder, texts))
