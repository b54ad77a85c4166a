"""
Small mutations of modules that decide, each tried against the module's own unit tests: what share of them is noticed.

``python tests/mutating.py [MODULE...]`` changes one operator, condition, refusal or number at a time, and runs the tests
of the module against that in a process forked for it.  A mutant that makes a test fail, or that does not end, is
*killed*; one that no test minds *survives*, and is printed with its line.  Ends with 1 where a module's share is below
what is stated for it here.  Not a test: it takes a second or two for each of some hundred mutants; see ``.ci/long``.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import math
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parents[1]
#: Modules, their tests below ``tests/unit``, and the least share of mutants that these notice, in hundredths: what was
#: measured, rounded down.  What is left up to 100 changes nothing that anybody could see.
MODULES = {
    "policy": (("plugins/test_policy.py",), 97),
    "broker.gate": (("broker/test_gate.py",), 100),
    "broker.calls": (
        (
            "broker/test_calls_between.py",
            "broker/test_broker_calls.py",
            "broker/test_calls_here.py",
            "broker/test_grants_that_end.py",
        ),
        95,
    ),
    "broker.asked": (("broker/test_asked.py",), 100),
    "broker.account": (("broker/test_one_account.py",), 96),
    "broker.counts": (("broker/test_call_counts.py",), 100),
    "broker.signatures": (("broker/test_signatures.py",), 100),
    "broker.outcomes": (("broker/test_outcomes_owed.py",), 100),
    "broker.refusals": (("broker/test_refusals.py",), 100),
    "capabilities._addresses": (("capabilities/test_addresses.py",), 97),
    "capabilities._hosts": (("capabilities/test_hosts.py",), 94),
    "capabilities._urls": (("capabilities/test_urls.py",), 97),
    "capabilities._headers": (("capabilities/test_headers.py",), 100),
    "capabilities._net_scope": (("capabilities/test_net_scope.py",), 100),
    "capabilities._paths": (("capabilities/test_path_names.py",), 100),
    "capabilities._recipients": (("capabilities/test_recipients.py",), 97),
}
#: The tests of one mutant have so many times what the unmutated ones took, just before and on the same machine, and so
#: many seconds at least; more is an endless loop.
PATIENCE, PATIENCE_S = 10, 15
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}  # fmt: skip
_CALLED = {"any": "all", "all": "any", "min": "max", "max": "min"}


class _Mutator(ast.NodeTransformer):
    """Changes the mutation point number ``wanted``, counted in the order of the text; ``count`` is how many there are."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.count = 0
        self.what = ""

    def _here(self, node: ast.AST, what: str) -> bool:
        self.count += 1
        if self.count - 1 != self.wanted:
            return False
        self.what = f"line {getattr(node, 'lineno', 0)}: {what}"
        return True

    def visit(self, node: ast.AST) -> ast.AST:
        # Annotations are not run; what a raise says is for readers; a decorator's number is how much a cache holds.
        kept = {
            name: getattr(node, name) for name in ("annotation", "returns") if getattr(node, name, None) is not None
        }
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            kept["decorator_list"] = node.decorator_list
        for name in kept:
            setattr(node, name, [] if name == "decorator_list" else None)
        try:
            return super().visit(node)
        finally:
            for name, value in kept.items():
                setattr(node, name, value)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        # Its bases and options say what it is, and decide nothing.
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        for place, operator in enumerate(node.ops):
            other = _COMPARED[type(operator)]
            if self._here(node, f"{type(operator).__name__} becomes {other.__name__}"):
                node.ops[place] = other()
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if self._here(node, "and and or change places"):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.op, ast.Not) and self._here(node, "not is left out"):
            return self.generic_visit(node.operand)
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        other = _COUNTED.get(type(node.op))
        if other is not None and self._here(node, f"{type(node.op).__name__} becomes {other.__name__}"):
            node.op = other()
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _CALLED and self._here(node, f"{name} becomes {_CALLED[name]}"):
            node.func = ast.copy_location(ast.Name(_CALLED[name], ast.Load()), node.func)
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            # Names for annotations.
            return node
        if isinstance(node.test, (ast.Name, ast.Attribute, ast.Call)) and self._here(node, "if becomes if not"):
            node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.copy_location(ast.Pass(), node) if self._here(node, "raise is left out") else node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is bool and self._here(node, f"{node.value} becomes {not node.value}"):
            return ast.copy_location(ast.Constant(not node.value), node)
        if type(node.value) is int and self._here(node, f"{node.value} becomes {node.value + 1}"):
            return ast.copy_location(ast.Constant(node.value + 1), node)
        return node


