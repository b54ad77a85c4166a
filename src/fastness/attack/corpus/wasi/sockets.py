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
SAME = """
import socket

one, two = socket.socketpair()
if one.send(b'x') and two.recv(1):
    print('SURVIVED')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    wat = module(BODY, "sock_send", "sock_recv", "sock_accept", "sock_shutdown")
    return arena.said(arena.module(assemble(wat)), "SURVIVED", "used a socket")


def control(arena: Arena) -> Effect:
    """The same calls where the kernel answers them."""
    return arena.said(arena.outside.run(SAME), "SURVIVED", "used a socket")


ATTACK = Attack(
    id="wasi.sockets",
    claim=Claim(Guarantee.NET_CONFINED, "Socket calls of the system interface are refused and recorded."),
    tiers={"wasm": Expect(Layer.WASI, "wasi_refused", outcomes=("ok",))},
    attack=attack,
    control=control,
)
