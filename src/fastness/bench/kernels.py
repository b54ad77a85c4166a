"""
CPU-bound programs in plain Python, timed inside the guest and inside a bare interpreter.

Each times itself, so that starting up does not count.
"""

from __future__ import annotations

NAMES = ("nbody", "fannkuch", "json", "regex", "dict", "sort", "strings")

SOURCE = r"""
import json, re, time

def nbody():
    bodies = [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 39.4], [4.8, -1.1, -0.1, 0.6, 2.8, -0.02, 0.03],
              [8.3, 4.1, -0.4, -1.0, 1.8, 0.008, 0.01], [12.8, -15.1, -0.2, 1.08, 0.8, -0.01, 0.001],
              [15.3, -25.9, 0.1, 0.9, 0.5, -0.03, 0.002]]
    pairs = [(a, b) for i, a in enumerate(bodies) for b in bodies[i + 1:]]
    for _ in range(4000):
        for a, b in pairs:
            dx, dy, dz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
            force = 0.001 * (dx * dx + dy * dy + dz * dz + 1e-9) ** -1.5
            left, right = b[6] * force, a[6] * force
            a[3] -= dx * left; a[4] -= dy * left; a[5] -= dz * left
            b[3] += dx * right; b[4] += dy * right; b[5] += dz * right
        for body in bodies:
            body[0] += 0.001 * body[3]; body[1] += 0.001 * body[4]; body[2] += 0.001 * body[5]

def fannkuch(n=7):
    counts, order, flips, rest = [0] * n, list(range(n)), 0, n
    while True:
        while rest != 1:
            counts[rest - 1] = rest
            rest -= 1
        if order[0] != 0:
            trial, steps = order[:], 0
            while (first := trial[0]) != 0:
                trial[:first + 1] = trial[first::-1]
                steps += 1
            flips = max(flips, steps)
        while True:
            if rest == n:
                return flips
            order.insert(rest, order.pop(0))
            counts[rest] -= 1
            if counts[rest] > 0:
                break
            rest += 1

def json_():
    rows = [{"id": i, "name": "user %d" % i, "tags": ["a", "b", "c"], "score": i * 1.5} for i in range(300)]
    for _ in range(12):
        json.loads(json.dumps(rows))

def regex():
    text = "one two 123-456-7890 anna@example.org http://example.org/a?b=c " * 120
    for _ in range(12):
        re.findall(r"[\w.]+@[\w.]+", text); re.sub(r"\d+", "#", text); re.findall(r"(\d{3})-(\d{3})-(\d{4})", text)

def dict_():
    counts = {}
    for i in range(120000):
        key = i % 5003
        counts[key] = counts.get(key, 0) + i

def sort():
    state, values = 1, []
    for _ in range(60000):
        state = (state * 1103515245 + 12345) % 2147483648
        values.append(state)
    values.sort(); sorted(values, key=lambda value: -value)

def strings():
    parts = [f"{i}:{i * 2}" for i in range(90000)]
    len(",".join(parts).upper().replace("1", "one"))

result = {}
for name, kernel in (("nbody", nbody), ("fannkuch", fannkuch), ("json", json_), ("regex", regex), ("dict", dict_),
                     ("sort", sort), ("strings", strings)):
    best = 1e9
    for _ in range(3):
        began = time.perf_counter(); kernel(); best = min(best, time.perf_counter() - began)
    result[name] = best * 1e3
"""

BLAS = """
import time, numpy
a = numpy.ones((400, 400)) * 0.5
best = 1e9
for _ in range(3):
    began = time.perf_counter(); a @ a; best = min(best, time.perf_counter() - began)
result = {"matmul": best * 1e3}
"""
