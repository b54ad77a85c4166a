"""
Calls every socket function of the system interface on every low descriptor.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.assemble import assemble
from fastness.attack.corpus.wasi._wat import module
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

BODY = """
    (local $fd i32)
    (i32.store (i32.const 1032) (i32.const 64))
    (i32.store (i32.const 1036) (i32.const 8))
    (loop $next
      (if (i32.eqz (call $sock_send (local.get $fd) (i32.const 1032) (i32.const 1) (i32.const 0) (i32.const 1024)))
        (then (call $say)))
      (if (i32.eqz (call $sock_recv (local.get $fd) (i32.const 1032) (i32.const 1) (i32.const 0) (i32.const 1024)
            (i32.const 1028)))
        (then (call $say)))
      (if (i32.eqz (call $sock_accept (local.get $fd) (i32.const 0) (i32.const 1024))) (then (call $say)))
      (drop (call $sock_shutdown (local.get $fd) (i32.const 3)))
      (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $fd) (i32.const 32))))
"""
#: A host that lets every module send.
_GRANTS = """
import socket, struct

one, other = socket.socketpair()

def send(caller, fd, at, count, flags, sent):
    start, size = struct.unpack('<II', caller['memory'].read(caller, at, at + 8))
    one.send(bytes(caller['memory'].read(caller, start, start + size)))
    return 0 if other.recv(size) else 8

i32 = wasmtime.ValType.i32()
kind = wasmtime.FuncType([i32] * 5, [i32])
linker.define_func('wasi_snapshot_preview1', 'sock_send', kind, send, access_caller=True)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.module(_module()), "SURVIVED", "used a socket")


def control(arena: Arena) -> Effect:
    """The same module in a host that has a socket for it."""
    return arena.said(arena.outside.module(_module(), grants=_GRANTS), "SURVIVED", "used a socket")


def _module() -> bytes:
    return assemble(module(BODY, "sock_send", "sock_recv", "sock_accept", "sock_shutdown"))


ATTACK = Attack(
    id="wasi.sockets",
    claim=Claim(Guarantee.NET_CONFINED, "Socket calls of the system interface are refused and recorded."),
    tiers={"wasm": Expect(Layer.WASI, "wasi_refused", outcomes=("ok",))},
    attack=attack,
    control=control,
)
