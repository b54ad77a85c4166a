"""One host in this process with plugins of every kind; run it with: python examples/in_process/run.py"""

from pathlib import Path
from types import SimpleNamespace

import fastness

HERE = Path(__file__).parent

# A plugin of our own: it runs in this process, under a policy and within its times.
greeter = SimpleNamespace(
    manifest={"id": "greeter", "version": "1.0.0"},
    start=lambda ctx: ctx.provide("greeting:text", f"hello from {ctx.lookup('config:name')}"),
)

host = fastness.DefaultPluginHost(on_log=lambda plugin, level, text: print(f"{plugin}: {level}: {text}"))
host.provide("config:plain", {"endpoint": "https://telemetry.example"})
host.provide("config:name", "the host")
host.provide("secrets:vault", "never given to a plugin here")

host.register(fastness.sandbox_plugin(greeter, {"lookup": ["config:name"], "provide": ["greeting:*"]}))

# Plugins that somebody else wrote: each runs in a guest of its own, and a policy holds there too.
policy = {"lookup": ["config:plain"], "provide": ["telemetry:*", "telemetry-js:*"], "declare": ["telemetry"]}
for name in ("analytics.py", "analytics.mjs", "nosy.py"):
    host.register(fastness.IsolatedPlugin.load(HERE / name, policy=policy))

host.start()
for plugin, state in host.states().items():
    print(f"{plugin}: {state}")
for name, plugin in sorted(host.provided().items()):
    if plugin:
        print(f"{name} = {host.lookup(name)} (of {plugin})")
for fault in host.errors():
    print(f"collected: {fault.error}")
for row in host.plugin("nosy").audit():
    print(f"audit: {row.operation} {row.target} {row.decision}: {row.reason}")
host.stop()
