"""
Mutations of what confines guests: filters of system calls, Landlock, namespaces, powers, limits, the module firewall.
"""

from __future__ import annotations

from mutants import Change, Row, Sign

_GUEST = "data/seccomp/guest.json"
_COMMAND = "data/seccomp/command.json"
_BIRTH = "_native/birth.py"
_RANDOM = '{"calls": ["getrandom"],'


def _no_row(attack: str) -> Sign:
    """The filter has not refused it: where the effect is not there either, the kernel or another wall has."""
    return Sign(attack, "unexpected", "no seccomp row with the code syscall")


def _allowed(*calls: str) -> tuple[Change, ...]:
    """The filter of guests lets these calls through."""
    more = "".join(f', "{call}"' for call in calls)
    return (Change(_GUEST, _RANDOM, f'{{"calls": ["getrandom"{more}],'),)


FILTERS = (
    Row("filter.unshare", "the filter refuses new namespaces", "confined", _allowed("unshare"),
        (Sign("kernel.namespace_by_unshare"),)),
    Row("filter.clone", "of clone the filter lets threads through alone", "confined",
        (Change(_GUEST, '{"calls": ["clone"], "when": [{"arg": 0, "in": ["CLONE_THREAD_OF_GLIBC", '
                '"CLONE_THREAD_OF_MUSL"]}],', '{"calls": ["clone"],'),),
        (Sign("kernel.fork"),)),
    Row("filter.clone3", "clone3, whose flags no filter can read, does not exist", "confined",
        (Change(_GUEST, '{"calls": ["clone3"], "action": {"errno": "ENOSYS"},',
                '{"calls": ["clone3"], "action": "allow",'),),
        (Sign("kernel.namespace_by_clone3"),)),
    Row("filter.execve", "the filter refuses to become another program", "confined", _allowed("execve", "execveat"),
        (_no_row("kernel.exec"),)),
    Row("filter.ptrace", "the filter refuses to trace", "confined", _allowed("ptrace"), (_no_row("kernel.trace"),)),
    Row("filter.io_uring", "the filter refuses queues of io_uring", "isolated", _allowed("io_uring_setup"),
        (_no_row("kernel.io_uring"),)),
    Row("filter.memory_file", "the filter refuses files in memory", "confined", _allowed("memfd_create"),
        (Sign("kernel.memory_file"),)),
    Row("filter.keys", "the filter refuses the kernel's key rings", "confined", _allowed("keyctl"),
        (_no_row("kernel.keys_read"),)),
    Row("filter.userfaultfd", "the filter refuses to handle page faults", "isolated", _allowed("userfaultfd"),
        (_no_row("kernel.userfaultfd"),)),
    Row("filter.socket", "the filter refuses sockets of the network", "confined",
        _allowed("socket", "connect"),
        (_no_row("network.udp"),)),
    Row("filter.terminal", "of requests to a device the filter lets a few through", "isolated",
        (Change(_GUEST, '''"when": [{"arg": 1, "width": 32,
                 "in": ["TCGETS",''', '''"when": [{"arg": 1, "width": 32,
                 "in": ["TIOCSTI", "TCGETS",'''),),
        (_no_row("kernel.terminal_input"),)),
    Row("filter.urgent", "the filter refuses urgent bytes", "confined",
        (Change(_GUEST, '"when": [{"arg": 4, "in": [0]}, {"arg": 3, "width": 32, "only_bits": "NOT_MSG_OOB"}],',
                '"when": [{"arg": 4, "in": [0]}],'),
         Change(_GUEST, '{"calls": ["recvfrom"], "when": [{"arg": 3, "width": 32, "only_bits": "NOT_MSG_OOB"}],',
                '{"calls": ["recvfrom"],')),
        (_no_row("kernel.urgent_bytes"),)),
    Row("filter.descriptors", "the filter keeps descriptors from the host's socket", "confined",
        (Change(_GUEST, '"when": [{"arg": 0, "width": 32, "in": [1020]}, '
                '{"arg": 2, "width": 32, "only_bits": "NOT_MSG_OOB"}],', '"when": [{"arg": 0, "width": 32, "in": [3, 1020]}],'),),
        (Sign("channel.descriptors", "unexpected", "the run ended as protocol"),)),
    Row("filter.kill", "the filter lets a guest signal itself alone", "confined",
        (Change(_GUEST, '''"when": [{"arg": 0, "width": 32, "in": ["SELF"]}], "action": "allow",
       "why": "signals to itself''', '''"action": "allow",
       "why": "signals to itself'''),),
        (_no_row("signals.group"),)),
    Row("filter.prctl", "of prctl the filter lets questions through", "isolated",
        (Change(_GUEST, '"in": ["PR_GET_PDEATHSIG",', '"in": ["PR_SET_DUMPABLE", "PR_GET_PDEATHSIG",'),),
        (Sign("kernel.dumpable"),)),
    Row("filter.metadata", "the filter lets nobody change metadata of the host's files", "confined",
        (Change(_GUEST, '"waiting", "shared_metadata"],\n                 "notify": "notify"},\n    "confined_old"',
                '"waiting", "own_metadata"],\n                 "notify": "notify"},\n    "confined_old"'),),
        (_no_row("metadata.mode"),)),
    Row("filter.owner", "the filter refuses to name who is signalled for a descriptor", "confined",
        (Change(_GUEST, '"in": ["F_DUPFD",', '"in": [8, 10, "F_DUPFD",'),),
        (_no_row("signals.by_owner"),)),
    Row("filter.peer", "the filter refuses a descriptor of the process at a socket's other end", "confined",
        (Change(_GUEST, '"in": ["SO_PEERPIDFD"]', '"in": [12345]'),),
        (_no_row("kernel.process_descriptor_by_socket"),)),
    Row("filter.limits", "the filter lets a guest ask for its own limits alone", "confined",
        (Change(_GUEST, '{"calls": ["prlimit64"], "when": [{"arg": 0, "width": 32, "in": [0, "SELF"]}, '
                '{"arg": 2, "in": [0]}],', '{"calls": ["prlimit64"],'),),
        (Sign("kernel.limits_of_others"),)),
    Row("filter.pairs", "the filter refuses pairs of sockets that could be turned on others", "confined",
        (Change(_GUEST, '"ignore_bits": "SOCK_NONBLOCK|SOCK_CLOEXEC", "in": ["SOCK_STREAM"]}],',
                '"ignore_bits": "SOCK_NONBLOCK|SOCK_CLOEXEC", "in": ["SOCK_STREAM", 2]}],'),),
        (_no_row("network.datagram_pair"),)),
    Row("filter.x32", "numbers of another ABI end the process", "isolated",
        (Change("_linux/bpf.py", "code += [(_JUMP_GE, 0, 1, _X32_BIT), (_RETURN, 0, 0, KILL_PROCESS)]", "pass"),),
        (Sign("kernel.odd_numbers"),)),
    Row("filter.recorded", "what the filter refuses is recorded", "isolated",
        (Change("_native/zygote.py", 'self.config["record"] = self._room() and self.config["record"]',
                'self.config["record"] = False'),),
        (_no_row("kernel.bpf"),)),
    Row("filter.whole", "a guest installs its filter", "confined",
        (Change("_native/box.py", "    born.give_up.run()\n    _filter(born)", "    born.give_up.run()\n    born.last.run()"),),
        (_no_row("kernel.exec"),)),
    Row("filter.command", "the filter of programs refuses new namespaces", "isolated",
        (Change(_COMMAND, '"capget", "getrandom"],', '"capget", "getrandom", "unshare"],'),),
        (Sign("kernel.namespace_by_unshare"),)),
)  # fmt: skip

