"""A plugin that reaches for what it was not given."""

MANIFEST = {"id": "nosy", "version": "1.0.0"}


def setup(ctx):
    ctx.lookup("secrets:vault")
