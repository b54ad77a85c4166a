"""Each preview 1 import is called by a WebAssembly program of its own, which checks the exact errno of each step."""

from __future__ import annotations

import pytest
from preview1_world import PROGRAMS, Machine, World

from fastness._wasi import binding, preview1

#: The denials that the programs cause, exactly: what is not listed here must not be recorded.
DENIED = {
    "fd_allocate": {("fd_allocate", "/work/new", "quota")},
    "fd_filestat_set_size": {("fd_filestat_set_size", "/work/hello.txt", "quota")},
    "fd_filestat_set_times": {("fd_filestat_set_times", "/lib/file.txt", "read_only")},
    "fd_pwrite": {("fd_pwrite", "/work/hello.txt", "quota")},
    "fd_write": {("fd_write", "/work/new", "quota")},
    "path_create_directory": {
        ("path_create_directory", "/abs", "outside"),
        ("path_create_directory", "/work/../up", "outside"),
        ("path_create_directory", "/d", "read_only"),
        ("path_create_directory", "/lib/d", "read_only"),
    },
    "path_filestat_get": {
        ("path_filestat_get", "/work/..", "outside"),
        ("path_filestat_get", "/work/full/../..", "outside"),
        ("path_filestat_get", "/etc/passwd", "outside"),
        ("path_filestat_get", "/etc/passwd", "absent"),
    },
    "path_filestat_set_times": {("path_filestat_set_times", "/lib/file.txt", "read_only")},
    "path_link": {("path_link", "/work/again", "wasi_refused"), ("path_link", "", "wasi_refused")},
    "path_open": {
        ("path_open", "/hello.txt", "outside"),
        ("path_open", "/work/../work/hello.txt", "outside"),
        ("path_open", "/work/full/../../work", "outside"),
        ("path_open", "/work/full/../hello.txt", "outside"),
        ("path_open", "/lib/file.txt", "read_only"),
        ("path_open", "/lib/x", "read_only"),
    },
    "path_readlink": {("path_readlink", "/work/../x", "outside")},
    "path_remove_directory": {
        ("path_remove_directory", "/work/..", "outside"),
        ("path_remove_directory", "/lib", "read_only"),
        ("path_remove_directory", "/work", "read_only"),
    },
    "path_rename": {
        ("path_rename", "/work/..", "outside"),
        ("path_rename", "/work/../x", "outside"),
        ("path_rename", "/new", "outside"),
        ("path_rename", "/lib/file.txt", "read_only"),
        ("path_rename", "/lib/x", "read_only"),
        ("path_rename", "/work", "read_only"),
    },
    "path_symlink": {("path_symlink", "/work/again", "wasi_refused"), ("path_symlink", "", "wasi_refused")},
    "path_unlink_file": {
        ("path_unlink_file", "/work/../x", "outside"),
        ("path_unlink_file", "/lib/file.txt", "read_only"),
    },
    "proc_raise": {("proc_raise", "6", "unsupported")},
    **{
        name: {(name, f"fd {fd}", "wasi_refused") for fd in (1, 4, 99)}
        for name in ("sock_accept", "sock_recv", "sock_send", "sock_shutdown")
    },
}


@pytest.fixture(scope="module")
def machine() -> Machine:
    """One engine for all programs."""
    return Machine()


def test_every_import_has_a_program() -> None:
    """Preview 1 has 46 imports; each has a program named after it, and there are no others."""
    assert len(preview1.SIGNATURES) == 46
    assert {path.stem for path in PROGRAMS.glob("*.wat")} == set(preview1.SIGNATURES)


@pytest.mark.parametrize("name", sorted(set(preview1.SIGNATURES) - {"proc_exit"}))
def test_program(name: str, machine: Machine) -> None:
    """Every step of the program ends with its errno, and exactly the refusals that are worth a row are recorded."""
    world = World()
    failed = machine.run((PROGRAMS / f"{name}.wat").read_text(), world)
    assert failed == 0, f"step {failed >> 16} gave {failed & 0xFFFF}"
    assert world.host.exc is None
    assert world.denied() == DENIED.get(name, set())


def test_proc_exit(machine: Machine) -> None:
    """``proc_exit`` ends the guest at once and its code is kept."""
    world = World()
    with pytest.raises(binding.Trap) as trap:
        machine.run((PROGRAMS / "proc_exit.wat").read_text(), world)
    assert trap.value.code == "host"
    assert isinstance(world.host.exc, preview1.ProcExit)
    assert world.host.exc.code == 77


def test_written_output_reaches_its_stream(machine: Machine) -> None:
    """What a program writes to 1 and 2 arrives as bytes, in order, with the stream's number."""
    world = World()
    machine.run((PROGRAMS / "fd_write.wat").read_text(), world)
    assert world.output == [(1, b"output\n"), (2, b"out")]


def test_a_program_can_not_change_the_shared_library(machine: Machine) -> None:
    """After every program the read-only tree is what it was: content, times, open counts, inode numbers, names."""
    world = World()
    for name in sorted(set(preview1.SIGNATURES) - {"proc_exit"}):
        fresh = World()
        fresh.root.entries["lib"] = world.library
        before = _state(world.library)
        machine.run((PROGRAMS / f"{name}.wat").read_text(), fresh)
        assert _state(world.library) == before, name


def _state(node: object) -> object:
    slots = [slot for kind in type(node).__mro__ for slot in getattr(kind, "__slots__", ())]
    values = {slot: getattr(node, slot) for slot in slots if slot not in {"entries", "parent", "fs"}}
    return values, {name: _state(child) for name, child in getattr(node, "entries", {}).items()}
