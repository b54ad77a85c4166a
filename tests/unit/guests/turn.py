"""
Runs source text in the Python guest, in a process of its own, and prints what came of it as JSON.

``python turn.py MODULE_FD OPT_LEVEL REGALLOC LIBRARY_FD``; the source comes on standard input.  This is the least
that can run a guest: no image, no limits, no confinement.
"""

import json
import os
import sys

from fastness._wasi import binding, memfs, preview1
from fastness._wasi.guest_python import PythonGuest


def main() -> None:
    """Load, boot and run."""
    module_fd, opt_level, regalloc, library_fd = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    source = sys.stdin.buffer.read()
    lib = binding.load(binding.find_library())
    engine = binding.Engine(lib, binding.EngineConfig(opt_level=opt_level, regalloc=regalloc))
    module = binding.Module.deserialize_file(engine, f"/proc/self/fd/{module_fd}")
    linker = binding.Linker(engine)
    guest = PythonGuest({"library_fd": library_fd})
    current: list[object] = [None]
    preview1.register(linker, current)
    guest.imports(linker)
    instance = binding.Instance(engine, linker.instantiate_pre(module), 1 << 30)
    preopens, _work = guest.tree(memfs.Quota(max_bytes=1 << 28, max_files=10_000), 0)
    output = bytearray()
    host = preview1.Host(
        args=guest.arguments([]),
        env=guest.environment([]),
        preopens=preopens,
        stdin=b"",
        write_out=lambda fd, data: output.extend(data),
        clock=preview1.Clock(None),
        random=os.urandom,
        denials=preview1.DenialLog(),
        wait=lambda seconds: None,
    )
    host.bind(instance)
    current[0] = host
    trap = ""
    try:
        guest._execute(instance, source)
    except binding.Trap as error:
        trap = error.code
    except RuntimeError as error:
        trap = f"status: {error}"
    print(json.dumps({"trap": trap, "exception": repr(host.exc), "output": output.decode("utf-8", "replace")}))


main()
