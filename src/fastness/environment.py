"""
Environments for guests: built from nothing, and refused where a name says that it holds a credential.

What a guest finds in its environment it may print, keep or send on.  A key that was passed along by habit is the most
common leak there is, so naming one is an error at the place where it is written, not a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fastness.errors import ConfigurationError

#: Words that make a name one of a credential, wherever they stand in it.
_WORDS = frozenset(
    {
        "key", "keys", "apikey", "accesskey", "secretkey", "privatekey", "sshkey", "authkey", "token", "tokens",
        "authtoken", "accesstoken", "secret", "secrets", "password", "passwords", "passwd", "pass", "passphrase",
        "pwd", "pw", "credential", "credentials", "creds", "cred", "auth", "authorization", "cookie", "cookies",
        "private", "dsn", "pat", "jwt", "bearer",
    }
)  # fmt: skip
#: Words at whose end a credential's word makes one too: ``MYSQLPASSWORD``.
_ENDINGS = ("password", "passwd", "secret", "apikey", "token", "credential", "credentials")
#: Names that look like one and are none: paths of folders, sockets and screens.
_HARMLESS = frozenset({"PWD", "OLDPWD"})
#: Names whose first words say that all of them belong to an account.
_FAMILIES = ("AWS_ACCESS", "AWS_SECRET", "AWS_SESSION", "AWS_SECURITY", "SSH_AUTH", "GPG_AGENT", "DOCKER_AUTH")
# Compiled where it is first used: to do that takes as long as importing most modules.
_URL_LOGIN = r"://[^/?#\s@:]*:[^/?#\s@]+@"
_CAMEL = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
_NOT_A_LETTER = r"[^A-Za-z]+"
#: Words after which ``KEY`` means something else, and words after it that do.
_NO_KEY = frozenset({"primary", "sort", "foreign", "partition", "public", "cache"})

_FIX = (
    "names that do not look like a credential; give the guest what the credential would get it, "
    "or, where it may know this one, another name"
)


def looks_like_credential(name: str, value: str = "") -> bool:
    """
    Whether a variable's name says that it holds a credential, or its value is an address with a password in it.

    Words are parted at underscores, other signs, digits and changes of case: ``API_KEY``, ``apiKey`` and ``DB.PASS2``
    are, ``KEYBOARD``, ``MONKEY``, ``AUTHOR`` and ``TOKENIZERS_PARALLELISM`` are not.
    """
    if name in _HARMLESS:
        return False
    upper = name.upper()
    if upper.startswith(_FAMILIES):
        return True
    words = [word.lower() for part in re.split(_NOT_A_LETTER, name) for word in re.split(_CAMEL, part) if word]
    for before, word in zip(["", *words], words, strict=False):
        if word in ("key", "keys") and before in _NO_KEY:
            continue
        if word in _WORDS or word.endswith(_ENDINGS):
            return True
    return re.search(_URL_LOGIN, value) is not None


def check(names: Mapping[str, str], field: str = "env") -> None:
    """Raises ConfigurationError for the first name that looks like a credential's; no value is in its message."""
    for name, value in names.items():
        if looks_like_credential(name, value):
            raise ConfigurationError(f"{field} that names a credential", name, _FIX)


def guest_env(variables: Mapping[str, str] | None = None, /, **passed: str) -> dict[str, str]:
    """
    An environment for a guest that holds what is named here and nothing else.

    ``variables`` are a mapping, ``passed`` more of them by name.  Nothing of this process's environment is in it.
    Raises :class:`~fastness.errors.ConfigurationError` where a name looks like a credential's, where a value is an
    address with a password in it, and for names and values that no environment can hold.
    """
    merged: dict[str, Any] = {**(variables or {}), **passed}
    for given, value in merged.items():
        name: object = given
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise ConfigurationError("env", name, "names that are not empty and hold neither '=' nor NUL")
        if not isinstance(value, str) or "\0" in value:
            raise ConfigurationError(f"env[{name!r}]", type(value).__name__, "texts without NUL")
    check(merged)
    return merged
