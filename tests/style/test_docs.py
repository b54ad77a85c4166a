"""The documentation says what the code does: names, options, limits, outcomes, exit codes, rows and links."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import fastness
import fastness.testing
from fastness.backends import registry
from fastness.bench import broker, native
from fastness.cli import exits
from fastness.limits import GIB, KIB, MIB, RANGES, Limits
from fastness.runner.request import OPTIONS
from fastness.runs import DenialCode, OutcomeKind, RunResult
from fastness.tier import LIMITS_OF, Tier

ROOT = Path(__file__).resolve().parents[2]
API = (ROOT / "docs" / "api.md").read_text("utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def section(title: str, text: str = API) -> str:
    """The part of a page under a heading, with its sub-headings."""
    found = re.search(rf"^(#+) {re.escape(title)}$\n(.*?)(?=^#{{1,2}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no heading {title!r}"
    if found[1] == "###":
        return found[2].split("\n### ")[0]
    return found[2]


def rows(text: str) -> list[list[str]]:
    """Cells of every table row whose first cell is in backticks or a number."""
    lines = [line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line] for line in lines]
    return [row for row in cells if row[0].startswith("`") or row[0].isdigit()]


def first(text: str) -> set[str]:
    """The names in the first column of all tables of a text."""
    return {row[0].strip("`") for row in rows(text)}


def number(text: str) -> float:
    """A quantity as the limits table writes it."""
    value, _, unit = text.replace(",", "").partition(" ")
    return float(value) * {"": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}[unit]


def test_every_public_name_is_documented() -> None:
    """Each name of ``fastness.__all__`` has a row, and no row names what does not exist."""
    public = re.sub(r"^## Options of `run`$.*?(?=^## )", "", API, flags=re.MULTILINE | re.DOTALL)
    # The result's own heading documents it; a name that is only a submodule or an option is none of ours.
    documented = (first(public) & set(fastness.__all__)) | set(re.findall(r"^## `(\w+)`$", API, re.MULTILINE))
    assert documented == set(fastness.__all__)
    for part in ("Running code", "Tiers", "Errors"):
        assert first(section(part)) <= set(fastness.__all__)


def test_every_name_of_the_testing_kit_is_documented() -> None:
    """The same for ``fastness.testing``."""
    assert first(section("`fastness.testing`")) == set(fastness.testing.__all__)


def test_options_are_those_of_the_code() -> None:
    """Each option of ``run`` has a row; ``code`` is its positional argument."""
    table = section("Options of `run`").split("\n### ")[0]
    assert first(table) == set(OPTIONS)


def test_result_fields_are_those_of_the_code() -> None:
    """Each field of a result has a row, in the order of the code."""
    table = section("`RunResult`").split("**Plain data**")[0]
    assert [row[0].strip("`") for row in rows(table)] == list(RunResult.__struct_fields__)


@pytest.mark.parametrize("name", list(RANGES))
def test_limits_are_those_of_the_code(name: str) -> None:
    """Default and range of each limit are as documented."""
    table = {row[0].strip("`"): row for row in rows(section("Limits"))}
    assert set(table) == set(RANGES) == set(Limits.__struct_fields__)
    _, default, span, _ = table[name]
    low, high = span.split(" to ")
    # The lower end of a range may leave its unit to the upper one only where it is zero.
    assert (number(default), number(low), number(high)) == (getattr(Limits(), name), *RANGES[name])


def test_outcomes_their_errors_and_exit_codes_are_those_of_the_code() -> None:
    """Each outcome has a row with the error that it raises and the command's exit code."""
    table = {row[0].strip("`"): row for row in rows(section("Outcomes"))}
    assert set(table) == {kind.value for kind in OutcomeKind}
    for kind in OutcomeKind:
        _, _, error, code = table[kind.value]
        assert int(code) == exits.of_outcome(kind)
        result = RunResult(outcome=fastness.Outcome(kind))
        if kind is OutcomeKind.OK:
            assert error == ""
            continue
        with pytest.raises(fastness.RunFailed) as caught:
            result.raise_for_outcome()
        assert type(caught.value).__name__ == error.strip("`")


