"""The report for people: whole, and nothing in it that a guest said is markup or is fetched."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from fastness.attack import matrix, page, plan, report
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Outcome, Verdict
from fastness.tier import Guarantee, Probe, ProbeFailure

EVIL = "<script src=https://evil.example/x.js></script><img src=x onerror=alert(1)>\"'&\u202e\udc00"


def attempt(arena: Any) -> Effect:
    return Effect(True, "")


def make(name: str, says: str = "Nothing happens.") -> Attack:
    return Attack(
        name,
        Claim(Guarantee.FS_CONFINED, says),
        {"wasm": Expect(Layer.ABSENT)},
        attempt,
        lambda arena: Effect(True, ""),
    )


def proof(*outcomes: Outcome, **more: Any) -> report.Proof:
    tiers = ("wasm", "container")
    failure = ProbeFailure(guarantee="all", cause=f"no engine {EVIL}", remedy=f"install {EVIL}")
    fields: dict[str, Any] = {
        "outcomes": outcomes,
        "standings": {
            "wasm": plan.Standing(
                "wasm",
                Probe(
                    backend="b",
                    tier="wasm",
                    guarantees=tuple(one.value for one in Guarantee),
                    layers={"FS_CONFINED": EVIL},
                    versions={"engine": EVIL},
                ),
            ),
            "container": plan.Standing("container", Probe(backend="", tier="container", failures=(failure,))),
        },
        "matrix": matrix.make([one.attack for one in outcomes], tiers, outcomes),
        "machine": {**report.machine(), "kernel": EVIL},
        "quick": False,
        "lanes": 2,
        "seconds": 3.0,
    }
    return report.Proof(**{**fields, **more})


class Reader(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_what_a_guest_said_is_text() -> None:
    """Markup in any text becomes words; nothing is fetched and no script is there, and the browser is told so too."""
    outcome = Outcome(make("a.b", f"{EVIL}."), "wasm", Verdict.ESCAPED, EVIL, EVIL, EVIL, EVIL, 1.0, 0.5, EVIL)
    text = page.make(proof(outcome))
    read = Reader(text)
    assert not read.open
    assert not {"script", "img", "link", "iframe", "object", "svg", "form"} & set(read.tags)
    names = {name for name, _ in read.attributes}
    assert not {name for name in names if name.startswith("on")} | names & {"src", "srcset", "action"}
    assert all(value.startswith("#") for name, value in read.attributes if name == "href" and value is not None)
    assert not re.search(r"url\(|@import", text)
    policy = next(value for name, value in read.attributes if name == "content" and value and "default-src" in value)
    assert policy.startswith("default-src 'none'")
    assert read.words.count("<script src=") >= 8
    text.encode("utf-8")
    assert "\u202e" not in text


def test_it_says_what_a_person_asks() -> None:
    """Whether it is good, on what machine, in which tiers, by family, and each attack with both sides of it."""
    held = Outcome(
        make("files.read"), "wasm", Verdict.HELD, "wasi: absent", "", "it saw nothing", "it read it", 0.2, 0.1
    )
    words = Reader(page.make(proof(held))).words
    for said in (
        "Everything that was tried was stopped", "1 attacks ran", "files.read", "Nothing happens.", "wasi: absent",
        "inside: it saw nothing", "control: it read it", "does not hold here", "fastness doctor", "engine bugs",
        report.machine()["python"],
    ):  # fmt: skip
        assert said in words, said


def test_bad_news_is_not_folded_away() -> None:
    """What escaped is open, marked and said at the top; a page of nothing claims nothing."""
    bad = Outcome(make("files.read"), "wasm", Verdict.ESCAPED, "", "it got out", "it got out", "it read it")
    good = Outcome(make("files.other"), "wasm", Verdict.HELD, "wasi: absent")
    text = page.make(proof(bad, good))
    assert text.count("<details open>") == 1
    assert "Not everything was stopped" in text
    assert "1 ESCAPED" in Reader(text).words
    assert "nothing is proven" in page.make(proof())
