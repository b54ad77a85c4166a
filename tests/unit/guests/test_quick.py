"""The quick module of the Python guest: the whole standard library, none of the packages, within seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastness._wasi import builder, guests, needs, stubs, wasmbin
from fastness._wasi.cache import Cache

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The quick artefact, freshly compiled, with no background build after it."""
    cache = Cache(str(tmp_path_factory.mktemp("home") / "guests"))
    with builder.ensure("python", cache=cache, background_build=False) as artefact:
        assert artefact.variant == "quick"
        yield artefact


def _turn(artefact, source):
    fds = (artefact.fd, artefact.library[0].fd)
    command = [sys.executable, str(HERE / "turn.py"), str(fds[0]), artefact.settings.opt_level]
    command += [artefact.settings.regalloc, str(fds[1])]
    done = subprocess.run(
        command,
        input=source.encode(),
        pass_fds=fds,
        env={**os.environ, "PYTHONPATH": "src"},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def test_the_standard_library_works(quick):
    """Compression, databases, dates, codecs, hashing, archives, asyncio and the rest run on the quick module."""
    done = _turn(quick, (HERE / "stdlib_program.py").read_text())
    assert (done["trap"], done["output"]) == ("", "ok 49\n")


@pytest.mark.parametrize("package", ["numpy", "lxml.etree", "PIL._imaging", "regex"])
def test_a_package_meets_a_stub(quick, package):
    """Importing compiled code that was left out traps as `unreachable`: the sign to run again on the whole."""
    assert _turn(quick, f"import {package}")["trap"] == "unreachable"


@pytest.mark.parametrize("package", needs.NAMES)
def test_names_of_packages_that_meet_a_stub(quick, package):
    """Each of the names by which a program is known to need the whole module is one that does."""
    inside = {
        "lxml": "lxml.etree",
        "PIL": "PIL.Image",
        "reportlab": "reportlab.pdfgen.canvas",
        "statsmodels": "statsmodels.api",
        "mpl_toolkits": "mpl_toolkits.mplot3d",
    }
    assert _turn(quick, f"import {inside.get(package, package)}")["trap"] == "unreachable"


def test_what_a_text_says_of_packages():
    """Names are found however they are imported, and what only looks like one is not."""
    for text in (
        "import numpy",
        "import os, pandas as pd",
        "from PIL import Image",
        "__import__('lxml')",
        "import regex",
    ):
        assert needs.packages([text], {}), text
    for text in ("", "ctx.numpy", "numpyx = 1", "my_pandas", "pattern = regex", "import json, re"):
        assert not needs.packages([text], {}), text
    assert needs.packages([], {"a/b.py": b"\xff\nimport scipy"})
    assert not needs.packages([], {"a.csv": b"numpy"})


def test_exit_is_an_exit(quick):
    """Ending through the C library's exit does not run into the stubs of static destructors."""
    done = _turn(quick, "import os\nos._exit(3)")
    assert (done["trap"], done["exception"]) == ("host", "ProcExit(3)")


def test_the_cut_is_where_it_should_be():
    """The cut takes most functions and code, and a module without the landmarks is refused."""
    fd = guests.open_verified(guests.PYTHON, guests.PYTHON.code)
    with open(fd, "rb") as file:
        wasm = file.read()
    chosen = stubs.plan(wasm)
    assert chosen.bytes_left < 7_000_000
    assert len(chosen.trap) > 70_000
    assert len(wasmbin.body_sizes(stubs.quick_module(wasm))) < 15_000
    with pytest.raises(wasmbin.InvalidModule):
        stubs.plan(wasmbin.strip_custom(wasm))