WALLS = (
    Row("landlock.confined", "guests of confined, and what they are copies of, are under Landlock", "confined",
        (Change(_BIRTH, 'calls.add("landlock_restrict_self", FOLDERS, 0)', "pass"),
         Change("_native/zygote.py", '            ruleset.restrict()\n', "            ruleset.close()\n")),
        (Sign("files.read_absolute"), Sign("files.read_by_walk"))),
    Row("landlock.own", "each guest has rules for its own folder", "confined",
        (Change(_BIRTH, 'calls.add("landlock_restrict_self", FOLDERS, 0)', "pass"),),
        (Sign("state.files_of_siblings"),)),
    Row("landlock.folders", "Landlock lets a guest read folders that are named, and no others", "confined",
        (Change("_native/zygote.py", 'for path in [*self.config["readable"], *devices]:',
                'for path in ["/", *self.config["readable"], *devices]:'),),
        (Sign("files.read_absolute"),)),
    Row("namespace.mounts", "each guest has a mount namespace of its own", "isolated",
        (Change("_native/zygote.py", "flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC if",
                "flags = CLONE_NEWPID | CLONE_NEWIPC if"),),
        (Sign("state.files_of_siblings"),)),
    Row("namespace.network", "guests have a network namespace of their own, and Landlock closes the rest", "isolated",
        (Change("_native/launcher.py", "| CLONE_NEWNET | CLONE_NEWIPC", "| CLONE_NEWIPC"),
         Change("_linux/landlock.py", "_SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL if self.abi >= 6 else 0", "_SCOPE_SIGNAL")),
        (Sign("network.local_name_by_a_program"),)),
    Row("namespace.tree", "guests of isolated see a tree of their own, and Landlock the same", "isolated",
        (Change("_native/tree.py", '    os.symlink("/tmp", f"{root}/var/tmp")',
                '    os.mkdir(f"{root}/var/tmp")\n    mounts.bind("/var/tmp", f"{root}/var/tmp")'),
         Change(_BIRTH, 'calls.add("landlock_restrict_self", FOLDERS, 0)', "pass")),
        (Sign("files.read_absolute"),)),
    Row("powers.capabilities", "a guest gives up its capabilities", "isolated",
        (Change(_BIRTH, 'calls.add("capset", *capability_arguments(()))', "pass"),
         Change(_BIRTH, "self.give_up.put(self._places[name], uid, uid, uid)", "self.give_up.put(self._places[name], 0, 0, 0)")),
        (Sign("privileges.capabilities"),), root=True),
    Row("limits.descriptors", "a guest of confined may open so many descriptors", "confined",
        (Change("backends/native_limits.py", "            (resource.RLIMIT_NOFILE, _fds(request)),\n",
                "            (resource.RLIMIT_NOFILE, 1020),\n"),),
        (Sign("limits.descriptors"),)),
    Row("limits.descriptors_isolated", "a guest of isolated may open so many descriptors", "isolated",
        (Change("backends/native_limits.py", "box.limit(resource.RLIMIT_NOFILE, _fds(request))",
                "box.limit(resource.RLIMIT_NOFILE, 1020)"),),
        (Sign("limits.descriptors"),)),
    Row("limits.memory", "a guest of confined has so much memory", "confined",
        (Change("backends/native_limits.py", "            (resource.RLIMIT_AS, limits.memory),\n", ""),
         Change("backends/native_limits.py", "            (resource.RLIMIT_DATA, limits.memory),\n", "")),
        (Sign("limits.memory_at_once"),)),
    Row("limits.core", "nothing of a guest that crashes is written down", "confined",
        (Change("_native/zygote.py", "privileges.RLIMIT_CORE, privileges.RLIMIT_MEMLOCK", "privileges.RLIMIT_MEMLOCK"),
         Change(_BIRTH, '        calls.add("prctl", PR_SET_DUMPABLE, 0)\n        self._limits', "        self._limits")),
        (Sign("limits.core_dump"),)),
    Row("group.memory", "memory of all processes of a run counts together", "isolated",
        (Change("backends/native_limits.py", "guest.slot.configure(memory=memory,", "guest.slot.configure(memory=1 << 40,"),),
        (Sign("limits.memory_of_many"),), root=True),
    Row("group.processes", "processes of a run count together", "isolated",
        (Change("backends/native_limits.py", "pids=limits.pids + _first(request), cpus=None", "pids=30000, cpus=None"),
         Change("backends/native_limits.py", "box.limit(resource.RLIMIT_NPROC, limits.pids + first",
                "box.limit(resource.RLIMIT_NPROC, 30000 + first")),
        (Sign("limits.processes"),), root=True),
    Row("guest.environment", "a native guest's environment is built from nothing", "isolated",
        (Change("backends/native_launch.py", "            env=environment,\n", "            env={**os.environ, **environment},\n"),),
        (Sign("environment.read_variables"),)),
)  # fmt: skip

