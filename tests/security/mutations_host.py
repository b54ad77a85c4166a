"""
Mutations of what a host does with what comes from guests, and with plugins: frames, output, files, screens, packages.
"""

from __future__ import annotations

from mutants import Change, Row, Sign

_FRAMES = "wire/frames.py"
_SESSION = "wire/session.py"
_TALK = "backends/native_talk.py"
_COLLECT = "runner/collect.py"
_CORE = "plugins/core.py"
_STORE = "plugins/store.py"
_POLICY = "policy.py"

WIRE = (
    Row("wire.blob", "a blob past its cap breaks the protocol", "confined",
        (Change(_FRAMES, "        if blob_len > self.max_blob:", "        if False:"),),
        (Sign("channel.giant_blob"),)),
    Row("wire.length", "a length that is named reserves nothing, and has a cap", "confined",
        (Change(_FRAMES, "        if blob_len > self.max_blob:", "        self.types = {*self.types, bytes(head_len + blob_len)[:1]}\n        if False:"),
         Change(_FRAMES, "        if head_len > self.max_head:", "        if False:")),
        (Sign("channel.giant_length", "unexpected", "not protocol"),)),
    Row("wire.order", "a message out of order breaks the protocol", "confined",
        (Change(_SESSION, "        if frame is not None and frame.type not in allowed[self.state]:", "        if False:"),
         Change(_TALK, '        raise GuestProtocolError(f"{type(message).__name__.lower()} has no meaning for this guest")', "        return False")),
        (Sign("channel.wrong_order", "unexpected", "not protocol"),)),
    Row("wire.answers", "an answer is to the run that goes on", "confined",
        (Change(_SESSION, """        if id != self.invoke_id:
            raise self._break(f"an answer to invoke""", """        if False:
            raise self._break(f"an answer to invoke"""),),
        (Sign("channel.two_results"),)),
    Row("wire.numbers", "numbers of calls rise", "confined",
        (Change(_SESSION, "            if message.id <= self._call_id:", "            if False:"),),
        (Sign("calls.numbers_again"),)),
    Row("wire.flight", "so many calls are under way at once", "confined",
        (Change(_SESSION, "        return len(self._calls) >= self.calls_in_flight", "        return False"),
         Change(_SESSION, "        while len(self._calls) < self.calls_in_flight:", "        while True:")),
        (Sign("calls.more_at_once"),)),
    Row("wire.arguments", "arguments have a size", "confined",
        (Change("wire/values.py", '    if len(data) > max_bytes:\n        raise GuestProtocolError(f"a value of', '    if False:\n        raise GuestProtocolError(f"a value of'),
         Change(_FRAMES, "        if blob_len > self.max_blob:", "        if False:")),
        (Sign("calls.huge_arguments"),)),
    Row("wire.claims", "claims are kept up to a number", "confined",
        (Change(_TALK, "            if self._events > _EVENTS_MAX:", "            if False:"),
         Change(_TALK, "            self.claims += blob[: _CLAIMS_CAP - len(self.claims)]",
                "            self.claims = bytearray(self.claims) if not isinstance(self.claims, bytearray) else self.claims\n            self.claims += blob")),
        (Sign("channel.flood"),)),
    Row("wire.unread", "answers that a guest does not read are bounded", "confined",
        (Change(_TALK, "        interest = 0 if box.session.paused or box.outbox.size > _UNREAD else select.EPOLLIN",
                "        interest = select.EPOLLIN"),
         Change(_TALK, "        if self.box.outbox.size > _UNREAD:", "        if False:")),
        (Sign("calls.unread_answers"),)),
)  # fmt: skip

