"""
Entry point of the ``fastness`` command.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys

from fastness.cli import early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


#: New objects after which the interpreter looks for garbage: more than imports make between two that are large.
_COLLECTED_AFTER = 100_000
#: What an option that we do not have was most likely meant for, by command.
_HINTS = {
    "fastness exec": "options of the command itself go after --: fastness exec --work DIR -- ls -la",
    "fastness run": "options of the program itself go after --: fastness run FILE -- --verbose",
}


def command() -> NoReturn:
    """
    The command line as a process: :func:`main`, and an end without taking the interpreter apart.

    To free every object takes longer than most else that a short command does, and the kernel takes all of it at once.
    """
    _have_streams()
    status: list[int] = []

    def end() -> None:
        if status:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except OSError:
                    pass  # told already, or there is nobody to tell
            os._exit(status[0])

    # What is registered first runs last: sandboxes are closed by then, and streams were written.  Others that were
    # here before, such as a tool that watches this process, would not get their turn.
    if not atexit._ncallbacks():
        atexit.register(end)
    status.append(main())
    sys.exit(status[0])


def _have_streams() -> None:
    """
    Open the null device where a stream was closed when this process was started (``<&-`` of a shell).

    Else the next file that is opened would have its number, and what is written to a stream, or read from one, would be
    that file's.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, as those below are not.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command line and return its exit code (see ``exits``).

    Errors go to standard error: what failed, whose fault it is, and the fix.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        import fastness

        print(f"fastness {fastness.__version__}")
        return 0
    if arguments is not None:
        return _run(given)
    # This process is one command: what is imported for it lives as long as it does, and is in nobody's way.
    gc.set_threshold(_COLLECTED_AFTER)
    try:
        early.begin(given)
        return _run(given)
    except KeyboardInterrupt:
        # While it still imported; what comes later is told where it is known how far a command was.
        print("fastness: cancelled", file=sys.stderr)
        return 130
    finally:
        early.end()
        # Nor is it worth a look when the interpreter ends.
        gc.freeze()


def _run(given: list[str]) -> int:
    import importlib.util

    try:
        import click  # noqa: F401  # only whether it is there

        if importlib.util.find_spec("rich") is None:
            raise ImportError(name="rich")
    except ImportError as error:
        print(
            f"fastness: the command line needs the package {error.name!r}, which is not installed. "
            "Fix: pip install 'fastness[cli,wasm]'",
            file=sys.stderr,
        )
        return 70
    code = _guarded(given)
    try:
        sys.stdout.flush()
    except OSError as error:
        unwritten = _unwritten(error)
        return code if isinstance(error, BrokenPipeError) else unwritten
    return code


def _unwritten(error: OSError) -> int:
    """What could not be written is given up, or the interpreter would complain once more at its end."""
    from fastness.cli import exits
    from fastness.cli.console import err, nobody_reads

    nobody_reads(sys.stdout)
    if not isinstance(error, BrokenPipeError):
        err(f"the output cannot be written: {error.strerror}.  Free space on the device that it goes to.")
    return exits.BROKEN


def _guarded(arguments: list[str]) -> int:
    """Run a command; every way in which it may fail becomes a message and an exit code."""
    import click

    from fastness.cli import exits
    from fastness.cli.commands import cli
    from fastness.cli.console import err, show_error
    from fastness.errors import FastnessError

    try:
        result = cli.main(args=arguments, prog_name="fastness", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return exits.USAGE
    except click.ClickException as error:
        err(error.format_message())
        usage = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx is not None else "fastness"
        if isinstance(error, click.NoSuchOption) and "--" not in arguments and usage in _HINTS:
            err(_HINTS[usage])
        err(f"see: {usage} --help")
        return exits.USAGE
    except FastnessError as error:
        show_error(error)
        return exits.of_error(error)
    except (KeyboardInterrupt, click.Abort) as error:
        err("cancelled")
        # Click raises another in its place.
        for note in getattr(error.__cause__ or error, "__notes__", ()):
            err(note)
        return exits.CANCELLED
    except SystemExit:
        # What click makes of a closed pipe, whose ever it was.
        err("nobody reads the output any more")
        return exits.BROKEN
    except Exception as error:  # noqa: BLE001  # shown with its traceback, as our bug
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            return _unwritten(error)
        import traceback

        err("this is a bug of Fastness; please report it with the lines below")
        traceback.print_exc()
        return exits.BROKEN
    return result if isinstance(result, int) else exits.OK


if __name__ == "__main__":
    sys.exit(main())
