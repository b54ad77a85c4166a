"""
Whether a Python program says that it needs more than the interpreter and its standard library.

A guess from its text, which is looked at and not parsed: a parser can be brought to its end by a stranger's text, and a
guest's Python may be newer than ours.  A program that has an effect outside its guest is started on the quick module
only where its text names no package of the rest: what it did could not be done again on the whole.  A guess that is
wrong costs time, or ends such a run as an error, and never does a thing twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

__all__ = ["NAMES", "packages"]

#: What meets a stub of the quick module when it is imported, by the name of its package.
NAMES = (
    "PIL", "bs4", "contourpy", "formulaic", "joblib", "kiwisolver", "lxml", "matplotlib", "mpl_toolkits", "numpy",
    "openpyxl", "pandas", "patsy", "pylab", "pypdf", "reportlab", "scipy", "seaborn", "sklearn", "soupsieve",
    "statsmodels",
)  # fmt: skip
_TEXT = rf"(?<![\w.])(?:{'|'.join(NAMES)})(?!\w)"
# A word that programs use for other things too.
_TEXT += r"|\b(?:import|from)[ \t]+regex(?!\w)"
_IN_TEXT = re.compile(_TEXT)
_IN_BYTES = re.compile(_TEXT.encode())


def packages(texts: Iterable[str], files: Mapping[str, bytes]) -> bool:
    """Whether one of the texts, or of the files that are modules, names such a package."""
    if any(_IN_TEXT.search(text) for text in texts):
        return True
    return any(_IN_BYTES.search(data) for path, data in files.items() if path.endswith(".py"))
