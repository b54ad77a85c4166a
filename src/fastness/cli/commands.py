"""
The commands and their options.  Bodies live in modules of their own, imported when the command is called.
"""

from __future__ import annotations

from typing import Any

import click

import fastness

_RUNTIMES = ("python", "javascript", "wasi")
_GUESTS = ("python", "javascript")
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on stdout.")
bind_option = click.option(
    "--bind", metavar="DIR", help="In the tier container: DIR itself as /work, without a quota and changed at once."
)


class _Commands(click.Group):
    """Imports the commands of ``fastness plugin``, of which there are many, where one of them may be meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), "plugin"})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "plugin":
            from fastness.cli.plugin import plugin

            return plugin
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Commands, context_settings=_CONTEXT)
@click.version_option(fastness.__version__, prog_name="fastness", message="%(prog)s %(version)s")
def cli() -> None:
    """Run code that you did not write, and see what was enforced."""


@cli.command(context_settings=_CONTEXT)
@click.argument("arguments", nargs=-1, metavar="[FILE | -] [-- ARGS]...")
@click.option("-c", "code", metavar="CODE", help="The program as text.")
@click.option("--tier", metavar="T", help="Tier to run in, or auto.  [default: wasm]")
@click.option(
    "--runtime", type=click.Choice(_RUNTIMES), help="Language.  [default: by .py .js .mjs .wasm, else python]"
)
@click.option("--preload", metavar="M,M", help="Modules that are imported before the run, in its memory image.")
@click.option("--timeout", type=float, metavar="S", help="Seconds that the guest may take.  [default: 30]")
@click.option("--memory", metavar="SIZE", help="What the run may add, such as 256M.  [default: 512M]")
@click.option("--file", "files", multiple=True, metavar="SRC[:DST]", help="Copy a file to /work/DST.  May be repeated.")
@click.option(
    "--stdin", metavar="FILE", help="The guest's standard input; - for that of this command.  [default: empty]"
)
@click.option(
    "--out", type=click.Path(file_okay=False), metavar="DIR", help="Save new and changed files of /work here."
)
@click.option("--env", multiple=True, metavar="K=V", help="A variable for the guest.  May be repeated.")
@click.option("--dir", "dirs", multiple=True, metavar="HOST:GUEST", help="Copy a folder in.  May be repeated.")
@click.option("--seed", type=int, metavar="N", help="Fix randomness and the hash seed.")
@click.option("--time", "clock", metavar="T", help="Fix the clock: seconds since 1970, or an ISO 8601 time.")
@click.option("--image", metavar="I", help="Image to run in, for tiers that have images.")
@bind_option
@click.option("--raw", is_flag=True, help="Pass the guest's output on unchanged, control characters and all.")
@json_option
def run(**options: Any) -> int:
    r"""
    Run a program in a sandbox.

    The program is FILE, standard input (-), or CODE.  It sees /work, which starts with what --file and --dir copy
    there, and nothing of this machine.  Refusals are listed on standard error after the run.

    Control characters in the guest's output are shown as escapes (\x1b), wherever it goes; --raw passes exact bytes.

    Exit codes: 0 ok; 1 the program failed; 2 wrong usage; 3 the tier does not hold here; 4 a limit; 70 the machinery
    failed; 130 cancelled.  The program's own status is in exit_code of --json.
    """
    from fastness.cli.run import run as body

    return body(**options)


@cli.command("exec", context_settings=_CONTEXT)
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...")
@click.option("--tier", metavar="T", help="Tier to run in.  [default: isolated]")
@click.option("--work", metavar="DIR", help="A project; the command gets a copy of it as its /work.")
@click.option("--apply", "do_apply", is_flag=True, help="Bring the changes into DIR where the command ends well.")
@click.option("--allow-apply", "allow", multiple=True, metavar="PATH", help="Apply this too, though tools act on it.")
@click.option("--include", multiple=True, metavar="NAME", help="Copy this too, though it looks like a secret.")
@click.option("--timeout", type=float, metavar="S", help="Seconds that the command may take.  [default: 30]")
@click.option("--memory", metavar="SIZE", help="What it may use, such as 2G; --disk comes on top.  [default: 512M]")
@click.option("--disk", metavar="SIZE", help="Bytes of all files in /work.  [default: 256M]")
@click.option("--max-files", type=int, metavar="N", help="Files and folders in /work.  [default: 10000]")
@click.option("--pids", type=int, metavar="N", help="Processes and threads at once.  [default: 64]")
@click.option("--env", multiple=True, metavar="K=V", help="A variable for the command.  May be repeated.")
@click.option("--stdin", metavar="FILE", help="Its standard input; - for that of this command.  [default: empty]")
@click.option("--image", metavar="I", help="Image to run in, for tiers that have images.")
@bind_option
@click.option("--raw", is_flag=True, help="Pass the output on unchanged, control characters and all.")
@json_option
def execute(**options: Any) -> int:
    """
    Run any program on a copy of a project, and see what it changed.

    The project itself is not touched; with --apply all changes are brought into it after the command, or none.
    Changes to files that tools run by themselves (.git, package.json, conftest.py...) are refused unless each, or
    its folder, is named with --allow-apply.  What looks like a secret is not copied unless it is named with --include.

    Exit codes: 0 ok; 1 the command failed, or --apply was refused; 2 wrong usage; 3 the tier does not hold here;
    4 a limit; 70 the machinery failed; 130 cancelled.  The command's own status is in exit_code of --json.
    """
    from fastness.cli.execute import execute as body

    return body(**options)


@cli.command(context_settings=_CONTEXT)
@json_option
@click.option("--tier", "tiers", multiple=True, metavar="T", help="Try only this tier.  May be repeated.")
@click.option("--sweep", is_flag=True, help="Remove what a killed Fastness process left behind.")
def doctor(tiers: tuple[str, ...], as_json: bool, sweep: bool) -> int:
    """
    Show which tiers hold on this machine: each guarantee with its proof, each gap with its fix.

    All of it is tried anew.  Exit code 3 where the default tier does not hold, or one that --tier names.
    """
    from fastness.cli.doctor import doctor as body

    return body(tiers=tiers, as_json=as_json, sweep=sweep)


@cli.command(context_settings=_CONTEXT)
@click.option("--tier", "tiers", multiple=True, metavar="T", help="Only this tier.  May be repeated.")
@click.option("--only", "only", multiple=True, metavar="ID", help="Only this attack or family.  May be repeated.")
@click.option("--quick", is_flag=True, help="Only a few, of each family in each tier: some seconds instead of minutes.")
@click.option("--jobs", type=int, metavar="N", help="How many are made at once.  [default: by the processors]")
@click.option("--html", type=click.Path(dir_okay=False), metavar="FILE", help="Write a report for people, as one page.")
@click.option("--write-doc", type=click.Path(dir_okay=False), metavar="FILE", help="Write the table of boundaries.")
@click.option("-v", "verbose", is_flag=True, help="Show each attack: what it tried and what was seen.")
@json_option
def attack(**options: Any) -> int:
    """
    Attack this machine's tiers with the shipped corpus.

    Each attack also runs where nothing stops it (its control): one that cannot succeed there proves nothing and is
    void.  Without --tier all tiers that hold here are attacked, and the others are named with what they lack.

    Exit codes: 0 everything was stopped as stated; 1 an attack escaped, was void, or was stopped by something else
    than what is stated; 2 wrong usage; 3 a tier that --tier names does not hold here, or none does.
    """
    from fastness.cli.attack import attack as body

    return body(**options)


@cli.command(context_settings=_CONTEXT)
@json_option
@click.option("--quick", is_flag=True, help="Fewer repetitions: minutes become seconds, figures become rough.")
@click.option("--only", "only", multiple=True, metavar="PART", help="Only this part, such as native.  May be repeated.")
def bench(as_json: bool, quick: bool, only: tuple[str, ...]) -> int:
    """Measure this machine: runs side by side with bare processes."""
    from fastness.cli.bench import bench as body

    return body(as_json=as_json, quick=quick, only=only)


@cli.group(context_settings=_CONTEXT)
def guest() -> None:
    """List, build, verify and remove guests: the interpreters that run inside."""


@guest.command("list", context_settings=_CONTEXT)
@json_option
def guest_list(as_json: bool) -> int:
    """Show each guest, what it holds, and what it takes on disk."""
    from fastness.cli import guest as bodies

    return bodies.list_guests(as_json=as_json)


@guest.command("build", context_settings=_CONTEXT)
@click.argument("names", nargs=-1, metavar="[python] [javascript]")
@click.option("--preload", metavar="M,M", help="Modules of the memory image.  [default: numpy,pandas,matplotlib]")
def guest_build(names: tuple[str, ...], preload: str | None) -> int:
    """Build guests whole, with their memory image, ahead of the first use.  Without a name: all."""
    from fastness.cli import guest as bodies

    return bodies.build(names or _GUESTS, preload)


@guest.command("verify", context_settings=_CONTEXT)
@json_option
def guest_verify(as_json: bool) -> int:
    """Check every byte that guests are made of.  Exit code 1 where something was damaged; it is built again on use."""
    from fastness.cli import guest as bodies

    return bodies.verify(as_json=as_json)


@guest.command("prune", context_settings=_CONTEXT)
@click.option("--all", "everything", is_flag=True, help="Remove what this version uses, too.")
def guest_prune(everything: bool) -> int:
    """Remove what no guest of this version uses."""
    from fastness.cli import guest as bodies

    return bodies.prune(everything=everything)


@cli.group(context_settings=_CONTEXT)
def image() -> None:
    """Make and list images of the tier container; no registry is ever asked."""


@image.command("build", context_settings=_CONTEXT)
@click.option(
    "--from",
    "source",
    type=click.Choice(("host", "debian")),
    default="host",
    help="This very interpreter, or Debian's packages of Python.  [default: host]",
)
@click.option("--with", "packages", metavar="P,P", help="Packages to put in, such as numpy,pandas.")
@click.option("--name", metavar="NAME:TAG", help="[default: the image of runs that name none]")
def image_build(**options: Any) -> int:
    """
    Make an image and hand it to the engine; prints its id.

    The same files make the same image, byte for byte, on either engine.
    """
    from fastness.cli import image as bodies

    return bodies.build(**options)


@image.command("list", context_settings=_CONTEXT)
@json_option
def image_list(as_json: bool) -> int:
    """Show the images that have this package's label."""
    from fastness.cli import image as bodies

    return bodies.list_images(as_json=as_json)


