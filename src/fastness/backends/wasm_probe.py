from fastness.tier import Probe, Tier
def cached() -> Probe:
    return Probe(backend='wasmtime', tier='wasm', guarantees=tuple(g.value for g in Tier.WASM.guarantees))
