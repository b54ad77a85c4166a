"""The operator's file: what it may say, what is refused with its place, and who may have written it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fastness import config
from fastness.backends import registry
from fastness.capabilities.net import NetScope
from fastness.capabilities.registry import specs
from fastness.errors import ConfigurationError
from fastness.limits import Limits
from plugin_homes import own_home

Write = Callable[[str], config.Config]


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    with own_home(tmp_path / "home") as made:
        yield made


@pytest.fixture
def write(base: Path) -> Write:
    def work(text: str) -> config.Config:
        (base / "config").mkdir(parents=True, mode=0o700, exist_ok=True)
        (base / "config" / "config.toml").write_text(text)
        config.forget()
        return config.load()

    return work


def test_without_a_file(base: Path) -> None:
    """Everything is as it is by default, and no folder is made."""
    found = config.load()
    assert (found.tier, found.ceiling(specs()), found.fs_root, found.secrets, found.reach) == ("", None, None, None, ())
    assert not (base / "config").exists()


def test_all_of_it(write: Write) -> None:
    """Each word has its meaning."""
    found = write(
        """
        tier = "isolated"
        [ceiling]
        tiers = ["wasm", "isolated"]
        kinds = ["storage"]
        lookups = ["cache:*"]
        [ceiling.limits]
        memory = "64M"
        wall_s = 5
        [[ceiling.scopes]]
        kind = "net"
        hosts = ["*.example.com"]
        [fs]
        root = "/srv/files/"
        [net]
        secrets = "/etc/secrets.toml"
        [process]
        tier = "container"
        [[net.allow]]
        host = "db.internal"
        address = "10.0.0.5"
        port = 8080
        """
    )
    assert (found.tier, found.fs_root, found.secrets) == ("isolated", "/srv/files", "/etc/secrets.toml")
    assert found.process_tier == "container"
    assert [(one.host, one.address, one.port) for one in found.reach] == [("db.internal", "10.0.0.5", 8080)]
    ceiling = found.ceiling(specs())
    assert ceiling is not None
    assert (ceiling.tiers, ceiling.kinds, ceiling.lookups) == (("wasm", "isolated"), ("storage",), ("cache:*",))
    assert ceiling.scopes == (NetScope(hosts=("*.example.com",)),)
    assert ceiling.limits == Limits(memory=64 << 20, wall_s=5)
    assert ceiling.provides == () and not ceiling.permits("fs")


def test_an_empty_ceiling_permits_nothing(write: Write) -> None:
    """The table alone is a ceiling, and what it does not say is not permitted."""
    ceiling = write("[ceiling]\n").ceiling(specs())
    assert ceiling is not None
    assert (ceiling.tiers, ceiling.kinds, ceiling.scopes) == ((), (), ())


_ALLOW = "[[net.allow]]\nhost = '{}'\naddress = '{}'\nport = {}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("teir = 'wasm'", r"teir in .*config\.toml.*Did you mean 'tier'"),
        ("tier = 'isolatd'", "Did you mean 'isolated'"),
        ("tier = 'local'", "tier in "),
        ("process = 3", "process in .*a table"),
        ("[process]\ntire = 'container'", r"process\.tire in .*no such setting.*Did you mean 'tier'"),
        ("[process]\ntier = 'isolated'", r"process\.tier in .*container"),
        ("[process]\ntier = 'worker'", r"process\.tier in .*container"),
        ("[process]\ntier = ['container']", r"process\.tier in .*container"),
        ("tier = 3", "tier in .*a text"),
        ("ceiling = 3", "ceiling in .*a table"),
        ("[ceiling]\nkind = ['fs']", r"ceiling\.kind in .*no such setting.*Did you mean 'kinds'"),
        ("[ceiling]\nkinds = 'fs'", r"ceiling\.kinds in .*a list"),
        ("[ceiling]\nkinds = ['fs', 'nets']", r"ceiling\.kinds\[1\] in .*Did you mean 'net'"),
        ("[ceiling]\nkinds = [1]", r"ceiling\.kinds\[0\] in .*a text"),
        ("[ceiling]\ntiers = ['wsam']", r"ceiling\.tiers\[0\] in .*Did you mean 'wasm'"),
        ("[ceiling]\nlookups = ['']", r"ceiling\.lookups\[0\] in"),
        ("[ceiling.limits]\nmemry = 3", r"ceiling\.limits\.memry in .*Did you mean 'memory'"),
        ("[ceiling.limits]\nmemory = '3 TB'", r"ceiling\.limits\.memory in"),
        ("[ceiling.limits]\nwall_s = true", r"ceiling\.limits\.wall_s in"),
        ("[[ceiling.scopes]]\nkind = 'nett'", r"ceiling\.scopes\[0\]\.kind in .*Did you mean 'net'"),
        ("[[ceiling.scopes]]\nhosts = []", r"ceiling\.scopes\[0\]\.kind in"),
        ("[[ceiling.scopes]]\nkind = 'net'\nhost = ['a']", r"ceiling\.scopes\[0\]\.host in .*Did you mean 'hosts'"),
        ("[[ceiling.scopes]]\nkind = 'net'\nhosts = ['a b']", r"ceiling\.scopes\[0\] in"),
        ("[ceiling]\nkinds = ['net']\n[[ceiling.scopes]]\nkind = 'net'", r"ceiling\.kinds in"),
        ("[fs]\nroot = 'files'", r"fs\.root in .*an absolute path"),
        ("[fs]\nroots = '/x'", r"fs\.roots in .*Did you mean 'root'"),
        ("[net]\nsecrets = 3", r"net\.secrets in .*a text"),
        ("[[net.allow]]\nhost = 'a'\naddress = '10.0.0.1'\nport = '80'", r"net\.allow\[0\] in"),
        ("[[net.allow]]\nhost = 'a'\naddr = '10.0.0.1'", r"net\.allow\[0\]\.addr in .*Did you mean 'address'"),
        ("[net.allow]\nhost = 'a'", r"net\.allow in .*write \[\[net\.allow\]\]"),
        (_ALLOW.format("a", "nonsense", 80), r"net\.allow\[0\]\.address in .*config\.toml.*one address"),
        (_ALLOW.format("a", "10.0.0.0/8", 80), r"net\.allow\[0\]\.address in .*config\.toml.*one address"),
        (_ALLOW.format("a", "169.254.169.254", 80), r"net\.allow\[0\]\.address in .*metadata"),
        (_ALLOW.format("*.a", "10.0.0.1", 80), r"net\.allow\[0\]\.host in .*no patterns"),
        (_ALLOW.format("http://a", "10.0.0.1", 80), r"net\.allow\[0\]\.host in .*a URL"),
        (_ALLOW.format("a", "10.0.0.1", 0), r"net\.allow\[0\]\.port in .*1 to 65535"),
        ("[[ceiling.scopes", "TOML"),
        ("tier = 'a\u0000'", "TOML"),
    ],
)
def test_words_that_mean_nothing(text: str, words: str, write: Write) -> None:
    """Refused with their place in the file, and what was perhaps meant."""
    with pytest.raises(ConfigurationError, match=f"(?s){words}"):
        write(text).ceiling(specs())


def test_files_that_somebody_else_could_have_written(base: Path, write: Write) -> None:
    """The file, its folder, and what is no file: refused, with the command that mends it."""
    write("tier = 'wasm'")
    path = base / "config" / "config.toml"
    path.chmod(0o664)
    config.forget()
    with pytest.raises(ConfigurationError, match="chmod go-w"):
        config.load()
    path.chmod(0o600)
    (base / "config").chmod(0o770)
    with pytest.raises(ConfigurationError, match="chmod 700"):
        config.load()
    (base / "config").chmod(0o700)
    path.rename(base / "elsewhere")
    path.symlink_to(base / "elsewhere")
    with pytest.raises(ConfigurationError, match="can be read"):
        config.load()
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigurationError, match="regular file"):
        config.load()


def test_it_is_read_once(base: Path, write: Write) -> None:
    """What a process has read stands for its life."""
    assert write("tier = 'worker'").tier == "worker"
    (base / "config" / "config.toml").write_text("tier = 'wasm'")
    assert config.load().tier == "worker"


def test_the_order_of_tiers(write: Write) -> None:
    """Argument, variable, configuration, default."""
    write("tier = 'confined'")
    assert registry.resolve(None, {}) == "confined"
    assert registry.resolve(None, {"FASTNESS_TIER": "worker"}) == "worker"
    assert registry.resolve(None, {"FASTNESS_RUNTIME": "native"}) == "isolated"
    assert registry.resolve("wasm", {"FASTNESS_TIER": "worker"}) == "wasm"
    write("")
    assert registry.resolve(None, {}) == "wasm"
    assert registry.named(None, {}) is None
