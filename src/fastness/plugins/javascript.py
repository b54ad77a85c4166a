"""
The manifest of a plugin that is one JavaScript module: evaluated in a guest that is thrown away.

A JavaScript object cannot be read without running it, so it is run where it can do nothing: in the ``wasm`` tier, with
no capability, for a second.  What comes back is a claim of the plugin about itself, as any manifest is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastness import manifest_text
from fastness.errors import ManifestError

__all__ = ["evaluate"]

#: ``MANIFEST`` of the module, or ``manifest`` of what it exports by default.
_CODE = """
const found = await import(%s);
const manifest = found.MANIFEST ?? found.default?.manifest ?? found.manifest;
manifest === undefined ? "" : JSON.stringify(manifest);
"""
_SECONDS = 2.0
_MEMORY = 64 << 20


def evaluate(name: str, source: bytes, beside: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """
    The manifest that a module exports; ``beside`` are files that it may import, by their paths from the same folder.

    Raises ManifestError where it exports none, or did not get that far; TierUnavailable where ``wasm`` does not hold.
    """
    if len(source) > manifest_text.SOURCE_MAX:
        raise ManifestError([f"{name}: it is larger than {manifest_text.SOURCE_MAX} bytes"])
    from fastness.sync import Sandbox

    # A sandbox of its own: no guest that saw this module serves anybody else.
    with Sandbox(tier="wasm", tenant="manifest") as box:
        result = box.run(
            _CODE % json.dumps(f"/work/{name if beside else 'plugin.mjs'}"),
            runtime="javascript",
            files={**beside, name: source} if beside else {"plugin.mjs": source},
            limits={"wall_s": _SECONDS, "cpu_s": _SECONDS, "memory": _MEMORY, "output_bytes": 4096},
        )
    if not result.ok:
        detail = result.outcome.detail or result.outcome.kind.value
        raise ManifestError([f"{name}: the module could not be evaluated: {detail[:200]}"])
    if not isinstance(result.value, str) or not result.value:
        raise ManifestError([f"{name}: the module exports no manifest: export default {{manifest: {{...}}}}"])
    return manifest_text.read_json(result.value)