@cli.command(context_settings=_CONTEXT)
@click.argument("tier")
def explain(tier: str) -> int:
    """Say what a tier promises, what it does not, and whether it holds here."""
    from fastness.cli.explain import explain as body

    return body(tier)


@cli.group(context_settings=_CONTEXT, invoke_without_command=True)
@click.option("--plugin", metavar="P", help="Only records of this plugin.")
@click.option("--owner", metavar="O", help="Only records of what was done for this owner.")
@click.option("--since", metavar="T", help="Only later ones: seconds since 1970, an ISO 8601 time, or 30m, 2h, 7d ago.")
@click.option("-n", "count", type=click.IntRange(min=0), default=0, metavar="N", help="The last N.  [default: 100]")
@click.option("--follow", is_flag=True, help="Go on and show what is recorded from now on.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; without -n, all records.")
@click.pass_context
def audit(context: click.Context, /, **options: Any) -> int | None:
    """
    Show the audit trail: what plugins and unsandboxed runs did, what was refused, and what was granted.

    Control characters in what guests named are shown as escapes.
    """
    if context.invoked_subcommand is not None:
        return None
    from fastness.cli.audit import show as body

    return body(**options)


@audit.command("verify", context_settings=_CONTEXT)
@click.option("--head", metavar="NUMBER:HASH", help="What anchor printed at an earlier time.")
@json_option
def audit_verify(head: str | None, as_json: bool) -> int:
    """
    Find records that were edited, removed or moved, and with --head a tail that was cut off or written anew.

    Exit code 1 where something was found.
    """
    from fastness.cli.audit import check as body

    return body(head=head, as_json=as_json)


@audit.command("anchor", context_settings=_CONTEXT)
@json_option
def audit_anchor(as_json: bool) -> int:
    """Print number and hash of the last record, to be kept where nobody who can write here can."""
    from fastness.cli.audit import print_anchor as body

    return body(as_json=as_json)


@audit.command("prune", context_settings=_CONTEXT)
@click.option("--before", required=True, metavar="T", help="As --since of fastness audit.")
def audit_prune(before: str) -> int:
    """Remove records from before a time; a sealed checkpoint stands for them from then on."""
    from fastness.cli.audit import prune as body

    return body(before=before)
