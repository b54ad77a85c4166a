"""
What the zygotes of one family are started with: their configuration, users of their own, a control group, a folder.
"""

from __future__ import annotations

import contextlib
import os
from itertools import count
from typing import TYPE_CHECKING

from fastness._linux import uids
from fastness.backends import native_config, native_folders
from fastness.backends.native_slots import leaf, place
from fastness.backends.zygote_process import ZygoteProcess
from fastness.errors import BackendError

if TYPE_CHECKING:
    from fastness._linux.cgroup import Slots
    from fastness.backends.native_launch import Launch

#: Tier, kind of guests, preloaded modules and folders of packages.
Key = tuple[str, str, tuple[str, ...], tuple[str, ...]]

_numbers = count(1)
_names = count(1)


class Outfit:
    """
    What is the same for all zygotes of a family.

    ``groups`` is where control groups of ``isolated`` can be made, None where they cannot; ``boxes`` is a folder for
    the work folders of ``confined``, made here.  Raises BackendError.
    """

    def __init__(self, key: Key, groups: Slots | None) -> None:
        tier, kind, preload, packages = key
        self.key = key
        self.groups = groups
        self.isolated = tier == "isolated"
        self.boxes = "" if self.isolated else _boxes_folder()
        self.config, self.environment = native_config.build(tier, kind, preload, packages, self.boxes)

    def spawn(self, launched: Launch | None = None) -> ZygoteProcess:
        """
        Start a zygote, or make one of what was ``launched`` for it, which is ended where this fails.

        Raises BackendError.
        """
        config = dict(self.config)
        folder = ""
        block: uids.Block | None = None
        try:
            block = _block()
            if block is not None:
                config["uids"] = [block.base, block.count]
            if not self.isolated:
                path = os.path.join(self.boxes, f"z{next(_names)}")
                native_folders.make(path, -1 if block is None else block.base)
                folder = config["temporary"] = path
            group = None
            config["into_groups"] = self.groups is not None and self.groups.supports_clone_into
            if config["into_groups"]:
                group = leaf(self.groups, f"b{next(_names)}")
            given, launched = launched, None
            zygote = ZygoteProcess.spawn(config, self.environment, group, given)
        except BaseException as error:
            if launched is not None:
                launched.drop()
            if folder:
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
            if block is not None:
                block.release()
            if isinstance(error, OSError):
                raise BackendError("making a zygote's folder", error, "free space where FASTNESS_HOME is") from None
            raise
        zygote.uids = block
        zygote.temporary = folder
        return zygote


def _block() -> uids.Block | None:
    """Users for a zygote and its guests, where there are any to be had.  Raises BackendError."""
    if not uids.available():
        return None
    try:
        return uids.claim()
    except (OSError, ValueError) as error:
        ours = isinstance(error, OSError) and error.filename
        fix = "let root write there" if ours else f"set {uids.VARIABLE} to a free range"
        raise BackendError("finding unused users", error, fix) from None


def _boxes_folder() -> str:
    folder = os.path.join(place()[0].folder, f"boxes-{next(_numbers)}")
    try:
        os.mkdir(folder, 0o700)
        # Guests with a user of their own pass through it to the folder that is theirs; its names cannot be listed.
        os.chmod(folder, 0o711)  # noqa: S103  # as above
    except OSError as error:
        raise BackendError("making a folder for guests", error, "free space where FASTNESS_HOME is") from None
    return folder
