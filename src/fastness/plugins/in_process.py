"""
A plugin of one's own, by its path, in this process: a module that is imported when it is set up.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

from fastness.errors import ConfigurationError, PluginError
from fastness.plugins import loading

__all__ = ["FilePlugin"]


class FilePlugin:
    """
    The module of a path as a plugin.  Its manifest is read; its code runs in ``setup``, within that phase's time.

    The module is a fresh one, under a name that no other import takes it for.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        loaded = loading.read(path)
        if loaded.manifest.runtime != "python":
            raise ConfigurationError("tier", "mediated", f"wasm, as the plugin is {loaded.manifest.runtime} code")
        self.manifest = loaded.manifest
        where = os.path.abspath(os.fspath(path))
        self._file = os.path.join(where, loaded.entry) if os.path.isdir(where) else where
        self._module: ModuleType | None = None

    def setup(self, ctx: Any) -> Any:
        """Import the module and call its ``setup``."""
        self._module = _imported(self.manifest.id, self._file)
        return self._call("setup", ctx)

    def start(self, ctx: Any) -> Any:
        """Call its ``start``."""
        return self._call("start", ctx)

    def stop(self, ctx: Any) -> Any:
        """Call its ``stop``."""
        return self._call("stop", ctx)

    def _call(self, phase: str, ctx: Any) -> Any:
        function = getattr(self._module, phase, None)
        return None if function is None else function(ctx)


def _imported(plugin: str, file: str) -> ModuleType:
    name = f"fastness_plugin_{plugin.replace('-', '_').replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PluginError(f"plugin {plugin!r}: its module cannot be imported")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and the like look their module up by its name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
