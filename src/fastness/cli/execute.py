"""
``fastness exec``: a command on a copy of a project, what it changed there, and bringing that into the project.
"""

from __future__ import annotations

import os
from typing import Any

import click

from fastness.cli import exits
from fastness.cli.console import denial_table, detail, err, outcome_line, say, size, stderr_console, table
from fastness.cli.run import execute as run_request
from fastness.cli.run import read_stdin, variables
from fastness.cli.visible import one_line
from fastness.errors import ApplyRefused, ConfigurationError
from fastness.limits import Limits, size_of
from fastness.runs import Applied, Changes, RunResult

#: Columns that tables take at most, also on a wider terminal.
_WIDTH = 80
#: Rows that a table has at most; the rest is counted.
_ROWS = 200


def execute(
    *,
    command: tuple[str, ...],
    tier: str | None,
    work: str | None,
    do_apply: bool,
    allow: tuple[str, ...],
    include: tuple[str, ...],
    as_json: bool,
    raw: bool,
    **options: Any,
) -> int:
    """Run one command.  Returns the exit code; raises ``FastnessError``."""
    if work is not None and options["bind"] is not None:
        raise click.UsageError("--bind is the folder itself, and --work a copy of one: give one of the two")
    if work is None:
        for name, given in (("--apply", do_apply), ("--include", include), ("--allow-apply", allow)):
            if given:
                raise click.UsageError(f"{name} needs --work DIR")
    elif allow and not do_apply:
        raise click.UsageError("--allow-apply needs --apply")
    request: dict[str, Any] = {name: options[name] for name in ("timeout", "memory", "image", "bind")}
    request |= {"command": command, "work": work, "include": include or None, "env": variables(options["env"])}
    if request["memory"] is not None:
        request["memory"] = size_of("memory", request["memory"], "--memory")
    request["limits"] = _limits(options["disk"], options["max_files"], options["pids"])
    if options["stdin"] is not None:
        request["stdin"] = read_stdin(options["stdin"])
    if tier is None and not (os.environ.get("FASTNESS_TIER") or os.environ.get("FASTNESS_RUNTIME")):
        tier = "isolated"
    unmet = [name for name in include if work is not None and not _is_there(work, name)]
    result = run_request(tier, request, as_json=as_json, raw=raw)
    if as_json:
        # Before anything is applied: a refusal must not cost the caller the result.
        say(result.to_json())
    else:
        _show(result, work)
    for name in unmet:
        err(f"--include {name}: there is no such file or folder in {work}")
    return _finish(result, work, allow, do_apply=do_apply, as_json=as_json)


def _limits(disk: str | None, files: int | None, pids: int | None) -> dict[str, int] | None:
    limits: dict[str, int] = {}
    if disk is not None:
        limits["file_bytes"] = size_of("file_bytes", disk, "--disk")
    for name, option, count in (("files", "--max-files", files), ("pids", "--pids", pids)):
        if count is not None:
            limits[name] = count
            try:
                Limits(**{name: count})
            except ConfigurationError as error:
                raise ConfigurationError(option, error.value, error.allowed) from None
    return limits or None


def _is_there(work: str, name: str) -> bool:
    """Whether a project has something of this path, or anywhere something of this name."""
    from fastness.runner.withheld import spelled

    wanted = spelled(name)
    if os.path.lexists(os.path.join(work, wanted)):
        return True
    return "/" not in wanted and any(wanted in (*folders, *files) for _, folders, files in os.walk(work))


def _finish(result: RunResult, work: str | None, allow: tuple[str, ...], *, do_apply: bool, as_json: bool) -> int:
    """Apply where that was asked for, and say what became of the changes."""
    code = exits.of_outcome(result.outcome.kind)
    if not result.ok:
        if not as_json:
            err(outcome_line(result))
        if do_apply:
            err("nothing was applied, because the command did not end well")
        return code
    if not do_apply:
        if work is not None and not as_json and _count(result.changes):
            err(f"{work} is as it was; --apply brings the changes in")
        return code
    from fastness.runner.triggers import is_allowed

    changes = result.changes
    for name in allow:
        if not any(is_allowed(path, (name,)) for path in (*changes.added, *changes.changed, *changes.deleted)):
            err(f"--allow-apply {name}: nothing of that name was changed")
    try:
        applied = result.apply(allow=allow)
    except ApplyRefused as error:
        _show_problems(error)
        return exits.of_error(error)
    if not as_json:
        err(_summary(applied))
    return code


def _show(result: RunResult, work: str | None) -> None:
    """Refusals, changes, and what was left out: on standard error, beside the command's own output."""
    if result.denials or result.usage.denials_dropped:
        _print(denial_table(result.denials, result.usage.denials_dropped))
    if result.outcome.dropped_bytes:
        err(f"{size(result.outcome.dropped_bytes)} of output were shown and not kept in the result")
    if _count(result.changes):
        _print(change_table(result))
    elif work is not None:
        err("no file was changed")
    if result.changes.left_out:
        _print(left_out_table(result.changes.left_out))
    if not result.sandboxed:
        err("this run was NOT sandboxed")


def _print(made: Any) -> None:
    # Only where there is a table: what draws it takes long to import.
    console = stderr_console()
    console.print(made, width=min(_WIDTH, console.width))


def _count(changes: Changes) -> int:
    return len(changes.added) + len(changes.changed) + len(changes.deleted)


def change_table(result: RunResult) -> Any:
    """What the command added, changed and deleted: size, the digest's beginning, and where a link leads or the mode."""
    changes = result.changes
    made = table("", "path", "size", "sha256", "mode", wrap=("path",))
    rows = [("added", path) for path in changes.added] + [("changed", path) for path in changes.changed]
    rows += [("deleted", path) for path in changes.deleted]
    rows.sort(key=lambda row: row[1])
    for what, path in rows[:_ROWS]:
        file = result.files.get(path)
        shown = one_line(path, 300)
        if path in changes.links and what != "deleted":
            shown += f" -> {one_line(changes.links[path], 300)}"
        made.add_row(
            what,
            shown,
            size(file.size) if file is not None else "",
            file.sha256[:12] if file is not None else "",
            one_line(changes.modes.get(path, ""), 8),
        )
    if len(rows) > _ROWS:
        made.add_row("...", f"{len(rows) - _ROWS} more", "", "", "")
    return made


def left_out_table(left_out: dict[str, str]) -> Any:
    """What of the project the command did not get, and why."""
    made = table("left out of the copy", "why", wrap=("left out of the copy", "why"))
    for path in sorted(left_out)[:_ROWS]:
        made.add_row(one_line(path, 300), one_line(left_out[path], 120))
    if len(left_out) > _ROWS:
        made.add_row(f"... {len(left_out) - _ROWS} more", "")
    return made


def _show_problems(error: ApplyRefused) -> None:
    err(f"{error.summary}:")
    told = (*error.kept, *error.problems)
    for problem in told[:_ROWS]:
        detail(one_line(problem, 400))
    if len(told) > _ROWS:
        detail(f"... {len(told) - _ROWS} more")
    if any("acts on it by itself" in problem for problem in error.problems):
        err("look at those files first, then name each, or its folder, with --allow-apply PATH")


def _summary(applied: Applied) -> str:
    counts = [
        f"{len(paths)} {what}"
        for what, paths in (("added", applied.added), ("changed", applied.changed), ("deleted", applied.deleted))
        if paths
    ]
    return f"applied to {applied.folder}: {', '.join(counts) or 'nothing'}"
