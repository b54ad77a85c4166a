"""A plugin: it reads its host's configuration, provides a client of it, and says what it is able to do."""

MANIFEST = {"id": "analytics", "version": "1.0.0", "name": "Analytics"}


async def setup(ctx):
    config = await ctx.lookup("config:plain")
    await ctx.provide("telemetry:client", {"endpoint": config["endpoint"]})
    await ctx.declare_capability("telemetry")
    ctx.log("info", "analytics is ready")