def test_exit_codes_are_those_of_the_code() -> None:
    """The table of exit codes lists the codes of the command, and no others."""
    defined = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert {int(row[0]) for row in rows(section("Exit codes"))} == defined


def test_denial_codes_are_those_of_the_code() -> None:
    """Each denial code is named."""
    assert set(re.findall(r"`(\w+)`", section("Denial codes"))) == {code.value for code in DenialCode}


def test_the_json_example_has_the_fields_of_the_code() -> None:
    """The example of ``--json`` has exactly the fields that a result prints, in their order."""
    example = re.search(r"```json\n(.*?)```", section("`--json`"), re.DOTALL)
    assert example is not None
    text = example[1].replace("null", "None").replace("true", "True").replace("false", "False")
    assert list(ast.literal_eval(text)) == list(RunResult(outcome=fastness.Outcome(OutcomeKind.OK)).to_dict())


def test_tiers_are_said_to_be_there_only_where_they_are() -> None:
    """The page on tiers says yes for the tiers that a backend serves, and no for all others."""
    page = (ROOT / "docs" / "choosing-a-tier.md").read_text("utf-8")
    table = rows(section("What each tier promises", page))
    said = {row[0].strip("`"): row for row in table}
    assert set(said) == {tier.value for tier in Tier}
    for tier in Tier:
        assert int(said[tier.value][1]) == tier.strength
        assert said[tier.value][3].strip("*").startswith("yes") == (tier in registry.SERVED)


def test_what_tiers_do_not_stop_is_that_of_the_code() -> None:
    """``fastness explain`` says the same as the page."""
    page = (ROOT / "docs" / "choosing-a-tier.md").read_text("utf-8")
    said = {row[0].strip("`"): row[1] for row in rows(section("What each tier does not stop", page))}
    assert said == {tier.value: limits for tier, limits in LIMITS_OF.items()}


def test_speed_promises_are_those_of_the_benchmark() -> None:
    """Each promised row of the specification is a row of ``fastness bench``, and the other way round."""
    source = (ROOT / "src" / "fastness" / "bench" / "measure.py").read_text("utf-8")
    page = section("Speed", (ROOT / "SPECIFICATION.md").read_text("utf-8"))
    named = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")][1:]
    for name in named:
        assert f'"{name}"' in source, name
    tree = ast.walk(ast.parse(source))
    calls = [n for n in tree if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "Row"]
    for call in calls:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if "promise" in given and isinstance(given["name"], ast.Constant):
            assert given["name"].value in named


def test_speed_promises_of_native_tiers_are_those_of_the_benchmark() -> None:
    """Each row of the specification is promised by ``fastness bench`` with the same bound, and the other way round."""
    page = section("Speed of the native tiers", (ROOT / "SPECIFICATION.md").read_text("utf-8"))
    cells = [[cell.strip() for cell in line.split("|")[1:3]] for line in page.splitlines() if line.startswith("| ")][1:]
    promised = {
        name: f"at {'least' if name in native.AT_LEAST else 'most'} {n:,g}" for name, n in native.PROMISES.items()
    }
    assert {name for name, _ in cells} == set(promised)
    for name, text in cells:
        assert re.match(rf"{re.escape(promised[name])}\b", text), (name, text)


def test_speed_promises_of_the_broker_are_those_of_the_benchmark() -> None:
    """The same for brokered calls and plugins."""
    page = section("Speed of brokered calls and plugins", (ROOT / "SPECIFICATION.md").read_text("utf-8"))
    cells = [[cell.strip() for cell in line.split("|")[1:3]] for line in page.splitlines() if line.startswith("| ")][1:]
    assert {name for name, _ in cells} == set(broker.PROMISES)
    for name, text in cells:
        assert re.match(rf"at most {broker.PROMISES[name]:,g}\b", text), (name, text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of this repository, and a heading of it where it says so."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", found.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, target
