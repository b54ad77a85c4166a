"""
The interpreter that a native guest is: what it imports, what it finds, what it draws, and what it says at its end.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import site
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from test_determinism import _SOURCES
from test_isolation_between_runs import _LEFT, _LOOK

import fastness
import house
from fastness import OutcomeKind

pytestmark = pytest.mark.tiers("isolated", "confined")


def is_own(name: str) -> bool:
    """Whether the caller's own environment has a package: guests import from no other folder."""
    found = importlib.util.find_spec(name)
    folders = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages())
    return found is not None and str(found.origin).startswith(folders)


#: The first two are in the lock; the third is tried where somebody has installed it.
_HAS = {name: is_own(name) for name in ("numpy", "pandas", "matplotlib")}
_LARGE = tuple(name for name in ("numpy", "pandas") if _HAS[name])


def needs(*names: str) -> None:
    """Skip where the caller has no such package."""
    for name in names:
        if not _HAS[name]:
            house.lacks(f"there is no {name} in this environment")


# what is imported


def test_preloaded_modules_are_there(box: fastness.Sandbox) -> None:
    """A preloaded module costs its guest nothing; another is imported when it is asked for."""
    look = "import sys; ['decimal' in sys.modules, 'sqlite3' in sys.modules, 'email.mime.text' in sys.modules]"
    assert box.run(look).value == [False, False, False]
    assert box.run(look, preload=("decimal", "email.mime.text")).value == [True, False, True]
    assert box.run("import sqlite3; 1").value == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("import no_such_module", "no_such_module"),
        ("(", "SyntaxError"),
        ("import os; os._exit(3)", "status|ended before"),
        ("import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "thread"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_preloads_that_fail(text: str, why: str, box: fastness.Sandbox, tmp_path: Path) -> None:
    """A module that cannot be imported, or that starts a thread, is refused by name with the reason; nothing ran."""
    folder = shown(tmp_path)
    (folder / "broken.py").write_text(text)
    with pytest.raises(fastness.ConfigurationError, match=f"(?s)'broken'.*importing it failed: .*({why})"):
        box.run("1", preload=("broken",), packages=[str(folder)])
    assert box.run("1").value == 1


def shown(folder: Path) -> Path:
    """A folder that guests may read, whoever they are."""
    made = folder / "packages"
    made.mkdir(mode=0o755)
    return made


def test_packages(box: fastness.Sandbox, tmp_path: Path) -> None:
    """Guests import from the folders given, and from no others; the caller's own are the default."""
    folder = shown(tmp_path)
    (folder / "mine.py").write_text("X = 5")
    look = "found = []\nfor name in ('mine', 'pytest'):\n  try: __import__(name); found.append(name)\n  except ImportError: pass\nfound"
    assert box.run(look, packages=[str(folder)]).value == ["mine"]
    assert box.run(look, packages=()).value == []
    with pytest.raises(fastness.ConfigurationError, match="there is no such folder"):
        box.run("1", packages=[str(tmp_path / "nope")])
    assert box.run(look).value == (["pytest"] if is_own("pytest") else [])
    assert box.run("import mine; mine.X", packages=[str(folder)], preload=("mine",)).value == 5
    # What is found is not theirs to change.
    code = "import mine, os\ntry: open(mine.__file__, 'a')\nexcept OSError as e: print(type(e).__name__)"
    assert box.run(code, packages=[str(folder)]).stdout in ("OSError\n", "PermissionError\n")
    assert (folder / "mine.py").read_text() == "X = 5"
    assert os.listdir(folder) == ["mine.py"]


def test_a_package_that_puts_another_environment_in_its_place(box: fastness.Sandbox, tmp_path: Path) -> None:
    """It has what it wants, and guests are born all the same, each with its own folders."""
    folder = shown(tmp_path)
    (folder / "swapping.py").write_text("import os\nos.environ = dict(os.environ, MINE='1')\n")
    for _ in range(3):
        assert box.run("import os; os.environ['MINE']", packages=[str(folder)], preload=("swapping",)).value == "1"


@pytest.mark.parametrize("packages", [["relative"], ["/no/such/folder"], ["/"], "text", ["/etc/passwd"]])
def test_packages_that_are_none(packages: Any, box: fastness.Sandbox) -> None:
    """What is no absolute path of a folder is refused."""
    with pytest.raises(fastness.ConfigurationError) as caught:
        box.run("1", packages=packages)
    assert caught.value.field.startswith("packages")


def test_packages_that_no_guest_can_read(box: fastness.Sandbox, tmp_path: Path) -> None:
    """Root's guests are not root, so a folder of root's alone is refused and not just empty."""
    if os.geteuid() != 0:
        pytest.skip("an ordinary user's guests are that user")
    folder = shown(tmp_path)
    folder.chmod(0o700)
    with pytest.raises(fastness.ConfigurationError, match="every user may read"):
        box.run("1", packages=[str(folder)])


def test_nothing_of_a_folder_runs_by_itself(box: fastness.Sandbox, tmp_path: Path) -> None:
    """``.pth`` files, ``sitecustomize`` and ``usercustomize`` are code that nobody asked for."""
    folder = shown(tmp_path)
    (folder / "evil.pth").write_text("import sys; sys.evil = 1\n")
    for name in ("sitecustomize", "usercustomize"):
        (folder / f"{name}.py").write_text("import sys; sys.evil = 1\n")
    look = "import sys; [hasattr(sys, 'evil'), [m for m in sys.modules if 'customize' in m]]"
    assert box.run(look, packages=[str(folder)]).value == [False, []]
    assert box.run(look, packages=[str(folder)], preload=("json",)).value == [False, []]


def test_the_work_folder_is_searched_after_what_is_there(box: fastness.Sandbox) -> None:
    """A file of the run's own can be imported, and is the first that is found."""
    files = {"helper.py": "Y = 1", "json.py": "mine = 1", "pkg/__init__.py": "Z = 2"}
    code = "import sys, os, helper, pkg; [sys.path[0] == os.getcwd(), helper.Y, pkg.Z]"
    assert box.run(code, files=files).value == [True, 1, 2]


def test_it_is_this_interpreter(box: fastness.Sandbox) -> None:
    """Version and implementation are the caller's; nothing of ours is among its modules by name."""
    code = "import sys; [sys.version, [m for m in sys.modules if m.split('.')[0] == 'fastness'], sys.flags.isolated]"
    assert box.run(code).value == [sys.version, [], 1]


# what it finds


def test_folders(box: fastness.Sandbox, tier: str) -> None:
    """The current folder, home and temporary folder are the guest's own, and can be written."""
    code = (
        "import os, sys, tempfile, pathlib\n"
        "for folder in (os.getcwd(), tempfile.gettempdir(), os.path.expanduser('~')):\n"
        "    with tempfile.TemporaryFile(dir=folder) as f: f.write(b'x')\n"
        "[os.getcwd(), tempfile.gettempdir(), str(pathlib.Path.home()), os.environ['TMPDIR'], __name__]"
    )
    work, temporary, home, variable, name = box.run(code).value
    assert (work, temporary, name) == (home, variable, "__main__")
    assert work != temporary
    if tier == "isolated":
        assert (work, temporary) == ("/work", "/tmp")


@pytest.mark.tiers("isolated")
def test_the_root_is_a_small_one(box: fastness.Sandbox, tmp_path: Path) -> None:
    """Nothing of the machine is there but what starts programs; no process is to be seen, and it is the first."""
    code = (
        "import os; [sorted(os.listdir('/')), os.listdir('/proc'), os.getpid(),"
        " [path for path in %r if os.path.exists(path)], os.listdir('/tmp')]"
    )
    hidden = [str(tmp_path), __file__, str(Path(__file__).parents[2] / "pyproject.toml")]
    names, processes, pid, found, temporary = box.run(code % hidden).value
    # The interpreter and packages are shown where they are, of the folders above them nothing else.
    shown = {Path(folder).parts[1] for folder in (sys.base_prefix, *site.getsitepackages())}
    assert set(names) - shown <= {
        "bin", "box", "dev", "etc", "lib", "lib32", "lib64", "libx32", "packages", "proc", "root", "run", "sbin", "tmp",
        "usr", "var", "work",
    }  # fmt: skip
    assert (processes, pid, found, temporary) == ([], 1, [], [])


@pytest.mark.tiers("isolated")
def test_it_has_a_name(box: fastness.Sandbox) -> None:
    """Whichever user a guest is of, programs that ask for its name get one."""
    code = "import getpass, pwd, os, grp; [getpass.getuser(), pwd.getpwuid(os.getuid()).pw_dir, grp.getgrgid(os.getgid())[0]]"
    for _ in range(3):
        assert box.run(code).value == ["guest", "/work", "guest"]


def test_nothing_can_be_written_elsewhere(box: fastness.Sandbox, open_folder: Path) -> None:
    """What the guest may read it may not change, nor what every user of the machine may; modes outside stay."""
    file = open_folder / "file"
    file.write_text("whole")
    file.chmod(0o666)
    code = (
        "import os, json\n"
        f"folder = {str(open_folder)!r}\n"
        "file = folder + '/file'\n"
        "done = []\n"
        "for act in (lambda: open('/x', 'w'), lambda: os.mkdir('/usr/x'), lambda: open(json.__file__, 'a'),\n"
        "            lambda: os.remove(json.__file__), lambda: open('/etc/x', 'w'), lambda: os.rename('/usr', '/u'),\n"
        "            lambda: open(folder + '/new', 'w'), lambda: open(file, 'a'), lambda: os.truncate(file, 1),\n"
        "            lambda: os.remove(file), lambda: os.rename(file, file + '2'), lambda: os.mkdir(folder + '/d')):\n"
        "    try: act(); done.append(1)\n"
        "    except OSError: pass\n"
        "for path in (folder, file):\n"
        "    try: os.chmod(path, 0o700)\n"
        "    except OSError: pass\n"
        "done"
    )
    assert box.run(code).value == []
    assert [path.name for path in open_folder.iterdir()] == ["file"]
    assert file.read_text() == "whole"
    assert (open_folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o777, 0o666)


def test_large_input(box: fastness.Sandbox) -> None:
    """Standard input of 3 MB, and the most that may be, arrive whole, also where half of it is never read."""
    data = os.urandom(3 << 20)
    code = "import sys, hashlib; hashlib.sha256(sys.stdin.buffer.read()).hexdigest()"
    assert box.run(code, stdin=data).value == hashlib.sha256(data).hexdigest()
    assert box.run("import sys; len(sys.stdin.buffer.read(10))", stdin=data).value == 10
    # It is a file that can be gone through again, and not written.
    code = "import os; a = os.read(0, 5); os.lseek(0, 0, 0); b = os.read(0, 5)\ntry: os.write(0, b'x')\nexcept OSError: print('no')\na == b"
    result = box.run(code, stdin="hello world")
    assert (result.value, result.stdout) == (True, "no\n")


def test_a_file_by_its_name(box: fastness.Sandbox) -> None:
    """``__file__``, ``sys.argv[0]`` and the traceback say the name that the caller chose."""
    result = box.run("import sys, os\n[os.path.basename(__file__), sys.argv]", filename="report.py", args=["a"])
    assert result.value == ["report.py", ["report.py", "a"]]
    result = box.run("def f():\n    raise ValueError('here')\n\nf()", filename="report.py")
    assert 'File "report.py", line 4' in result.stderr and 'File "report.py", line 2' in result.stderr
    assert result.stderr.count("File ") == 2


def test_tracebacks_have_no_frames_of_ours(box: fastness.Sandbox) -> None:
    """From threads, tasks, exit functions and finalizers too."""
    for code in (
        "import threading; threading.Thread(target=lambda: 1 / 0).start()",
        "import asyncio\nasync def f(): 1 / 0\nasyncio.run(f())",
        "import atexit; atexit.register(lambda: 1 / 0)",
        "class A:\n  def __del__(self): 1 / 0\na = A()",
        "try:\n  1 / 0\nexcept ZeroDivisionError as e: raise KeyError from e",
        "exec('1 / 0')",
    ):
        result = box.run(code)
        assert "ZeroDivisionError" in result.stderr, code
        assert "fastness" not in result.stderr, code


# randomness


@pytest.mark.parametrize("name", list(_SOURCES))
def test_randomness_differs(name: str, box: fastness.Sandbox) -> None:
    """Every guest is a copy of one process, and no two of them draw the same."""
    if name.split(maxsplit=1)[0] in ("numpy", "pandas"):
        needs("numpy", "pandas")
    outputs = [box.run(_SOURCES[name], preload=(*_LARGE, "random", "uuid", "secrets")).stdout for _ in range(4)]
    assert all(outputs)
    if name != "shuffle and set order":
        assert len(set(outputs)) == 4


@pytest.mark.parametrize("preload", [(), ("ssl", "tempfile", "uuid", "hashlib")])
def test_generators_of_libraries_differ(preload: tuple[str, ...], box: fastness.Sandbox) -> None:
    """Also those that have a state of their own in C."""
    code = "import ssl, tempfile, uuid, secrets; print(ssl.RAND_bytes(8).hex(), tempfile.mktemp(), uuid.uuid1(), secrets.token_hex())"
    rows = [box.run(code, preload=preload).stdout.split() for _ in range(3)]
    for column in zip(*rows, strict=True):
        assert len(set(column)) == 3


@pytest.mark.parametrize("name", ["random", "numpy legacy"])
def test_a_seed_repeats(name: str, box: fastness.Sandbox) -> None:
    """A seed decides what ``random`` and numpy's own generator draw, and leaves nothing behind."""
    preload = ("numpy",) if name.startswith("numpy") else ()
    needs(*preload)
    code = _SOURCES[name]
    one, same, other = (box.run(code, seed=seed, preload=preload).stdout for seed in (5, 5, 6))
    assert one == same != other
    assert box.run(code, preload=preload).stdout not in (one, other)
    with pytest.raises(fastness.ConfigurationError, match="wasm"):
        box.run(code, time=1.0)


def test_sessions_share_no_randomness(box: fastness.Sandbox) -> None:
    """A seed of a session goes on over its executes."""

    def drawn(**options: Any) -> list[Any]:
        with box.session(**options) as session:
            return [session.execute("import random; random.random()").value for _ in range(2)]

    assert drawn(seed=3) == drawn(seed=3)
    assert drawn() != drawn()
    first, second = drawn(seed=3)
    assert first != second


# what one run leaves


def test_nothing_is_left(box: fastness.Sandbox) -> None:
    """What a run leaves in its interpreter, its files and its environment, no other run finds."""
    preload = _LARGE
    for name, (leave, look) in _LEFT.items():
        if any(package in leave for package in ("numpy", "pandas", "matplotlib") if not _HAS.get(package)):
            continue

        def seen(code: str) -> str:
            result = box.run(code, stdin="abcdef", preload=preload)
            # Each confined guest has a folder of its own on the host.
            return re.sub(r"/b[0-9]+/", "/b/", f"{result.outcome.kind} {result.value!r} {result.value_repr}")

        if name in ("a file in /work", "a folder in /tmp", "sys.path", "an imported module", "the random state"):
            continue
        clean = seen(_LOOK + look)
        assert seen(f"{leave}\n{_LOOK}{look}") != clean, f"{name}: the case leaves nothing"
        assert seen(_LOOK + look) == clean, name


def test_files_are_not_left(box: fastness.Sandbox) -> None:
    """Each run starts with an empty work folder and an empty temporary folder."""
    leave = "import os, tempfile; open('leak', 'w'); open(tempfile.gettempdir() + '/leak', 'w'); os.mkdir('.hidden')"
    look = "import os, tempfile; [os.listdir(), os.listdir(tempfile.gettempdir())]"
    for _ in range(2):
        assert box.run(look).value == [[], []]
        assert box.run(leave).ok


# values


@pytest.mark.parametrize(
    ("code", "value", "text"),
    [
        ("numpy.int64(3)", None, "np.int64(3)"),
        ("numpy.bool_(True)", None, "np.True_"),
        ("numpy.arange(3)", None, "array([0, 1, 2])"),
        ("[numpy.float64(0.5)]", None, "[np.float64(0.5)]"),
        ("numpy.int64(3).item()", 3, None),
        ("numpy.arange(3).tolist()", [0, 1, 2], None),
        ("numpy.array(['a'])[0]", None, "np.str_('a')"),
    ],
)
def test_values_of_numpy(code: str, value: Any, text: str | None, box: fastness.Sandbox) -> None:
    """A scalar of numpy is no plain value, so it is a text; its ``item()`` is one."""
    needs("numpy")
    result = box.run(f"import numpy; {code}", preload=("numpy",))
    assert (result.value, result.value_repr) == (value, text)


def test_work_with_preloaded_packages(box: fastness.Sandbox) -> None:
    """They compute, draw and read files in each guest as they do elsewhere."""
    needs("numpy", "pandas")
    code = (
        "import numpy as np, pandas as pd, threading\n"
        "f = pd.read_csv('d.csv'); f['c'] = f.a * f.b; f.to_csv('out.csv', index=False)\n"
        "a = np.random.rand(60, 60); u, s, v = np.linalg.svd(a); assert np.allclose(u @ np.diag(s) @ v, a)\n"
        "[int(f.c.sum()), f.groupby('a').b.sum().to_dict() == {1: 2, 3: 4}, threading.active_count()]"
    )
    result = box.run(code, preload=("numpy", "pandas"), files={"d.csv": "a,b\n1,2\n3,4\n"})
    assert result.value == [14, True, 1], result.stderr
    assert result.files["out.csv"].read() == b"a,b,c\n1,2,2\n3,4,12\n"


# what it says


def test_a_value_that_is_too_large(box: fastness.Sandbox) -> None:
    """A huge value or repr is cut to a bounded text."""
    for code in ("'x' * (20 << 20)", "class A:\n  def __repr__(self): return 'x' * (20 << 20)\nA()", "[0] * 3_000_000"):
        result = box.run(code)
        assert result.outcome.kind is OutcomeKind.OK
        assert result.value is None
        assert result.value_repr is not None and len(result.value_repr) <= 4200


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("import os; os.write(3, b'x' * 100)", "protocol"),
        ("import os\nwhile True: os.write(3, b'x' * 65536)", "protocol"),
        ("import os, time; os.close(3); time.sleep(60)", "protocol"),
        ("import os; os.close(3)", "guest_error"),
        ("import os, struct; os.write(3, struct.pack('>BBHII', 1, 0x48, 0, 1 << 30, 0)); import time; time.sleep(9)", "protocol"),
        ("import os, struct; os.write(3, struct.pack('>BBHII', 1, 0x48, 0, 2, 1 << 31) + b'{}')", "protocol"),
        ("import os, struct; os.write(3, struct.pack('>BBHII', 1, 0x48, 0, 2, 0) + b'{}')", "protocol"),
        ("import os, struct; os.write(3, struct.pack('>BBHII', 1, 0x41, 0, 2, 0) + b'{}')", "protocol"),
        ("import _fastness as f; f._answer = None; 5", "protocol"),
        ("import _fastness_native as n; n._answers.append(b'{}'); 5", "ok"),
        ("import _fastness_native as n; n.json = None; 5", "ok"),
        ("import _fastness_native as n; n._HEADER = None", "guest_error crashed protocol"),
        ("import sys; sys.modules.clear(); 5", "ok"),
        ("import builtins; builtins.__dict__.clear(); 5", "ok protocol guest_error"),
    ],
)  # fmt: skip
def test_a_guest_that_breaks_its_own_conversation(code: str, kinds: str, box: fastness.Sandbox) -> None:
    """What comes from the guest's side is checked, and the next run works."""
    result = box.run(code, timeout=5)
    assert result.outcome.kind.value in kinds.split(), result.outcome
    assert result.usage.wall_s < 4
    assert "/fastness/" not in result.stderr
    assert box.run("6 * 7").value == 42
