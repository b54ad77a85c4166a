"""Files that tools run by themselves, reached by another name: a link makes a file of the project one of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_support import Copy, picture, write

from fastness.errors import ApplyRefused
from fastness.runner import acting, aliases
from fastness.runner.aliases import Aliases


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    return Copy(tmp_path)


def refused(copy: Copy, *allow: str) -> str:
    before = picture(copy.real, folders=True)
    with pytest.raises(ApplyRefused) as caught:
        copy.apply(allow)
    assert picture(copy.real, folders=True) == before
    return "; ".join(caught.value.problems)


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize(
    ("links", "path", "by"),
    [
        ({".git/hooks/pre-commit": "../../scripts/pc.sh"}, "scripts/pc.sh", "git"),
        ({"conftest.py": "sub/conf_impl.py"}, "sub/conf_impl.py", "pytest"),
        ({".git/hooks": "../hooks"}, "hooks/pre-commit", "git"),
        ({".git/hooks": "../hooks", "hooks/pre-commit": "../impl/run"}, "impl/run", "git"),
        ({".git/hooks": "../a", "a/pre-commit": "../b/x", "b/x": "../c/y"}, "c/y", "git"),
        ({".github": "meta"}, "meta/workflows/build.yml", "continuous integration"),
        ({"all": ".", "Makefile": "all/build/rules"}, "build/rules", ""),
    ],
)
def test_a_file_that_a_link_of_the_project_leads_to(copy: Copy, links: dict[str, str], path: str, by: str) -> None:
    """What the guest changed is what the tool runs, whatever it is called; named, it is applied."""
    write(copy.real / path, b"1")
    for name, target in links.items():
        link(copy.real / name, target)
    copy.fill()
    write(copy.work / path, b"EVIL")
    if by:
        assert f"{by} acts on it by itself" in refused(copy)
    copy.apply((path,))
    assert (copy.real / path).read_bytes() == b"EVIL"


@pytest.mark.parametrize(
    ("name", "target", "path"),
    [
        (".cargo", "z", "z/config.toml"),
        (".github", "x", "x/workflows/e.yml"),
        ("gradle", "g", "g/wrapper/gradle-wrapper.properties"),
        (".config", "c", "c/fish/config.fish"),
        ("a/.config", "../deep/c", "deep/c/fish/config.fish"),
    ],
)
def test_a_link_of_the_guests_that_makes_a_file_one_of_them(copy: Copy, name: str, target: str, path: str) -> None:
    """Both together are refused, and the link alone where the file was there before."""
    copy.fill()
    write(copy.work / path, b"EVIL")
    link(copy.work / name, target)
    assert "by itself" in refused(copy)


def test_a_link_to_what_was_there_before(copy: Copy) -> None:
    write(copy.real / "samples/config.toml", b"[build]")
    copy.fill()
    link(copy.work / ".cargo", "samples")
    assert "would act by itself on .cargo/config.toml, where this link leads" in refused(copy)
    copy.apply((".cargo",))
    assert (copy.real / ".cargo/config.toml").read_bytes() == b"[build]"


def test_a_link_that_the_guest_takes_away_counts_until_it_is_gone(copy: Copy) -> None:
    write(copy.real / "scripts/pc.sh", b"1")
    link(copy.real / "conftest.py", "scripts/pc.sh")
    copy.fill()
    (copy.work / "conftest.py").unlink()
    write(copy.work / "scripts/pc.sh", b"EVIL")
    assert "scripts/pc.sh: " in refused(copy, "conftest.py")


def test_ordinary_links_are_no_matter(copy: Copy) -> None:
    """Also those that lead round in a ring, as packages of one workspace do."""
    for name in "abc":
        write(copy.real / f"packages/{name}/index.js", b"1")
        for other in "abc":
            link(copy.real / f"packages/{name}/node_modules/{other}", f"../../{other}")
    link(copy.real / "current", "packages")
    link(copy.real / "loop", "loop")
    copy.fill()
    write(copy.work / "packages/a/index.js", b"2")
    link(copy.work / "latest", "packages/a")
    copy.apply(())
    assert (copy.real / "latest/index.js").read_bytes() == b"2"


def test_more_links_than_are_looked_at_are_refused(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (aliases, acting):
        monkeypatch.setattr(module, "MANY", 50)
    write(copy.real / "a/file", b"1")
    copy.fill()
    for number in range(51):
        link(copy.work / f"links/{number}", "../a")
    write(copy.work / "a/file", b"2")
    assert "more links lead to it than are looked at" in refused(copy)


def test_many_links_to_a_folder_of_many_files_are_refused(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names are counted over the whole change, not for each file anew."""
    monkeypatch.setattr(acting, "_LOOKS", 500)
    copy.fill()
    for number in range(40):
        link(copy.work / f"links/{number}", "../a")
        write(copy.work / f"a/{number}", b"1")
    assert "give more names than are looked at" in refused(copy)


names = st.text("ab.", min_size=1, max_size=2)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@given(st.dictionaries(paths, paths, max_size=6), paths)
def test_other_names_lead_to_the_same(links: dict[str, str], path: str) -> None:
    """Each other name, followed by its links, ends where the path itself ends."""
    real = {
        name: end
        for name, end in links.items()
        if not any(other != name and f"{name}/".startswith(f"{other}/") for other in links)
    }
    tree = Aliases(real)
    parts = [part for part in path.split("/") if part not in (".", "..")]
    path = "/".join(parts)
    if not path or tree._resolve(path) != path:
        return
    for other in tree.of(path):
        assert tree._resolve(other) == path