OUTPUT = (
    Row("output.cap", "output past the cap ends the run", "confined",
        (Change(_TALK, "            self.end(OutcomeKind.OUTPUT_LIMIT)\n", "            pass\n"),),
        (Sign("limits.output", "unexpected", "not output_limit"),)),
    Row("output.kept", "output is kept up to a cap", "confined",
        (Change("runner/capture.py", "        while self._tail_size > self._tail_cap:", "        while False:"),
         Change("runner/capture.py", "        if len(data) > self._tail_cap:", "        if False:")),
        (Sign("limits.output"),)),
    Row("limits.time", "a run ends at its time", "confined",
        (Change(_TALK, "        elif now - self.began >= limits.wall_s:", "        elif now - self.began >= limits.wall_s + 3:"),),
        (Sign("limits.sleep"),)),
    Row("limits.processor", "processor time is limited as time is", "isolated",
        (Change(_TALK, "        if self.clock() - self.cpu_before >= limits.cpu_s:", "        if False:"),
         Change("backends/native_limits.py", "            box.limit(resource.RLIMIT_CPU, seconds, seconds + 1)\n".replace("            ", "        ", 1), "")),
        (Sign("limits.processor", "unexpected", "not cpu"),)),
    Row("limits.disk", "what a guest keeps on the disk is looked at while it runs", "confined",
        (Change(_TALK, "        elif self.watch is not None and (found := self.watch()) is not None:", "        elif (found := None) is not None:"),),
        (Sign("limits.disk_in_many_files"),)),
    Row("screen.controls", "what is shown has no control characters", "confined",
        (Change("cli/visible.py", "    shown = text.translate(_TABLE)\n", "    shown = text\n"),),
        (Sign("output.terminal_escapes"),)),
    Row("screen.reasons", "what a manifest says is shown with what cannot be seen", "isolated",
        (Change("unseen.py", '    return "".join(escaped(letter) if is_unseen(letter) else letter for letter in text)', "    return text"),),
        (Sign("plugins.reason_of_control_characters"),)),
    Row("screen.alike", "names that look the same are told apart", "isolated",
        (Change("unseen.py", '    return "".join(escaped(letter) if is_unseen(letter) else letter for letter in text)', "    return text"),
         Change("cli/visible.py", "    shown = text.translate(_TABLE)\n", "    return text\n    shown = text\n")),
        (Sign("plugins.unseen_names"),)),
)  # fmt: skip

