"""
The demo: real work by a program as a model would write it, then a hostile program, both in the ``wasm`` tier.

The data set is Vega's daily weather of Seattle, from the ``vega-datasets`` package.  Results go to ``out/``.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

import fastness
from fastness.cli.console import stdout_console
from fastness.cli.progress import BuildProgress

HERE = Path(__file__).resolve().parent
OUT = HERE.parent.parent / "out"
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def data_file() -> Path:
    """The CSV inside the installed package, found without importing it."""
    spec = importlib.util.find_spec("vega_datasets")
    if spec is None or spec.origin is None:
        raise SystemExit("vega-datasets is not installed; run: python3 tools/dev.py demo")
    return Path(spec.origin).parent / "_data" / "seattle-weather.csv"


def new_table(title: str, *columns: str) -> Table:
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in ("rain, mm", "rainy days", "mean °C", "times") else "left")
    return made


def work(sandbox: fastness.Sandbox) -> bool:
    """Run the analysis, show its table, keep its picture."""
    say("\n1. A program that a model wrote: load a CSV, group it, draw it")
    time.perf_counter()
    result = sandbox.run(
        (HERE / "analysis.py").read_text("utf-8"), files={"seattle-weather.csv": data_file()}, timeout=60
    )
    print(result.stdout, end="")
    if not result.ok:
        print(result.stderr, file=sys.stderr)
        return False
    table = new_table("Seattle by month", "month", "rain, mm", "rainy days", "mean °C")
    for row in result.value:
        table.add_row(
            MONTHS[row["month"] - 1], f"{row['rain_mm']:.0f}", f"{row['rainy_days']:.0f}", f"{row['mean_temp']:.1f}"
        )
    stdout_console().print(table)
    for path, file in result.files.items():
        saved = file.save(OUT / path)
        shown = saved.relative_to(Path.cwd()) if saved.is_relative_to(Path.cwd()) else saved
        print(f"saved {shown} ({file.size:,} bytes)")
    took = result.usage.wall_s * 1000
    print(f"the program took {took:.0f} ms; {len(result.guarantees)} guarantees are proven on this machine")
    return True


def attack(sandbox: fastness.Sandbox) -> bool:
    """Run the hostile program and show what became of it."""
    say("\n2. A hostile program: wants your files, a socket, a process and your processor")
    result = sandbox.run((HERE / "hostile.py").read_text("utf-8"), timeout=1.0)
    print(result.stdout, end="")
    table = new_table("What was refused", "operation", "target", "why", "seen by", "times")
    for row in result.denials:
        who = "the guest (its own claim)" if row.claimed else "the host"
        table.add_row(row.operation, row.target, row.code.value, who, str(row.count))
    stdout_console().print(table)
    print(
        f"outcome: {result.outcome.kind.value} after {result.usage.wall_s:.2f} s; your files were not there to be read"
    )
    return result.outcome.kind.value == "timeout" and "0 attempts got through" in result.stdout


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    say("Fastness runs code that you did not write.  Setting up the Python guest ...")
    with BuildProgress() as progress:

        def on_event(name: str, data: Any) -> None:
            if name == "progress":
                progress(data)

        with fastness.Sandbox(on_event=on_event) as sandbox:
            began = time.perf_counter()
            first = sandbox.run("print('hello from a sandboxed CPython')").raise_for_outcome()
            print(first.stdout, end="")
            say(f"first result after {time.perf_counter() - began:.1f} s")
            good = work(sandbox)
            good = attack(sandbox) and good
            fast = sandbox.run("sum(range(10))")
            milliseconds = fast.usage.wall_s * 1000
            say(f"\nand the next run works as before: sum(range(10)) = {fast.value}, in {milliseconds:.1f} ms")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
