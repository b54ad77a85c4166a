"""
How other sandboxes have failed in public, and what tries the same here.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """
    A class of faults.

    ``what`` went wrong; ``where`` it was reported, as public projects and numbers of their issues or advisories;
    ``tried`` are ids of attacks, or files of tests where there is nothing for a guest to attack.
    """

    what: str
    where: str
    tried: tuple[str, ...]


#: By subject, each in the order of the list that it was gathered in.
FAILURES: dict[str, tuple[Failure, ...]] = {
    "Isolation": (
        Failure(
            "A filter over syntax trees in the host's own interpreter is passed by attributes, frames, finalizers or "
            "native code, and the host calls methods of the guest's objects.",
            "smolagents#2395, #2094, #2271; simpleeval#138",
            (
                "lifecycle.live_objects",
                "plugins.live_value",
                "channel.boot_code",
                "worker.frames_of_others",
                "worker.collector",
                "worker.ctypes",
            ),
        ),
        Failure(
            "A guest in WebAssembly reaches the JavaScript engine around it, and so the machine.",
            "cohere-terrarium#14, n8n#14356, mcp-run-python#39",
            ("wasi.foreign_import", "process.native_code", "environment.read_variables"),
        ),
        Failure(
            "JavaScript in the realm of its host climbs by constructors and prototypes; finalizers outlive a time "
            "limit; stacks name paths of the host.",
            "vm2#576",
            (
                "javascript.constructors",
                "javascript.prototypes",
                "javascript.left_waiting",
                "javascript.stacks",
                "javascript.programs",
            ),
        ),
        Failure(
            "A namespace is had by the newer of two calls, whose flags are where a filter cannot look.",
            "sandlock#240",
            ("kernel.namespace_by_clone3", "kernel.namespace_by_clone", "kernel.namespace_by_unshare"),
        ),
        Failure(
            "A queue of asynchronous operations does what a filter of calls would refuse.",
            "bounty-challenge#19309",
            ("kernel.io_uring",),
        ),
        Failure(
            "Input is forged on the caller's terminal, also by bits that a comparison ignores; another ABI has other "
            "numbers.",
            "bubblewrap#142, #309, #150",
            (
                "kernel.terminal_input",
                "kernel.terminal_input_masked",
                "kernel.terminal_selection",
                "kernel.odd_numbers",
                "kernel.old_entry",
                "output.terminal",
            ),
        ),
        Failure(
            "A socket of a service of the machine can be connected to: an engine's, a bus's, a terminal's.",
            "greywall#55, landrun#43, cplt#240, agent-safehouse#19",
            (
                "network.local_path",
                "network.local_name",
                "network.local_path_by_a_program",
                "network.local_name_by_a_program",
            ),
        ),
        Failure(
            "A secret that a child does not have is read from the parent's environment or memory.",
            "inflexa#88, sandlock#11",
            (
                "environment.read_proc",
                "environment.links_of_caller",
                "environment.own_memory",
                "process.memory_of_others",
                "worker.variables_of_others",
            ),
        ),
        Failure(
            "A policy exists and nothing calls it; a path becomes a command of a shell.",
            "llm-sandbox#147",
            ("broker.host_not_granted", "broker.storage_not_granted", "broker.process_elsewhere"),
        ),
        Failure(
            "The sandbox that was asked for is missing, and the code runs without one.",
            "claude-agent-sdk-typescript#239, agent-code#342, pick#256",
            (
                "plugins.not_unsandboxed",
                "plugins.weaker_tier",
                "broker.process_elsewhere",
                "tests/functional/test_tier_choice.py",
            ),
        ),
    ),
    "Limits": (
        Failure(
            "A cap on memory leaves swap out.",
            "snekbox#31, nsjail#186",
            ("limits.memory_of_many", "limits.memory_shared", "tests/security/test_cgroup.py"),
        ),
        Failure(
            "A control group of a child lies outside the limit of the container around it, or cannot be written and "
            "is taken for one that can.",
            "nsjail#219, langbot-plugin-sdk#69",
            ("tests/security/test_cgroup.py", "tests/unit/test_cgroup_places.py"),
        ),
        Failure(
            "Processes breed, and a limit on them is shared between sandboxes of one user.",
            "NemoClaw#809, epicbox#9, sunwalker-box#10",
            ("limits.processes", "limits.processes_and_threads", "program.breeds", "limits.threads"),
        ),
        Failure(
            "Output is capped only after all of it was kept.",
            "haiku.rag#623, snekbox#81, asta-autodiscovery#89",
            ("limits.output", "output.long_error", "channel.flood", "calls.log_flood"),
        ),
        Failure(
            "Without limits given there are none; nested source brings down the host's own process.",
            "monty#419, monty#112, phoenix#14784",
            ("limits.nested_source", "limits.native_stack", "javascript.nested_source", "wasi.stack_overflow"),
        ),
        Failure(
            "A guest names a size, and the host allocates it.",
            "wasmtime#12652, WASI#888, traverse#1524",
            ("wasi.host_allocation", "wasi.many_tables", "channel.giant_length", "calls.giant_length"),
        ),
    ),
    "Time and ends": (
        Failure(
            "What was started in a container goes on after its time.",
            "inspect_ai#1357, #2779, #3663",
            ("containers.first_process", "limits.endless_loop", "limits.catch_everything"),
        ),
        Failure(
            "Only the shell is ended; a child keeps a pipe open, and processes outlive the host.",
            "langfuse#15955, shisad#132, brepjs#1380",
            (
                "program.pipe_held",
                "program.daemon",
                "program.ignores",
                "tests/security/test_native_ends.py",
                "tests/security/test_worker_tree.py",
            ),
        ),
        Failure(
            "A deadline does not interrupt a call that waits, or holds for the first call alone.",
            "wasmtime#9188, wasmtime-go#233, eryx#73, extism#637",
            ("limits.sleep", "wasi.poll_forever", "wasi.start_function", "javascript.timers", "javascript.promises"),
        ),
        Failure(
            "The first process does not reap.",
            "subfloor#358",
            ("program.breeds", "program.first_process"),
        ),
    ),
    "Output and encoding": (
        Failure(
            "A character that lies across two pieces is broken.",
            "strands#4461, #4156, E2B#505",
            ("output.split_text", "tests/functional/test_output.py"),
        ),
        Failure(
            "Surrogates that stand alone, numbers that are none and large ones break JSON, logs or variables.",
            "AutoGPT#13576, inspect_ai#2316, codejail#3",
            ("output.json", "broker.storage_odd_data", "broker.record_forged_line", "javascript.tags"),
        ),
        Failure(
            "A fault of the sandbox looks like the program's output.",
            "inspect_ai#4740",
            ("channel.forged_result", "channel.two_results", "tests/functional/test_outcomes.py"),
        ),
    ),
    "Files": (
        Failure(
            "A link is changed between the look and the use.",
            "bashkit#980, monty#455, gstack#1420, qftp#106",
            ("broker.fs_swapped", "files.swapped_while_collected", "tests/security/test_project_races.py"),
        ),
        Failure(
            "Paths are compared as text, and a link or a folder that was moved leads out.",
            "deno#2318, node#49154, filesystem-mcp-server#21",
            (
                "broker.fs_dotdot",
                "broker.fs_absolute",
                "broker.fs_link",
                "broker.fs_linked_folder",
                "broker.fs_hard_link",
                "files.results_through_link",
            ),
        ),
        Failure(
            "Children of one snapshot write to one root.",
            "forkd#320",
            ("state.files", "state.files_of_siblings", "state.library", "containers.root_written"),
        ),
    ),
    "Network": (
        Failure(
            "An inner address is written in another form, or reached by a redirect.",
            "bashkit#1569, ssrfcheck#11, openreplay#4850, Unla#305",
            ("broker.net_inside", "broker.net_metadata", "broker.net_redirected_inside"),
        ),
        Failure(
            "A name means one address when it is judged and another when it is used.",
            "crabbox#912, ai-research#485",
            ("broker.net_rebinding", "broker.net_mixed_answers"),
        ),
        Failure(
            "Questions about names carry data out where connections are refused; a name in TLS is another than the "
            "address's.",
            "OpenShell#1169, srt#88, microsandbox#675, #694",
            ("broker.net_names_asked", "network.names", "network.udp", "broker.net_two_parsers"),
        ),
        Failure(
            "Two parsers read one URL differently; an empty list of hosts means all of them.",
            "claude-code#87381, sandlock#103",
            (
                "broker.net_two_parsers",
                "broker.net_duplicate_names",
                "broker.net_empty_list",
                "broker.net_smuggled_lines",
                "broker.net_proxy",
            ),
        ),
    ),
    "Serialization": (
        Failure(
            "The host reads a guest's answer as objects, and so runs it.",
            "smolagents GHSA-q9r5-6hrr-9ph7, nekro-agent#275, clustrix#121",
            ("broker.storage_objects", "plugins.live_value", "channel.forged_result", "javascript.tags"),
        ),
    ),
    "Sessions": (
        Failure(
            "State is said to be kept and is lost, or is left to the next tenant.",
            "senpi#381, pydantic-ai#2332, OpenSandbox#1206, mitos#218",
            ("state.tenants", "state.heap", "state.modules", "tests/functional/test_sessions.py"),
        ),
    ),
    "Platforms": (
        Failure(
            "The machine gives no namespaces, and nobody says why or what to do.",
            "srt#74, codex#14919, bubblewrap#505, gvisor#4371",
            ("tests/security/test_native_gaps.py", "tests/security/test_engine_confinement.py"),
        ),
    ),
    "Tests and words": (
        Failure(
            "Tests of security are green while the sandbox is off; whoever is asked is not told who asks and why.",
            "cairn-rs#414, lobu#2121, sandlock#103, claude-code#33188",
            (
                "tests/security/test_attack_controls.py",
                "tests/unit/attack/test_attacks_behind.py",
                "plugins.reason_of_control_characters",
                "plugins.unseen_names",
            ),
        ),
    ),
}