PLUGINS = (
    Row("plugins.digest", "files that are not those that were granted do not run", "isolated",
        (Change("plugins/installed.py", "        if made.encode() != listing:\n", "        if False:\n"),),
        (Sign("plugins.files_changed"),)),
    Row("plugins.links", "no link in a package is followed", "isolated",
        (Change("plugins/package.py", '    if seen.kind != "file":\n        return None, f"a {seen.kind} is no part of a plugin"\n',
                '    if os.path.isdir(f"/proc/self/fd/{seen.folder}/{seen.name}"):\n        return Member(b"", False), ""\n'),
         Change("plugins/package.py", "        descriptor = beneath.open_child(seen.folder, seen.name, _READ)",
                "        descriptor = os.open(seen.name, os.O_RDONLY, dir_fd=seen.folder)")),
        (Sign("plugins.link_in_package"),)),
    Row("plugins.quarantine", "a plugin that broke the protocol is called no more", "isolated",
        (Change(_STORE, "            if known.digest == digest and known.state is State.ENABLED:", "            if False:"),),
        (Sign("plugins.breaks_protocol"),)),
    Row("plugins.crashes", "a plugin that crashed three times is called no more", "isolated",
        (Change(_STORE, "                if known.crashes + 1 >= CRASHES_MAX and known.state is State.ENABLED:", "                if False:"),),
        (Sign("plugins.crashes"),)),
    Row("plugins.asks_more", "a version that asks for more waits for a grant, and has what was granted", "isolated",
        (Change(_STORE, "        if more:\n            if known.state", "        if False:\n            if known.state"),
         Change(_POLICY, "    if spec is None or granted is None or not ceiling.permits(kind):\n        return None\n", "    return asked\n")),
        (Sign("plugins.upgrade_asks_more"),)),
    Row("plugins.runtime", "what was granted in one engine is not granted elsewhere", "isolated",
        (Change(_STORE, "more = diff(manifest, before, self.specs) + runtime_words(manifest, before)",
                "more = diff(manifest, before, self.specs)"),),
        (Sign("plugins.upgrade_changes_runtime"),)),
    Row("plugins.review", "a tier that is weaker than the default needs a review", "isolated",
        (Change(_POLICY, '    if chosen.strength < default.strength and trust != "reviewed":', "    if False:"),),
        (Sign("plugins.weaker_tier"),)),
    Row("plugins.strangers", "strangers' plugins run in no weak tier", "isolated",
        (Change(_CORE, "    if known.source is Source.MARKETPLACE and tier.strength < _STRANGERS:", "    if False:"),),
        (Sign("plugins.weaker_tier"),)),
    Row("plugins.reviewed", "a review is of files", "isolated",
        (Change("plugins/rows.py", '        tier, trust = _unreviewed(manifest, tier), ""\n', "        pass\n"),),
        (Sign("plugins.reviewed_upgrade"),)),
    Row("plugins.disabled", "a plugin that is disabled does nothing", "isolated",
        (Change(_CORE, "        if known.state not in (State.ENABLED, State.AWAITING_GRANT):", "        if False:"),
         Change("plugins/schema.py", " AND g.live = 1 AND p.state = 'enabled'", " AND g.live = 1")),
        (Sign("plugins.storage_after_disable"),)),
    Row("plugins.ids", "an id stays its plugin's", "isolated",
        (Change(_STORE, "                if not upgrade or known.source is not origin:", "                if False:"),),
        (Sign("plugins.another_id"),)),
    Row("plugins.removed", "a plugin remembers nothing of one that was removed", "isolated",
        (Change("plugins/adapters.py", "                portal.wait(forget(plugin), _CLOSE_S)", "                pass"),),
        (Sign("plugins.memory_after_remove"),)),
    Row("plugins.in_flight", "what is in flight when a grant is revoked is cancelled", "isolated",
        (Change("broker/calls.py", "    def _cut_short(self, why: DenialCode) -> None:\n        self._why = why\n        self._cancel_all()",
                "    def _cut_short(self, why: DenialCode) -> None:\n        self._why = why"),
         Change("broker/calls.py", "        self._why = why\n        portal.soon(self._cancel_all)", "        self._why = why")),
        (Sign("plugins.in_flight"),)),
    Row("plugins.lookups", "a plugin looks up what its policy names", "isolated",
        (Change("plugins/ledger.py", "        if not matches_any(patterns, name):", "        if False:"),),
        (Sign("lifecycle.other_names"),)),
    Row("plugins.names", "what a plugin provides is counted", "isolated",
        (Change("plugins/ledger.py", '        if operation == "provide" and self._provides >= self.policy.max_provides:', "        if False:"),),
        (Sign("lifecycle.many_names"),)),
)  # fmt: skip

ENGINE = (
    Row("wasi.outside", "no path leads out of a module's root", "wasm",
        (Change("_wasi/preview1_paths.py", '        self.denials.add(operation, path if path[0] == "/" else join(fd.path, path), "outside")\n', ""),),
        (Sign("files.read_dotdot", "unexpected", "no wasi row with the code outside"),)),
    Row("wasi.memory", "a module's memory has a limit", "wasm",
        (Change("_wasi/binding.py", "lib.wasmtime_store_limiter(self.store, memory_limit, table_elements, 1, tables, memories)",
                "lib.wasmtime_store_limiter(self.store, -1, table_elements, 1, tables, memories)"),),
        (Sign("wasi.memory_grow"),)),
    Row("wasi.refused", "socket calls are refused and recorded", "wasm",
        (Change("_wasi/preview1_misc.py", '        self.denials.add(operation, f"fd {number}", "wasi_refused")\n', ""),),
        (Sign("wasi.sockets", "unexpected", "no wasi row"),)),
    Row("wasi.links", "links are refused and recorded", "wasm",
        (Change("_wasi/preview1_paths.py", '        self.denials.add(operation, join(fd.path, target) if fd is not None else target, "wasi_refused")\n', ""),),
        (Sign("wasi.symlink", "unexpected", "no wasi row"),)),
)  # fmt: skip

ROWS = WIRE + OUTPUT + PLUGINS + ENGINE
