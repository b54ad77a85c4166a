"""
Code that a model wrote calls functions of this program, and nothing else of it.

Run it with: python examples/functions.py
"""

from __future__ import annotations

import fastness

STOCK = {"tea": 12, "cake": 0, "milk": 3}


def stock(item: str) -> int:
    """How many of an item are in stock."""
    return STOCK.get(item, 0)


def order(item: str, count: int = 1) -> int:
    """Order so many of an item, at most 10; how many there are then."""
    if not 0 < count <= 10:
        raise fastness.CapabilityError(f"{count} are too many at once")
    STOCK[item] = STOCK.get(item, 0) + count
    return STOCK[item]


FUNCTIONS = {"stock": stock, "order": order}

#: What a model may answer when it was told the stubs below and asked to fill the shelves.
PYTHON = """
ordered = {}
for item in ("tea", "cake", "milk"):
    if stock(item) < 5:
        ordered[item] = order(item, count=5)
try:
    order("tea", 1000)
except ctx.Refused as error:
    print("refused:", error.message)
ordered
"""
JAVASCRIPT = """
const counts = await Promise.all(["tea", "cake", "milk"].map(item => stock(item)));
counts.reduce((sum, count) => sum + count)
"""


def main() -> None:
    """Say what a model would be told, and run what it might answer."""
    print(fastness.stubs(FUNCTIONS))
    with fastness.Sandbox(functions=FUNCTIONS, timeout=10) as box:
        result = box.run(PYTHON).raise_for_outcome()
        print(result.stdout, end="")
        print("ordered:", result.value, "in", result.usage.calls, "calls")
        result = box.run(JAVASCRIPT, runtime="javascript").raise_for_outcome()
        print("in all:", result.value)
    print("in this program:", STOCK)


if __name__ == "__main__":
    main()