def mutant(source: str, number: int) -> tuple[ast.Module, str, int]:
    """The module with mutation ``number``, what that is in words, and how many there are."""
    mutator = _Mutator(number)
    made = ast.fix_missing_locations(mutator.visit(ast.parse(source)))
    return made, mutator.what, mutator.count


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Has one module made of other code."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self._name, self._path, self._code = name, path, code

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)  # our own text, a little changed


class _Brief:
    """
    For pytest: one example that fails is enough, without a smaller one being looked for, and none is kept.

    ``ended`` is the status by the tests alone: what is left behind on the machine may be of somebody else's.
    """

    ended: int | None = None

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.ended = int(exitstatus)

    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings.get_profile("fastness"), phases=phases, database=None)
        settings.load_profile("mutants")


def _noticed(name: str, path: Path, made: ast.Module, tests: tuple[str, ...], patience_s: int) -> bool:
    """Whether the tests fail, or do not end, with this module; in a child, which has imported nothing of ours before."""
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setpgid(0, 0)
            signal.alarm(patience_s)
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            sys.meta_path.insert(0, _Finder(name, path, compile(made, str(path), "exec")))
            import pytest

            options = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-m", "not slow and not long"]
            brief = _Brief()
            status = int(pytest.main([*options, *(f"tests/unit/{one}" for one in tests)], plugins=[brief]))
            status = status if brief.ended is None else brief.ended
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        # What its tests have left.
        os.killpg(child, signal.SIGKILL)
    return ended != 0


def survivors(module: str) -> Iterator[str]:
    """For each mutant of a module: what it is, where it survived, or nothing."""
    tests, _ = MODULES[module]
    path = ROOT / "src" / "fastness" / (module.replace(".", "/") + ".py")
    source = path.read_text("utf-8")
    whole, _, count = mutant(source, -1)
    began = time.monotonic()
    if _noticed(f"fastness.{module}", path, whole, tests, 60 * PATIENCE_S):
        raise SystemExit(f"{module}: its tests fail without a mutation")
    patience_s = max(PATIENCE_S, math.ceil(PATIENCE * (time.monotonic() - began)))
    for number in range(count):
        made, what, _ = mutant(source, number)
        yield "" if _noticed(f"fastness.{module}", path, made, tests, patience_s) else what


def main() -> int:
    """Try all mutants of some modules, or of all of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("modules", nargs="*", default=list(MODULES), metavar="MODULE")
    wanted = parser.parse_args().modules
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src")]
    # Imported once, and found by every child; plugins of pytest it wants to import by itself.
    for name in ("pytest", "msgspec"):
        importlib.import_module(name)
    low = []
    for module in wanted:
        began, left, count = time.monotonic(), [], 0
        for what in survivors(module):
            count += 1
            if what:
                left.append(what)
                print(f"{module}: survives: {what}", flush=True)
        share = 100 * (count - len(left)) / count
        print(
            f"{module}: {count - len(left)} of {count} mutants killed, {share:.1f} % "
            f"({time.monotonic() - began:.0f} s); at least {MODULES[module][1]} % is stated",
            flush=True,
        )
        if share < MODULES[module][1]:
            low.append(module)
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
