"""
The native tiers as an ordinary user sees them: no control group, no users to give away, nothing set up.
"""

from __future__ import annotations

import os
import shutil

import native_hosts
import pytest

import house

#: Three guests at once, each of which starts threads until it may not; how many each of them had beside its first.
TOGETHER = r"""
import json, sys, threading
import fastness

code = '''
import threading, time
n = 0
try:
    while n < 60:
        threading.Thread(target=time.sleep, args=(1.5,), daemon=True).start()
        n += 1
except RuntimeError:
    pass
time.sleep(1.0)
n
'''
with fastness.Sandbox(tier="isolated", timeout=20) as box:
    box.run("0")
    counts = []
    work = lambda: counts.append(box.run(code, limits={"pids": 24}, memory="1G").value)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for one in threads: one.start()
    for one in threads: one.join()
print(json.dumps(counts))
"""

PLAIN = r"""
import json, sys, warnings
warnings.simplefilter("error")
import fastness

told = {}
for tier in ("confined", "isolated"):
    with fastness.Sandbox(tier=tier, timeout=20) as box:
        result = box.run("open('new.txt', 'w').write(open('in.txt').read() * 2)", files={"in.txt": b"ab"})
        with box.session() as session:
            session.execute("kept = 41")
            told[tier] = [result.outcome.kind.value, result.files["new.txt"].read().decode(), session.execute("kept + 1").value]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def found(callers: native_hosts.Callers) -> native_hosts.Callers:
    house.require("isolated tier")
    return callers


@pytest.mark.parametrize("caller", native_hosts.CALLERS)
def test_threads_are_counted_for_each_guest(caller: str, found: native_hosts.Callers) -> None:
    """A guest's limit is its own: neither its siblings nor the caller's other processes count."""
    one = native_hosts.find(found, caller)
    assert one.run(TOGETHER) == [23, 23, 23]


@pytest.mark.parametrize("caller", native_hosts.CALLERS)
def test_nothing_is_set_up(caller: str, found: native_hosts.Callers) -> None:
    """Without FASTNESS_HOME and a session's folder both tiers work, and say nothing on the way."""
    one = native_hosts.find(found, caller)
    temporary = os.path.join(one.home, "temporary")
    os.mkdir(temporary, 0o700)
    if not one.root and os.geteuid() == 0:
        os.chown(temporary, native_hosts.ORDINARY, native_hosts.ORDINARY)
    folders = {"FASTNESS_HOME": "", "TMPDIR": temporary, "XDG_CACHE_HOME": temporary}
    if caller == "caller":
        # The caller may have one already, and what is in it is not ours to remove.
        folders["XDG_RUNTIME_DIR"] = temporary
    try:
        told = one.run(PLAIN, env=folders)
    finally:
        for folder in (f"/tmp/runtime-{native_hosts.ORDINARY}/fastness", f"/run/user/{native_hosts.ORDINARY}/fastness"):
            # This user is nobody's but ours.
            shutil.rmtree(folder, ignore_errors=True)
        if os.path.isdir(f"/tmp/runtime-{native_hosts.ORDINARY}"):
            os.rmdir(f"/tmp/runtime-{native_hosts.ORDINARY}")
    assert told == {"confined": ["ok", "abab", 42], "isolated": ["ok", "abab", 42]}
