"""A plugin that fetches and stores.  It imports nothing of Fastness: all that it may do is in ctx."""

import json


def refresh(ctx, origin):
    """Fetch the headlines, keep them, and say how many there are."""
    if getattr(ctx, "net", None) is None:
        # What was not granted is not there.  A plugin that can do without says so here.
        return {"fetched": 0, "note": "this plugin was not granted the network"}
    try:
        answer = ctx.net.request("GET", f"{origin}/headlines.json")
    except ctx.Refused as error:
        return {"fetched": 0, "note": str(error)}
    if answer["status"] != 200:
        return {"fetched": 0, "note": f"the server answered {answer['status']}"}
    headlines = json.loads(answer["body"])["headlines"]
    ctx.storage.put("latest", headlines)
    ctx.log("info", f"{len(headlines)} headlines kept")
    return {"fetched": len(headlines), "note": f"signed in as {answer['headers']['x-reader']}"}


def latest(ctx, most=10):
    """The headlines that were kept last."""
    return (ctx.storage.get("latest") or [])[:most]
