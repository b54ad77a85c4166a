"""
The demo: an analysis as a model would write it, then a hostile program, both in the wasm tier.

Run it with ``python3 tools/dev.py demo``, which also installs what it needs.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
import socket
import sys
import time
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import fastness
from fastness.cli.progress import BuildProgress

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 2.0


def main() -> int:
    """Run both programs and show what came of them.  Returns an exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the chart and the table  [out]")
    options = parser.parse_args()
    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 110)
    try:
        with BuildProgress() as building, fastness.Sandbox(tier="wasm") as sandbox:

            def on_event(name: str, data: Any) -> None:
                if name == "progress":
                    building(data)

            good = analysis(sandbox, console, options.out, on_event)
            contained = hostile(sandbox, console)
    except fastness.FastnessError as error:
        console.print(f"demo: {error}")
        return 3 if isinstance(error, fastness.TierUnavailable) else 70
    except KeyboardInterrupt:
        return 130
    return 0 if good and contained else 1


def analysis(sandbox: fastness.Sandbox, console: Console, out: Path, on_event: Any) -> bool:
    """The wanted program: data in, a table and a chart out."""
    console.rule("1. A program that somebody wants", characters="─", align="left")
    began = time.monotonic()
    # The demo is about the science libraries, so the whole guest is asked for; see docs/quickstart.md.
    result = sandbox.run(
        entry=HERE / "analysis.py",
        files={"seattle-weather.csv": data_set("seattle-weather.csv")},
        timeout=60,
        on_event=on_event,
    )
    if not result.ok:
        console.print(result.stderr)
        console.print(f"the analysis ended as {result.outcome.kind.value}: {result.outcome.detail}")
        return False
    console.print(result.stdout.rstrip())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("month", "rain (mm)", "wet days", "warmest (°C)", "coldest (°C)"):
        table.add_column(name, justify="right")
    for row in result.value:
        table.add_row(
            str(row["month"]), f"{row['rain_mm']:.0f}", f"{row['wet_days']:.0f}", f"{row['warmest']:.1f}",
            f"{row['coldest']:.1f}",
        )  # fmt: skip
    console.print(table)
    for path in result.files.save(out):
        console.print(f"saved {path} ({path.stat().st_size:,} bytes)")
    console.print(
        f"{result.usage.wall_s:.2f} s in the guest, {time.monotonic() - began:.2f} s in all, "
        f"{result.usage.memory >> 20} MiB, tier {result.tier}\n"
    )
    return True


def hostile(sandbox: fastness.Sandbox, console: Console) -> bool:
    """The unwanted program: every attempt must fail, and the loop must end at the limit."""
    console.rule("2. A program that nobody wants", characters="─", align="left")
    os.environ["SECRET"] = secret = secrets.token_hex(8)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        told = f"HOME = {str(Path.home())!r}\nPORT = {server.getsockname()[1]}\n"
        result = sandbox.run(told + (HERE / "hostile.py").read_text("utf-8"), timeout=TIMEOUT_S, filename="hostile.py")
        try:
            server.accept()[0].close()
            knocked = True
        except TimeoutError:
            knocked = False
    console.print(result.stdout.rstrip())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="what was refused", title_justify="left")
    for name in ("capability", "operation", "target", "why", "seen by"):
        table.add_column(name, overflow="fold")
    for row in result.denials:
        seen_by = "the guest itself (claimed)" if row.claimed else f"the host ({row.layer})"
        table.add_row(row.capability, row.operation, row.target, row.code.value, seen_by)
    console.print(table)
    kind = result.outcome.kind.value
    console.print(f"outcome: {kind} after {result.usage.wall_s:.2f} s (the limit was {TIMEOUT_S:g} s)")
    leaked = secret in result.stdout or "got" in result.stdout
    console.print(f"secret seen: {'YES' if leaked else 'no'}; connection arrived: {'YES' if knocked else 'no'}")
    # The machine must be as ready for the next run as if nothing had been.
    after = sandbox.run("6 * 7")
    console.print(f"the next run, in a clean guest: {after.value} in {after.usage.wall_s * 1000:.1f} ms")
    return kind == "timeout" and not leaked and not knocked and bool(result.denials) and after.value == 42


def data_set(name: str) -> Path:
    """A data set's file, found without importing its package (which would need pandas on the host)."""
    found = importlib.util.find_spec("vega_datasets")
    if found is None or not found.submodule_search_locations:
        sys.exit("demo: the data set is not installed.  Fix: python3 tools/dev.py demo")
    return Path(found.submodule_search_locations[0]) / "_data" / name


if __name__ == "__main__":
    sys.exit(main())
