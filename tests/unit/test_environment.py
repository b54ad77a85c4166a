"""
Environments for guests hold what is named, and nothing that is named like a credential.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastness
from fastness import environment

CREDENTIALS = (
    "API_KEY", "OPENAI_API_KEY", "apiKey", "API-KEY", "SSH_PRIVATE_KEY", "TOKEN", "GITHUB_TOKEN", "HF_TOKEN", "GITHUB_PAT",
    "accessToken", "SECRET", "SECRET_KEY", "CLIENT_SECRET", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "DB_PASS", "PASSWD",
    "pass", "GOOGLE_APPLICATION_CREDENTIALS", "CREDENTIAL", "BASIC_AUTH", "HTTP_AUTHORIZATION", "SESSION_COOKIE",
    "SENTRY_DSN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "SSH_AUTH_SOCK", "DOCKER_AUTH_CONFIG",
    "MYSQLPASSWORD", "MY_JWT", "APIKey", "db.password", "TOKEN2", "KEY",
)  # fmt: skip
HARMLESS = (
    "PATH", "HOME", "LANG", "LC_ALL", "PWD", "OLDPWD", "TZ", "TERM", "MONKEY", "KEYBOARD", "KEYMAP", "TOKENIZERS_PARALLELISM",
    "AUTHOR", "GIT_AUTHOR_NAME", "PASSAGE", "COMPASS", "BYPASS", "SECRETARY", "PRIMARY_KEY", "SORT_KEY", "PUBLIC_KEY",
    "OMP_NUM_THREADS", "AWS_REGION", "AWS_DEFAULT_REGION", "DATABASE_URL", "SESSION_ID", "PATCH", "PATTERN", "A", "COOKIECUTTER",
    "\N{SNOWMAN}",
)  # fmt: skip


@pytest.mark.parametrize("name", CREDENTIALS)
def test_a_name_of_a_credential_is_refused(name: str) -> None:
    with pytest.raises(fastness.ConfigurationError) as caught:
        fastness.guest_env({name: "hunter2-the-value"})
    assert name in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "another name" in str(caught.value)


@pytest.mark.parametrize("name", HARMLESS)
def test_other_names_pass(name: str) -> None:
    assert fastness.guest_env({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    "value", ["postgres://me:word@db/x", "https://u:p@proxy:8080", "see redis://:word@cache/0 and more"]
)
def test_a_password_in_an_address_is_refused(value: str) -> None:
    with pytest.raises(fastness.ConfigurationError) as caught:
        fastness.guest_env(DATABASE_URL=value)
    assert "word" not in str(caught.value)


@pytest.mark.parametrize(
    "value", ["https://example.org/a@b", "http://me@host", "a:b@c", "http://h:80/x?y=a:b@c", ":" * 5000]
)
def test_other_values_pass(value: str) -> None:
    assert fastness.guest_env(PLACE=value)["PLACE"] == value


def test_it_is_built_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_HOST", "1")
    assert fastness.guest_env() == {}
    assert fastness.guest_env({"A": "1"}, B="2") == {"A": "1", "B": "2"}
    assert "OF_THE_HOST" in os.environ


@pytest.mark.parametrize("bad", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0"}, {"A": 1}, {1: "x"}])
def test_what_no_environment_can_hold(bad: dict[str, str]) -> None:
    with pytest.raises(fastness.ConfigurationError):
        fastness.guest_env(bad)


def test_every_tier_refuses_before_anything_runs() -> None:
    with fastness.Sandbox(tier="container") as box, pytest.raises(fastness.ConfigurationError, match="API_KEY"):
        box.run("1", env={"API_KEY": "x"})


@given(st.dictionaries(st.text(min_size=1, max_size=40), st.text(max_size=60), max_size=5))
def test_any_names(variables: dict[str, str]) -> None:
    """It either raises a ConfigurationError or returns exactly what was given."""
    try:
        made = fastness.guest_env(variables)
    except fastness.ConfigurationError:
        return
    assert made == variables
    assert not any(environment.looks_like_credential(name, value) for name, value in made.items())


@given(st.text(max_size=30), st.sampled_from(["KEY", "TOKEN", "PASSWORD", "SECRET"]))
def test_a_word_of_its_own_at_the_end_is_always_found(before: str, word: str) -> None:
    assert environment.looks_like_credential(f"{before.replace('PRIMARY', '')}x_{word}") or before.lower().endswith("_")
