"""The policy: never more than any of the three, made in one way only, and nothing added afterwards."""

from __future__ import annotations

import copy
import itertools
import pickle  # noqa: TID251  # that a policy refuses it is what is tested
from typing import Any

import msgspec
import pytest
from fake_specs import SPECS, WEB, BoxScope, WebScope, plain
from hypothesis import given
from hypothesis import strategies as st

from fastness import policy as module
from fastness.errors import ConfigurationError, GrantError, HostBug, PolicyError
from fastness.grant import Ceiling, Grant, open_ceiling
from fastness.limits import Limits
from fastness.manifest import Manifest, Request, parse
from fastness.policy import Policy, build_policy, check_grant, check_tier, default_tier, diff, genuine, runtime_words
from fastness.tier import Tier
from fastness.wildcard import covers, matches, matches_any, pattern_problem

HOSTS = ("a", "b", "c")
METHODS = ("GET", "PUT")
PATTERNS = ("*", "a", "a*", "?b", "ab", "b*", "*b", "a?c*")
NAMES = tuple("".join(letters) for size in range(4) for letters in itertools.product("abc", repeat=size))

subset = lambda values: st.lists(st.sampled_from(values), unique=True).map(tuple)  # noqa: E731  # a strategy by name
webs = st.builds(WebScope, hosts=subset(HOSTS), methods=subset(METHODS))
boxes = st.builds(BoxScope, size=st.integers(0, 3))
scopes = st.tuples(st.none() | webs, st.none() | boxes).map(lambda two: tuple(one for one in two if one is not None))
names = subset(PATTERNS)
limits = st.builds(Limits, memory=st.integers(1 << 20, 1 << 24), calls=st.integers(0, 5), wall_s=st.floats(0.01, 10))


def manifest_of(allowed: tuple[object, ...], **more: object) -> Manifest:
    requests = tuple(Request(kind="web" if isinstance(s, WebScope) else "box", scope=s, reason="x") for s in allowed)  # type: ignore[arg-type]
    return Manifest(id="weather", version="1.0.0", entry="main.py", capabilities=requests, **more)  # type: ignore[arg-type]


manifests = st.builds(
    lambda a, p, q, r, m: manifest_of(a, provides=p, lookups=q, declares=r, limits=m),
    scopes,
    names,
    names,
    names,
    limits,
)
grants = st.builds(
    lambda a, p, q, r: Grant(plugin="weather", owner="o", allowed=a, provides=p, lookups=q, declares=r, revision=3),
    scopes,
    names,
    names,
    names,
)
ceilings = st.builds(
    lambda a, k, p, q, r, m: Ceiling(
        tiers=("isolated",), scopes=a, kinds=tuple(set(k) - {"web" if isinstance(s, WebScope) else "box" for s in a}), provides=p, lookups=q, declares=r, limits=m
    ),
    scopes, subset(("web", "box")), names, names, names, limits,
)  # fmt: skip


def powers(scope: object) -> set[object]:
    """All that a scope lets happen, one by one."""
    if isinstance(scope, WebScope):
        return {(host, method) for host in scope.hosts for method in scope.methods}
    return set(range(1, scope.size + 1)) if isinstance(scope, BoxScope) else set()


def everything(policy: Policy) -> set[object]:
    found: set[object] = {(kind, one) for kind, scope in policy.scopes.items() for one in powers(scope)}
    return found | {
        (what, name) for what in ("provides", "lookups", "declares") for name in NAMES if policy.allows(what, name)
    }


