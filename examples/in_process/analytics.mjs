// The same in JavaScript: the whole plugin is the default export.
export default {
  manifest: { id: "analytics-js", name: "Analytics", version: "1.0.0" },
  async setup(ctx) {
    const config = await ctx.lookup("config:plain");
    await ctx.provide("telemetry-js:client", { endpoint: config.endpoint });
    await ctx.declareCapability("telemetry");
    ctx.log("info", "analytics is ready");
  },
};
