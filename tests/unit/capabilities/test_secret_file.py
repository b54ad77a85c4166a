"""The operator's file of credentials: whose they are, who may read it, and what is said when it is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastness.capabilities._secret_file import SecretFile
from fastness.errors import AdapterError, ConfigurationError

VALUE = "sk-live-0123456789"
GOOD = f"""
[[secret]]
name = "weather"
owners = ["alice", "bob"]
origin = "https://api.test"
methods = ["GET"]
path = "/v1"
value = "{VALUE}"

[[secret]]
name = "nobodys"
origin = "https://api.test"
value = "{VALUE}"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.toml"
    path.touch(0o600)
    path.write_text(GOOD)
    return path


def test_each_owner_has_what_names_them(file: Path) -> None:
    """A credential is its owners' alone; without owners it is nobody's; other names and owners get nothing."""
    find = SecretFile(str(file))
    for owner in ("alice", "bob"):
        found = find(owner, "weather")
        assert found is not None
        assert found.value == VALUE
    assert find("eve", "weather") is None
    assert find("alice", "other") is None
    assert find("alice", "nobodys") is None
    assert find("*", "weather") is None
    assert VALUE not in repr(find)


def test_what_is_taken_out_is_gone_for_the_next_call(file: Path) -> None:
    """It is read again when it changes; when it cannot be, nothing goes out rather than something old."""
    find = SecretFile(str(file))
    assert find("alice", "weather") is not None
    file.write_text(GOOD.replace('"alice", ', ""))
    assert find("alice", "weather") is None
    assert find("bob", "weather") is not None
    file.write_text("no TOML")
    with pytest.raises(AdapterError) as caught:
        find("bob", "weather")
    assert str(file) not in str(caught.value)
    file.unlink()
    with pytest.raises(AdapterError):
        find("bob", "weather")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_others_may_not_read_or_write_it(file: Path, mode: int) -> None:
    """A file that others can read, or write, is refused.  Control: with 0600 it is taken."""
    SecretFile(str(file))
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        SecretFile(str(file))


def test_what_is_no_file(file: Path, tmp_path: Path) -> None:
    """Links, folders, pipes and files of somebody else are not opened, or not read."""
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "pipe", ".", "none"):
        with pytest.raises(ConfigurationError):
            SecretFile(str(tmp_path / name))
    if os.geteuid() == 0:
        os.chown(file, 12345, 12345)
        with pytest.raises(ConfigurationError, match="this user"):
            SecretFile(str(file))


@pytest.mark.parametrize("text", [
    "[[secret]]\nvalue = '" + VALUE + "'", GOOD + GOOD, GOOD.replace("/v1", "v1"), GOOD.replace("https://api", "https://*.api"), "x = 1\n" + GOOD,
    GOOD.replace('["GET"]', '"GET"'), GOOD.replace("methods", "method"), "secret = 1", "secret = [1]", GOOD.replace(VALUE, VALUE + " x"),
    GOOD.replace('"alice", ', "1, "), f"value = {VALUE}", GOOD.replace(VALUE, VALUE + "\\u00e9"), "#" * (1 << 20) + GOOD, "\x00" + VALUE,
])  # fmt: skip
def test_a_wrong_file_is_told_without_its_contents(file: Path, text: str) -> None:
    """Every mistake is an error where it was made, and none quotes a credential."""
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        SecretFile(str(file))
    assert "sk-live" not in str(caught.value)


@pytest.mark.parametrize(
    "line", [f'"{VALUE}" = "value"', f"{VALUE} = 1", f'{VALUE}.x = "weather"', f'"{VALUE}" = {{ value = "weather" }}']
)
def test_a_credential_in_the_place_of_a_name_is_not_told(line: str, file: Path) -> None:
    """Where key and value have changed places, what is wrong is told without the key."""
    file.write_text(GOOD.replace(f'value = "{VALUE}"\n\n', f"{line}\n\n"))
    with pytest.raises(ConfigurationError, match="no other fields than owners, name, origin") as caught:
        SecretFile(str(file))
    shown, at = str(caught.value), caught.value.__cause__ or caught.value.__context__
    while at is not None:
        shown, at = shown + str(at), at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    assert "sk-live" not in shown