@given(manifests, grants, ceilings)
def test_exactly_the_intersection(manifest: Manifest, grant: Grant, ceiling: Ceiling) -> None:
    """What a policy allows is what all three allow: nothing more, and nothing less."""
    policy = build_policy(manifest, grant, ceiling, SPECS)
    assert genuine(policy)
    expected: set[object] = set()
    for kind in SPECS:
        top = powers(grant.scope(kind)) if kind in ceiling.kinds else powers(ceiling.scope(kind))
        expected |= {(kind, one) for one in powers(manifest.scope(kind)) & powers(grant.scope(kind)) & top}
    for what in ("provides", "lookups", "declares"):
        for name in NAMES:
            if all(matches_any(getattr(side, what), name) for side in (manifest, grant, ceiling)):
                expected.add((what, name))
    assert everything(policy) == expected
    for name in ("memory", "calls", "wall_s", "pids"):
        assert getattr(policy.limits, name) == min(getattr(manifest.limits, name), getattr(ceiling.limits, name))


@given(manifests, grants, ceilings)
def test_an_empty_side_denies(manifest: Manifest, grant: Grant, ceiling: Ceiling) -> None:
    """Whichever of the three says nothing, nothing is allowed."""
    nothing = Grant(plugin="weather", owner="o")
    assert everything(build_policy(manifest_of(()), grant, ceiling, SPECS)) == set()
    assert everything(build_policy(manifest, nothing, ceiling, SPECS)) == set()
    assert everything(build_policy(manifest, grant, Ceiling(tiers=("isolated",)), SPECS)) == set()
    assert build_policy(manifest, grant, ceiling, {}).scopes == {}


@given(manifests, grants, grants, ceilings)
def test_monotone(manifest: Manifest, less: Grant, more: Grant, ceiling: Ceiling) -> None:
    """Who grants more never gets less, and the other way round."""
    wide = (WebScope(hosts=HOSTS, methods=METHODS), BoxScope(size=3))
    both = msgspec.structs.replace(
        less,
        allowed=wide,
        provides=less.provides + more.provides,
        lookups=("*",),
        declares=less.declares + more.declares,
    )
    assert everything(build_policy(manifest, less, ceiling, SPECS)) <= everything(
        build_policy(manifest, both, ceiling, SPECS)
    )


@given(manifests, grants, ceilings)
def test_idempotent(manifest: Manifest, grant: Grant, ceiling: Ceiling) -> None:
    """Asking for what one got, and granting it, changes nothing."""
    first = build_policy(manifest, grant, ceiling, SPECS)
    got = tuple(first.scopes.values())
    again = build_policy(
        manifest_of(got, limits=first.limits, provides=manifest.provides, lookups=manifest.lookups, declares=manifest.declares),
        msgspec.structs.replace(grant, allowed=got), ceiling, SPECS,
    )  # fmt: skip
    assert again.scopes == first.scopes
    assert again.limits == first.limits
    assert again.digest == first.digest


# the only way


def made() -> Policy:
    return build_policy(
        manifest_of((WebScope(hosts=("a",)),)),
        Grant(plugin="weather", owner="o", allowed=(WebScope(hosts=("a", "b")),), revision=7),
        open_ceiling(("web",)),
        SPECS,
    )


def test_no_other_way() -> None:
    """No constructor, no subclass, no copy with other contents, no pickle, no change."""
    policy = made()
    with pytest.raises(TypeError, match="no public constructor"):
        Policy()
    with pytest.raises(TypeError, match="no public constructor"):
        type(policy)("weather", "o")
    with pytest.raises(TypeError, match="subclassed"):

        class Mine(Policy):
            pass

    with pytest.raises(TypeError):
        pickle.dumps(policy)
    with pytest.raises(TypeError):
        msgspec.structs.replace(policy, owner="p")  # type: ignore[type-var]
    with pytest.raises((TypeError, msgspec.ValidationError)):
        msgspec.convert(policy.to_plain(), Policy)
    with pytest.raises(AttributeError):
        policy.owner = "p"
    with pytest.raises(AttributeError):
        del policy.scopes
    with pytest.raises(TypeError):
        policy.scopes["box"] = BoxScope(size=1)  # type: ignore[index]
    with pytest.raises(AttributeError):
        policy.more = 1  # type: ignore[attr-defined]
    assert copy.copy(policy) is policy
    assert copy.deepcopy(policy) is policy
    assert not hasattr(policy, "__dict__")


