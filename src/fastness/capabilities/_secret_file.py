"""
Credentials in a file of the operator's: TOML, readable by nobody else, read again when it changes.

    [[secret]]
    name = "weather"
    owners = ["alice"]
    origin = "https://api.weather.example"
    methods = ["GET"]
    path = "/v1"
    value = "..."

The other fields are those of :class:`fastness.capabilities._secrets.Secret`.
"""

from __future__ import annotations

import os
import stat
from typing import Any

import msgspec

from fastness.capabilities._secrets import Secret
from fastness.errors import AdapterError, ConfigurationError

__all__ = ["SecretFile"]

_LONGEST = 1 << 20
_FIELDS = ("owners", *Secret.__struct_fields__)
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class SecretFile:
    """
    ``SecretFile(path)(owner, name)`` gives a credential, or None: what :class:`fastness.capabilities.net.Net` asks.

    ``owners`` names those whose plugins may use it; nobody unless named.  Raises ConfigurationError where the file
    cannot be used, in a text that quotes no value.  Later, a file that cannot be used ends calls with AdapterError.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, ...] = ()
        self._known: dict[tuple[str, str], Secret] = {}
        self._read()

    def __call__(self, owner: str, name: str) -> Secret | None:
        try:
            self._read()
        except ConfigurationError:
            raise AdapterError("the host's credentials cannot be read; its operator finds out why") from None
        return self._known.get((owner, name))

    def __repr__(self) -> str:
        return f"SecretFile({self._path!r})"

    def _read(self) -> None:
        try:
            handle = os.open(self._path, _READ)
        except OSError as error:
            raise self._wrong(f"a file that can be read ({error.strerror})") from None
        try:
            status = os.fstat(handle)
            seen = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if not stat.S_ISREG(status.st_mode) or status.st_uid not in (os.geteuid(), 0):
                raise self._wrong("a regular file of this user's or of root's")
            if status.st_mode & 0o077:
                raise self._wrong("a file that nobody else can read or write: chmod 600")
            if seen == self._seen:
                return
            with os.fdopen(os.dup(handle), "rb") as file:
                data = file.read(_LONGEST + 1)
        finally:
            os.close(handle)
        if len(data) > _LONGEST:
            raise self._wrong("at most 1 MiB")
        self._known = self._parsed(data)
        self._seen = seen

    def _parsed(self, data: bytes) -> dict[tuple[str, str], Secret]:
        import tomllib

        try:
            plain = tomllib.loads(data.decode("utf-8"))
        except ValueError:
            # The parser's own message quotes the line.
            raise self._wrong("TOML in UTF-8") from None
        entries = plain.pop("secret", [])
        if plain or not isinstance(entries, list):
            raise self._wrong("tables called [[secret]], and nothing else")
        found: dict[tuple[str, str], Secret] = {}
        for number, entry in enumerate(entries):
            owners, secret = self._entry(number, entry)
            for owner in owners:
                if found.setdefault((owner, secret.name), secret) is not secret:
                    raise self._wrong(f"one secret for each owner and name; secret {number} is there before")
        return found

    def _entry(self, number: int, entry: Any) -> tuple[list[str], Secret]:
        try:
            if entry.keys() - set(_FIELDS):
                # Not which: where key and value have changed places it is the credential.
                raise self._wrong(f"secret {number} with no other fields than {', '.join(_FIELDS)}")
            owners = msgspec.convert(entry.pop("owners", []), list[str])
            return owners, msgspec.convert(entry, Secret)
        except (ValueError, AttributeError) as error:
            raise self._wrong(f"secret {number} as it is described; {error}") from None

    def _wrong(self, allowed: str) -> ConfigurationError:
        return ConfigurationError("secrets", self._path, allowed)
