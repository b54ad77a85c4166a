"""
The operator's file, ``config/config.toml``: the tier where nobody names one, and what plugins may have at most.

    tier = "isolated"

    [ceiling]
    tiers = ["wasm", "isolated"]
    kinds = ["fs", "storage"]
    lookups = ["*"]

    [ceiling.limits]
    memory = "256M"

    [[ceiling.scopes]]
    kind = "net"
    hosts = ["*.example.com"]

    [fs]
    root = "/srv/files"

    [net]
    secrets = "/etc/fastness/secrets.toml"

    [process]
    tier = "container"

    [[quota]]
    owner = "*"
    per = "day"
    calls = 100_000

Each process reads it once.  A word that means nothing is refused, since what an operator meant to forbid must not be
allowed by a slip of the finger; so is a file that somebody else could have written to.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fastness._wasi import home
from fastness.capability import Scope, Spec
from fastness.errors import ConfigurationError, meant
from fastness.grant import Ceiling
from fastness.limits import RANGES, SIZES, Limits, parse_size
from fastness.tier import Tier
from fastness.wildcard import pattern_problem

if TYPE_CHECKING:
    from fastness.capabilities._email_settings import EmailSettings
    from fastness.capabilities._llm_settings import Settings
    from fastness.metering.quotas import Quota

__all__ = ["NAME", "Config", "load"]

NAME = "config.toml"
_LONGEST = 1 << 20
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_TABLES = {
    "ceiling": dict,
    "fs": dict,
    "integrations": dict,
    "llm": dict,
    "net": dict,
    "process": dict,
    "quota": list,
    "tier": str,
}
_CEILING = ("tiers", "kinds", "scopes", "limits", "provides", "lookups", "declares")
_PATTERNS = ("provides", "lookups", "declares")


class Allowed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An address that is not public and that ``net`` may reach all the same; see ``fastness.capabilities.net``."""

    host: str
    address: str
    port: int