def test_what_is_forged_is_not_genuine() -> None:
    """Whoever goes around all of that has an object that nothing accepts."""
    policy = made()
    assert genuine(policy)
    empty = object.__new__(Policy)
    assert not genuine(empty)
    copied = object.__new__(Policy)
    for name in Policy.__slots__:
        object.__setattr__(copied, name, getattr(policy, name))
    assert genuine(copied), "the control: the same contents with the same seal are the same policy"
    for name, value in {
        "owner": "p", "scopes": {"web": WebScope(hosts=("a", "b"))}, "revision": 8, "tier": Tier.WORKER, "limits": Limits(calls=5),
        "provides": (("*",),), "expires": 1e12, "digest": "0" * 64, "package_digest": "0" * 64, "plugin": "other",
    }.items():  # fmt: skip
        object.__setattr__(copied, name, value)
        assert not genuine(copied), name
        object.__setattr__(copied, name, getattr(policy, name))

    class Fake:
        __slots__ = Policy.__slots__

    fake = Fake()
    for name in Policy.__slots__:
        setattr(fake, name, getattr(policy, name))
    assert not genuine(fake)
    for other in (None, {}, policy.to_plain(), "policy"):
        assert not genuine(other)


def test_a_seal_is_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two keepers do not know each other's seals: what another process says is a policy is none here."""
    policy = made()
    build, is_genuine = module._keeper()
    assert not is_genuine(policy)
    other = build(manifest_of(()), Grant(plugin="weather", owner="o"), open_ceiling(()), SPECS)
    assert is_genuine(other)
    assert not genuine(other)


def test_a_capability_that_lies() -> None:
    """A meet that makes more of two scopes than both allow is found, not believed."""
    for lie in (WebScope(hosts=("a", "b")), WebScope(hosts=("a",), methods=METHODS), BoxScope(size=1)):
        liar = msgspec.structs.replace(WEB, meet=lambda a, b, lie=lie: lie)
        with pytest.raises((HostBug, PolicyError)):
            build_policy(
                manifest_of((WebScope(hosts=("a",)),)),
                Grant(plugin="weather", owner="o", allowed=(WebScope(hosts=("a",)),)),
                open_ceiling(("web",)),
                {"web": liar},
            )
    assert made().scopes == {"web": WebScope(hosts=("a",))}


def test_what_makes_no_policy() -> None:
    """Another plugin's grant, an ended one, and a tier that is not permitted."""
    manifest, grant, ceiling = manifest_of(()), Grant(plugin="weather", owner="o", expires=100.0), open_ceiling(())
    assert build_policy(manifest, grant, ceiling, SPECS, now=99.9).expires == 100.0
    for when in (100.0, 1e9):
        with pytest.raises(PolicyError, match="ended"):
            build_policy(manifest, grant, ceiling, SPECS, now=when)
    with pytest.raises(PolicyError, match="ended"):
        build_policy(manifest, grant, ceiling, SPECS)
    with pytest.raises(PolicyError):
        build_policy(manifest, Grant(plugin="other", owner="o"), ceiling, SPECS)
    with pytest.raises(PolicyError, match="no tier"):
        build_policy(manifest, grant, Ceiling(), SPECS, now=0)
    with pytest.raises(PolicyError):
        build_policy(manifest, grant, ceiling, SPECS, tier="worker", now=0)
    with pytest.raises(PolicyError):
        build_policy(manifest, grant, ceiling, SPECS, tier="mediated", trust="reviewed", now=0)
    assert build_policy(manifest, grant, ceiling, SPECS, tier="worker", trust="reviewed", now=0).tier is Tier.WORKER
    assert build_policy(manifest, grant, ceiling, SPECS, tier="container", now=0).tier is Tier.CONTAINER


