"""Lets ``python -m fastness.cli`` stand for the ``fastness`` command."""

from __future__ import annotations

import sys

from fastness.cli.main import main

sys.exit(main())