class Config:
    """
    What the file says.  Made by :func:`load`; without a file everything is as it is by default.

    ``tier`` is a tier's name, ``auto``, or empty.  ``fs_root`` is the folder of ``fs``, or None for one of each plugin
    and owner.  ``secrets`` is the file of credentials for ``net``, ``trust`` one of certificates in PEM, ``reach`` what
    it may reach though it is not public.  ``process_tier`` is where every program of ``process`` runs, whichever tier
    was granted; empty for that one.

    ``llm`` says which models are asked and what they cost, or is None.  ``quotas`` are what plugins may use up for
    owners.  ``email`` is the server that mail is handed to, or None; ``integrations`` are the names of those of other
    distributions that are used.
    """

    def __init__(self, path: str, plain: Mapping[str, Any]) -> None:
        self._path = path
        self._plain = plain
        self._known("", plain, _TABLES)
        for name, kind in _TABLES.items():
            self._typed(name, plain.get(name, kind()), kind)
        self.tier = self._tier()
        files, net = plain.get("fs", {}), plain.get("net", {})
        self._known("fs", files, ("root",))
        self._known("net", net, ("secrets", "trust", "allow"))
        self._known("process", plain.get("process", {}), ("tier",))
        self.process_tier = self._process_tier(plain.get("process", {}).get("tier", ""))
        self.fs_root = self._file("fs.root", files.get("root"))
        self.secrets = self._file("net.secrets", net.get("secrets"))
        self.trust = self._file("net.trust", net.get("trust"))
        self.reach = self._reach(net.get("allow", []))
        self.llm = self._llm(plain["llm"]) if "llm" in plain else None
        others = plain.get("integrations", {})
        self._known("integrations", others, ("use", "email"))
        self.integrations = self._texts("integrations.use", others.get("use", []))
        self.email = self._email(others["email"]) if "email" in others else None
        self.quotas = tuple(self._quotas(plain.get("quota", [])))
        # The rest of it needs to know the capabilities; this much is told before one is asked for.
        self._known("ceiling", plain.get("ceiling", {}), _CEILING)

    def ceiling(self, specs: Mapping[str, Spec]) -> Ceiling | None:
        """The ceiling, with the scopes of ``specs``; None where the file has none.  Raises ConfigurationError."""
        if "ceiling" not in self._plain:
            return None
        table: Mapping[str, Any] = self._plain["ceiling"]
        lists = {name: self._texts(f"ceiling.{name}", table.get(name, [])) for name in ("tiers", "kinds", *_PATTERNS)}
        for index, kind in enumerate(lists["kinds"]):
            if kind not in specs:
                raise self._wrong(f"ceiling.kinds[{index}]", kind, _words(specs) + meant(kind, specs))
        for index, tier in enumerate(lists["tiers"]):
            try:
                Tier.parse(tier)
            except ConfigurationError as error:
                raise self._wrong(f"ceiling.tiers[{index}]", tier, error.allowed) from None
        for name in _PATTERNS:
            for index, pattern in enumerate(lists[name]):
                if why := pattern_problem(pattern):
                    raise self._wrong(f"ceiling.{name}[{index}]", pattern, f"a pattern of names; this one {why}")
        scopes = tuple(self._scopes(table.get("scopes", []), specs))
        try:
            return Ceiling(scopes=scopes, limits=self._limits(table.get("limits", {})), **lists)
        except ConfigurationError as error:
            raise self._wrong(f"ceiling.{error.field}", error.value, error.allowed) from None

    # parts

    def _tier(self) -> str:
        named = self._plain.get("tier", "")
        if named in ("", "auto"):
            return str(named)
        try:
            return Tier.parse(named, ("auto",)).value
        except ConfigurationError as error:
            raise self._wrong("tier", named, error.allowed) from None

    def _process_tier(self, named: Any) -> str:
        # The one that promises all that every tier of programs does: with another some would get less than was granted.
        if named not in ("", Tier.CONTAINER.value):
            raise self._wrong("process.tier", named, f"{Tier.CONTAINER.value}, or nothing")
        return str(named)

    def _file(self, field: str, value: Any) -> str | None:
        if value is None:
            return None
        self._typed(field, value, str)
        if not os.path.isabs(value) or "\0" in value:
            raise self._wrong(field, value, "an absolute path")
        return str(os.path.normpath(value))

    def _reach(self, plain: Any) -> tuple[Allowed, ...]:
        self._typed("net.allow", plain, list)
        found = []
        for index, item in enumerate(plain):
            field = f"net.allow[{index}]"
            self._typed(field, item, dict)
            self._known(field, item, Allowed.__struct_fields__)
            try:
                one = msgspec.convert(item, Allowed)
            except msgspec.ValidationError as error:
                raise self._wrong(field, str(error), "host, address and port") from None
            # Now and not when it is first needed: what runs under a wrong file is not what its writer meant.
            from fastness.capabilities._addresses import AddressGuard, Allowance

            try:
                AddressGuard([Allowance(one.host, one.address, one.port)])
            except ConfigurationError as error:
                raise self._wrong(f"{field}.{error.field}", error.value, error.allowed) from None
            found.append(one)
        return tuple(found)

    def _llm(self, plain: Mapping[str, Any]) -> Settings:
        from fastness.capabilities._llm_settings import settings_of

        try:
            return settings_of(plain)
        except ConfigurationError as error:
            raise self._wrong(error.field, error.value, error.allowed) from None

    def _email(self, plain: Any) -> EmailSettings:
        self._typed("integrations.email", plain, dict)
        from fastness.capabilities._email_settings import email_settings_of

        try:
            return email_settings_of(plain)
        except ConfigurationError as error:
            raise self._wrong(error.field, error.value, error.allowed) from None

    def _quotas(self, plain: Any) -> Iterable[Quota]:
        if not plain:
            return
        from fastness.metering.quotas import WRITTEN, quota_of

        for index, item in enumerate(plain):
            field = f"quota[{index}]"
            self._typed(field, item, dict)
            self._known(field, item, WRITTEN)
            try:
                yield quota_of(item, field)
            except ConfigurationError as error:
                raise self._wrong(error.field, error.value, error.allowed) from None

    def _limits(self, plain: Any) -> Limits:
        self._typed("ceiling.limits", plain, dict)
        self._known("ceiling.limits", plain, RANGES)
        values: dict[str, Any] = {}
        for name, given in plain.items():
            field = f"ceiling.limits.{name}"
            try:
                values[name] = parse_size(given, field) if name in SIZES and isinstance(given, str) else given
                Limits(**{name: values[name]})
            except ConfigurationError as error:
                raise self._wrong(field, given, error.allowed) from None
        return Limits(**values)

    def _scopes(self, plain: Any, specs: Mapping[str, Spec]) -> Iterable[Scope]:
        self._typed("ceiling.scopes", plain, list)
        for index, item in enumerate(plain):
            field = f"ceiling.scopes[{index}]"
            self._typed(field, item, dict)
            kind = item.get("kind")
            spec = specs.get(kind) if isinstance(kind, str) else None
            if spec is None:
                raise self._wrong(f"{field}.kind", kind, _words(specs) + meant(kind, specs))
            self._known(field, item, ("kind", *(one.encode_name for one in msgspec.structs.fields(spec.scope))))
            try:
                yield msgspec.convert(item, spec.scope, strict=True)
            except (msgspec.ValidationError, ConfigurationError) as error:
                raise self._wrong(field, str(error), f"a scope of the kind {kind!r}") from None

    # checks

    def _known(self, field: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        known = tuple(known)
        for key in table:
            if key not in known:
                place = f"{field}.{key}" if field else key
                raise self._wrong(place, "no such setting", ", ".join(known) + meant(key, known))

    def _typed(self, field: str, value: Any, kind: type) -> None:
        if not isinstance(value, kind):
            words = {"dict": "a table", "list": "a list", "str": "a text"}[kind.__name__]
            if kind is list and isinstance(value, dict):
                words = f"a list of tables: write [[{field}]]"
            raise self._wrong(field, value, words)

    def _texts(self, field: str, value: Any) -> tuple[str, ...]:
        self._typed(field, value, list)
        for index, item in enumerate(value):
            self._typed(f"{field}[{index}]", item, str)
        return tuple(value)

    def _wrong(self, field: str, value: object, allowed: str) -> ConfigurationError:
        return ConfigurationError(f"{field} in {self._path}", value, allowed)


def _words(specs: Iterable[str]) -> str:
    return "one of " + ", ".join(sorted(specs))


_lock = threading.Lock()
_loaded: dict[tuple[str | None, ...], Config] = {}
#: Variables that decide where the file is.
_WHERE = ("FASTNESS_HOME", "XDG_CONFIG_HOME", "HOME")


def load() -> Config:
    """
    What the operator's file says, read once by each process.

    Raises ConfigurationError with the path of what is wrong, and where somebody else could have written to the file.
    """
    # Finding the path takes longer than all else of a small run's choice of a tier.
    where = tuple(map(os.environ.get, _WHERE))
    found = _loaded.get(where)
    if found is None:
        with _lock:
            path = home.place("config", NAME)
            found = _loaded[where] = Config(path, _read(path))
    return found


def _read(path: str) -> dict[str, Any]:
    if not os.path.lexists(path):
        return {}
    # Whoever may write to the folder may put another file there.
    home.folder("config")
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        raise ConfigurationError("the configuration", path, f"a file that can be read ({error.strerror})") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (os.geteuid(), 0):
            raise ConfigurationError("the configuration", path, "a regular file of this user's or of root's")
        if status.st_mode & 0o022:
            raise ConfigurationError(
                "the configuration",
                path,
                f"a file that only its owner may write to (its mode is {status.st_mode & 0o7777:04o}); "
                f"look at what it says, then run: chmod go-w {path}",
            )
        with os.fdopen(os.dup(descriptor), "rb") as file:
            data = file.read(_LONGEST + 1)
    finally:
        os.close(descriptor)
    return _parsed(path, data)


def _parsed(path: str, data: bytes) -> dict[str, Any]:
    import tomllib

    if len(data) > _LONGEST:
        raise ConfigurationError("the configuration", path, f"at most {_LONGEST} bytes")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError("the configuration", path, f"TOML in UTF-8 ({error})") from None


def forget() -> None:
    """Read it anew the next time: for tests."""
    with _lock:
        _loaded.clear()


def _in_child() -> None:
    # Another thread of the parent may have held it.
    global _lock  # noqa: PLW0603  # one place for what a process has read
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)