def test_what_is_no_manifest_grant_or_ceiling() -> None:
    """Each of the three is looked at: what only resembles one, with everything in it, makes no policy."""
    right = [manifest_of(()), Grant(plugin="weather", owner="o"), open_ceiling(())]
    build_policy(*right, SPECS)  # type: ignore[arg-type]  # the control

    for place, one in enumerate(right):
        like = type("Like", (), {name: getattr(one, name) for name in dir(one) if not name.startswith("__")})()
        parts: list[Any] = list(right)
        parts[place] = like
        with pytest.raises(PolicyError, match="a Manifest, a Grant and a Ceiling"):
            build_policy(*parts, SPECS)


@pytest.mark.parametrize("side", ["asked", "granted", "permitted"])
def test_a_scope_of_another_kind_is_no_scope_of_this(side: str) -> None:
    """Where one of the three has a scope that is not the capability's own type, nothing is made of it."""

    class Other(WebScope, frozen=True, tag="web"):
        pass

    asked, granted, permitted = (
        (Other if side == name else WebScope)(hosts=("a",)) for name in ("asked", "granted", "permitted")
    )
    manifest = Manifest(
        id="weather", version="1.0.0", entry="main.py", capabilities=(Request(kind="web", scope=asked, reason="x"),)
    )
    ceiling = Ceiling(tiers=("isolated",), scopes=(permitted,))
    with pytest.raises(PolicyError, match="a scope of the kind 'web'"):
        build_policy(manifest, Grant(plugin="weather", owner="o", allowed=(granted,)), ceiling, SPECS)


def test_a_policy_in_a_log() -> None:
    """Whoever prints one sees whose it is, its kinds and its tier; one that allows nothing says so."""
    assert repr(made()) == "<Policy of 'weather' for 'o': web; isolated>"
    nothing = build_policy(manifest_of(()), Grant(plugin="weather", owner="o"), open_ceiling(()), SPECS)
    assert repr(nothing) == "<Policy of 'weather' for 'o': nothing; isolated>"


def test_names_are_asked_of_lists_that_there_are() -> None:
    """Anything else is a mistake of the host's, and no attribute that happens to be there."""
    for what in ("scopes", "provide", "", "limits"):
        with pytest.raises(HostBug, match="no list of names"):
            made().allows(what, "a")


def test_another_runtime_is_said_in_words() -> None:
    """From data to code is what an owner is told; the same runtime is no news."""
    data, python = (
        manifest_of(()),
        parse(plain(runtime="python", entry="a.py"), SPECS),
    )
    data = msgspec.structs.replace(data, runtime="data")
    assert runtime_words(python, data) == ["be python code, where it was data"]
    assert runtime_words(data, python) == ["be data, where it was python code"]
    assert runtime_words(python, python) == []


def test_tiers() -> None:
    """The default is wasm for JavaScript and WASI, else isolated; up and sideways freely, down only for what was reviewed."""
    code = lambda runtime, entry: parse(plain(runtime=runtime, entry=entry), SPECS)  # noqa: E731  # by name
    python, script, wasi = code("python", "a.py"), code("javascript", "a.mjs"), code("wasi", "a.wasm")
    assert [default_tier(one) for one in (python, script, wasi)] == [Tier.ISOLATED, Tier.WASM, Tier.WASM]
    for tier in ("isolated", "container", "wasm", "vm"):
        assert check_tier(python, tier).value == tier
    for tier in ("mediated", "worker", "confined"):
        with pytest.raises(PolicyError):
            check_tier(python, tier)
        assert check_tier(python, tier, "reviewed").value == tier
    with pytest.raises(PolicyError):
        check_tier(script, "isolated")
    with pytest.raises(ConfigurationError):
        check_tier(python, "issolated")
    with pytest.raises(PolicyError):
        check_tier(python, "worker", "yes")
    # A word that was misspelt is told where it would have changed nothing too.
    with pytest.raises(PolicyError, match="reviewed, or nothing"):
        check_tier(python, "isolated", "reviewd")


