"""Lets ``python -m fastness.cli`` stand for the ``fastness`` command."""

from __future__ import annotations

from fastness.cli.main import command

command()
