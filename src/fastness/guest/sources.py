"""
The module of a plugin, from the work folder, or from texts that came with its call: an importer that finds those where
files would be.

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

        loader: Any = self
        base = name.replace(".", "/")
        for file, package in ((f"{base}/__init__.py", True), (f"{base}.py", False)):
            if file in self._texts:
                spec = ModuleSpec(name, loader, origin=f"{self._folder}/{file}", is_package=package)
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


def bring(name: str, texts: dict[str, str] | None) -> object:
    """The module of this name, imported where it is not yet.  Raises what it raises."""
    import os

    # The plugin's own folder, which the guests of some kinds search anyway.  Bytecode that is kept there is a change of
    # its files, and is of no use to another guest.
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    if texts and name not in sys.modules:
        _load(name, folder, texts)
    else:
        __import__(name)
    return sys.modules[name]


def _load(name: str, folder: str, texts: dict[str, str]) -> None:
    """
    Import one of these modules.  Those that it imports are found before any folder, and after what is built in.

    The first one is made by hand: the ways of an import touch many pages that the guest shares with others until then.
    """
    from _frozen_importlib_external import PathFinder

    finders: list[Any] = sys.meta_path
    sources = Sources(folder, texts)
    finders.insert(finders.index(PathFinder) if PathFinder in finders else len(finders), sources)
    if "." in name or f"{name}.py" not in texts or name in sys.builtin_module_names:
        __import__(name)
        return
    spec = sources.find_spec(name)
    module: Any = type(sys)(name)
    module.__spec__, module.__loader__, module.__package__ = spec, sources, ""
    module.__file__ = spec.origin
    sys.modules[name] = module
    try:
        sources.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