def test_check_grant_and_diff() -> None:
    """A grant of more than was asked is refused with all that is too much; a diff says what is new, and nothing else."""
    manifest = manifest_of((WebScope(hosts=("a",)),), lookups=("config:*",))
    grant = Grant(plugin="weather", owner="o", allowed=(WebScope(hosts=("a",)),), lookups=("config:a",))
    check_grant(manifest, grant, open_ceiling(("web",)), SPECS)
    more = msgspec.structs.replace(grant, allowed=(WebScope(hosts=("a", "b")), BoxScope(size=1)), lookups=("*",))
    with pytest.raises(GrantError) as caught:
        check_grant(manifest, more, Ceiling(), SPECS)
    text = str(caught.value.value)
    for words in (
        "web: the operator",
        "box: the plugin does not ask",
        "lookups: not asked for: *",
        "lookups: not permitted",
    ):
        assert words in text
    with pytest.raises(GrantError, match="host b"):
        check_grant(manifest, more, open_ceiling(("web", "box")), SPECS)
    assert diff(manifest, manifest, SPECS) == []
    assert diff(manifest, msgspec.structs.replace(grant, lookups=("config:*",)), SPECS) == []
    wider = manifest_of((WebScope(hosts=("a", "b")), BoxScope(size=2)), lookups=("config:*",), declares=("x",))
    assert diff(wider, manifest, SPECS) == ["web: host b", "box: It can keep 2 bytes.", "declare x"]
    assert diff(wider, None, SPECS)[0] == "web: It can send what it sees to a, b."
    assert diff(wider, grant, {}) and "no such capability" in diff(wider, grant, {})[0]


def test_frozen_data_refuses() -> None:
    """Kinds twice, owners that are no names, and unknown tiers."""
    with pytest.raises(GrantError):
        Grant(plugin="p", owner="o", allowed=(BoxScope(), BoxScope(size=1)))
    with pytest.raises(GrantError):
        Ceiling(scopes=(BoxScope(),), kinds=("box",))
    with pytest.raises(ConfigurationError):
        Ceiling(tiers=("isolatd",))
    for owner in ("", "a\nb", "x" * 201, "a\u202eb", None):
        with pytest.raises((ConfigurationError, TypeError)):
            Grant(plugin="p", owner=owner)  # type: ignore[arg-type]
    with pytest.raises(GrantError):
        Grant(plugin="p", owner="o", expires=float("nan"))
    with pytest.raises(GrantError):
        Grant(plugin="p", owner="o", package_digest="../../etc")


# wildcards


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_wildcards_as_regular_expressions(pattern: str, name: str) -> None:
    """The language is the usual one."""
    import re

    expression = "".join({"*": ".*", "?": "."}.get(sign, re.escape(sign)) for sign in pattern)
    assert matches(pattern, name) == (re.fullmatch(expression, name, re.DOTALL) is not None)


@given(st.text("ab*?", max_size=5), st.text("ab*?", max_size=5))
def test_covers_is_never_wrong(wide: str, narrow: str) -> None:
    """What is said to be covered is: every name that the narrow one matches, the wide one matches."""
    if covers(wide, narrow):
        assert all(matches(wide, name) for name in NAMES if matches(narrow, name))


def test_covers() -> None:
    """The usual cases are seen."""
    for wide, narrow in (("*", "a*b"), ("a*", "ab"), ("a*", "a*b"), ("a?", "ab"), ("a?", "a?"), ("*:*", "config:*")):
        assert covers(wide, narrow)
    for wide, narrow in (("a", "a*"), ("a?", "a*"), ("ab", "a?"), ("config:*", "*"), ("", "a")):
        assert not covers(wide, narrow)


def test_wildcards_take_no_time_and_no_length() -> None:
    """Patterns made to make a matcher go back and forth do not; what is too long matches nothing."""
    assert not matches("*a" * 100, "a" * 99 + "b" * 101)
    assert not matches("*", "x" * 201)
    assert matches("*", "x" * 200)
    assert pattern_problem("x" * 201)
    assert not matches_any((), "x")
