"""
Every attack of the corpus is tried in containers, or it is said here why there is nothing to be tried.
"""

from __future__ import annotations

import pytest

from fastness.attack import registry
from fastness.attack.model import Attack

#: Whole families.
_FAMILIES = {
    "broker": "what a call may do is decided on this side, by the same code whichever tier it comes from",
    "calls": "as above; that calls of a container come to it at all is tested in tests/engines",
    "plugins": "as above",
    "lifecycle": "as above",
    "javascript": "there is no JavaScript",
    "wasi": "modules of WASI do not run in containers",
    "worker": "of hooks inside an interpreter, which no other tier relies on",
}
#: What guests of other tiers must not do at all, and what those of a container may, as a program there may: the wall is
#: the container's, and the attacks on that wall are tried.
_ALLOWED = {
    "kernel.dumpable": "a process may open itself to others of its run; the first process is closed",
    "kernel.exec": "a container runs programs",
    "kernel.folder_watch": "it watches folders of its own tree",
    "kernel.fork": "a container runs programs; how many is bounded",
    "kernel.limits_raised": "it sets limits of its own below the hard ones",
    "kernel.machine_code": "sockets lead to its own loopback",
    "kernel.memory_file": "said not to be stopped, and tested to gain nothing",
    "kernel.process_descriptor": "of processes of its run",
    "kernel.process_descriptor_by_socket": "of processes of its run",
    "kernel.terminal_input": "it has no terminal to ask about",
    "kernel.terminal_input_masked": "it has no terminal to ask about",
    "kernel.terminal_selection": "it has no terminal to ask about",
    "kernel.urgent_bytes": "between two ends of its own",
    "limits.memory_of_the_kernel": "counted with all else of the container, below a limit that holds files too",
    "network.ciphers": "AF_ALG is refused: tests/engines/test_container_flags.py",
    "network.datagram_pair": "between two ends of its own",
    "network.many_paths": "sockets have names in its own tree",
    "network.version_6": "sockets lead to its own loopback",
    "output.terminal": "of the command line, whatever the tier",
    "process.memory_of_others": "its own memory; the first process's is tried by containers.first_process",
    "process.fork": "a container runs programs",
    "process.native_code": "a container runs programs",
    "process.spawn": "a container runs programs",
    "process.subprocess": "a container runs programs",
    "process.system": "a container runs programs",
    "process.threads": "threads are processes of the kernel's, and bounded: limits.threads",
}
#: What an attack needs is not there to be attacked.
_ABSENT = {
    "channel.descriptors": "its end of the connection is a container's first process, which takes bytes alone",
    "channel.descriptors_by_number": "its end of the connection is a container's first process, which takes bytes alone",
    "environment.site_folder": "no folder of packages of this machine is in a container",
    "environment.host_paths": "of the tier wasm's file tree",
    "files.pipe_read": "no folder of packages of this machine is in a container",
    "files.system_read": "no folder of packages of this machine is in a container",
    "metadata.attributes_read": "no folder of this machine is in a container",
    "metadata.attributes_removed": "no folder of this machine is in a container",
    "metadata.attributes_written": "no folder of this machine is in a container",
    "metadata.content": "no folder of this machine is in a container",
    "metadata.mode": "no folder of this machine is in a container",
    "metadata.owner": "no folder of this machine is in a container",
    "metadata.times": "no folder of this machine is in a container",
    "limits.javascript_loop": "there is no JavaScript",
    "network.javascript": "there is no JavaScript",
    "output.false_claim": "guests claim nothing there",
    "processes.counted": "processes.listed is tried",
    "signals.between_programs": "signals.siblings is tried, and every guest there is a program",
    "state.folder_again": "each has a container of its own, with its folders in it",
    "state.folder_exchanged": "no zygote, and so nothing that is imported ahead of a guest's walls",
    "state.hash_seed": "no zygote: each run starts an interpreter of its own",
    "privileges.set_user_id": "of programs of this machine; one in an image is tried in tests/engines",
}
EVERY = [one for one in registry.load() if one.attack.__module__.startswith("fastness.attack.corpus.")]


@pytest.mark.parametrize("attack", EVERY, ids=lambda attack: attack.id)
def test_each_is_tried_or_there_is_a_reason(attack: Attack) -> None:
    reasons = [table[attack.id] for table in (_ALLOWED, _ABSENT) if attack.id in table]
    if attack.family in _FAMILIES:
        reasons.append(_FAMILIES[attack.family])
    assert ("container" in attack.tiers) == (not reasons), reasons or "neither tried nor explained"


def test_no_reason_is_of_an_attack_that_there_is_not() -> None:
    ids = {attack.id for attack in EVERY}
    assert {*_ALLOWED, *_ABSENT} <= ids
    assert set(_FAMILIES) <= {attack.family for attack in EVERY}
