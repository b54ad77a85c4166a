"""
Names that look like secrets, which a copy of a project does without unless they are asked for.

This spares a user an accident.  It is no boundary: a secret under any other name is copied.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from fnmatch import translate

_WHY = "it looks like a secret"

#: Whole names, and patterns as of a shell; compared in lower case with the last part of a path.
SECRET_NAMES: tuple[str, ...] = (
    ".env", ".env.*", "*.env", ".envrc",
    "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
    ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd", ".git-credentials", ".dockercfg",
    ".yarnrc.yml", "pip.conf", "pip.ini", "nuget.config", "auth.json", ".s3cfg", ".boto",
    "credentials*.json", "client_secret*.json", "service-account*.json", "service_account*.json",
    "secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml", ".vault-token", ".vault_pass*",
    "*.tfstate", "*.tfstate.*", "*.tfvars", ".terraformrc", "kubeconfig",
)  # fmt: skip

#: Folders that are left out whole.
SECRET_FOLDERS: frozenset[str] = frozenset({".aws", ".ssh", ".gnupg", ".kube", ".azure", ".gcloud", ".password-store"})

#: Files and folders that are secret in a certain place.
SECRET_PLACES: tuple[str, ...] = (
    ".docker/config.json", ".config/gcloud", ".config/gh", ".cargo/credentials", ".cargo/credentials.toml",
    ".config/hub", ".bundle/config", ".hg/hgrc", ".m2/settings.xml",
)  # fmt: skip

#: Templates that are meant to be shared.
_SHARED = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", "*.pub")


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(translate(pattern) for pattern in patterns))


_secret = _any_of(SECRET_NAMES)
_shared = _any_of(_SHARED)

# A name and a password in an address, a header that carries one (git-config(1): url, http.extraHeader), or a setting
# that is called a password, a token or the like, of git or of any program that keeps its own there.
_CREDENTIALS = re.compile(
    rb"://[^/\s\"]*@|extraheader|oauth|(?:pass|passwd|password|passphrase|token|secret|api-?key)\s*=", re.IGNORECASE
)
# A user name alone, as in ssh://git@host, is none.
_USER_ONLY = re.compile(rb"ssh://[^/\s:@\"]*@", re.IGNORECASE)


def looks_secret(path: str, include: Iterable[str] = ()) -> str:
    """
    Why an entry is left out, or nothing.  ``include`` holds paths and names that are wanted all the same, as
    :func:`spelled` gives them.

    What is named takes everything below it along; a folder above something that is named by its path is entered.
    """
    low = path.lower()
    name = low.rpartition("/")[2]
    if not (
        _secret.match(name)
        or not SECRET_FOLDERS.isdisjoint(low.split("/"))
        or any(f"/{place}/" in f"/{low}/" for place in SECRET_PLACES)
    ):
        return ""
    if _shared.match(name) and SECRET_FOLDERS.isdisjoint(low.split("/")):
        return ""
    for item in include:
        if names(item, path) or item.startswith(path + "/"):
            return ""
    return _WHY


def spelled(item: str) -> str:
    """A name or a path that somebody gave, as paths of a project are spelled: ``./a//b/`` is ``a/b``."""
    return os.path.normpath(item).strip("/")


def names(wanted: str, path: str) -> bool:
    """Whether a name or a path that somebody gave (see :func:`spelled`) means this entry, or a folder that it is in."""
    if "/" in wanted:
        return path == wanted or path.startswith(wanted + "/")
    return bool(wanted) and f"/{wanted}/" in f"/{path}/"


def config_has_credentials(text: bytes) -> bool:
    """Whether a git configuration holds a password, a token or a header that carries one."""
    return _CREDENTIALS.search(_USER_ONLY.sub(b"", text)) is not None