FIREWALL = (
    Row("firewall.fork", "the module firewall refuses to fork", "worker",
        (Change("guest/firewall.py", '"os.system", "os.exec", "os.fork", ', '"os.system", "os.exec", '),),
        (Sign("worker.fork"),)),
    Row("firewall.native", "the module firewall refuses native modules by name", "worker",
        (Change("guest/firewall.py", 'if name.partition(".")[0] not in {"ctypes", "cffi"} and name.rpartition(".")[2] not in natives:',
                "if True:"),),
        (Sign("worker.line_editor"),)),
    Row("firewall.connect", "the module firewall refuses sockets of the network", "worker",
        (Change("guest/firewall.py", '"socket.__new__", "socket.connect", ', ""),),
        (Sign("worker.connect"),)),
    Row("firewall.silent", "the module firewall takes out what no event tells of", "worker",
        (Change("guest/firewall.py", "            raise RuntimeError(f\"{name} is loaded already\")\n    _take_out()\n",
                "            raise RuntimeError(f\"{name} is loaded already\")\n"),),
        (Sign("worker.kill_by_descriptor"),)),
    Row("firewall.builtins", "the module firewall guards the making of builtin modules", "worker",
        (Change("guest/firewall.py", '    vars(_imp)["create_builtin"] = create_builtin\n', ""),),
        (Sign("worker.builtin_again"),)),
    Row("firewall.proc", "the module firewall refuses what the kernel shows of others", "worker",
        (Change("guest/firewall.py", 'if not found.startswith("/proc/"):', "if True:"),),
        (Sign("worker.variables_of_others"),)),
    Row("worker.environment", "a worker's environment is built from nothing", "worker",
        (Change("backends/worker_process.py", "guest_env(_ENVIRONMENT, TMPDIR=temporary, MPLCONFIGDIR=temporary)",
                "{**os.environ, **_ENVIRONMENT}"),),
        (Sign("environment.read_variables"),)),
)  # fmt: skip

ROWS = FILTERS + WALLS + FIREWALL
