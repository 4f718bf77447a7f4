"""Links guiderail into another environment without compiling it again, for the tests of engines and clients."""

from __future__ import annotations

from pathlib import Path

import guiderail as gr
from guiderail import _core

__all__ = ["link_package"]


def link_package(folder: Path) -> None:
    """Makes a package of links to guiderail's sources and to the compiled core.

    The core is next to the sources or, after ``pip install --editable``, in the folder of installed packages.
    """
    folder.mkdir()
    for file in (*Path(gr.__file__).parent.iterdir(), Path(_core.__file__)):
        link = folder / file.name
        if file.name != "__pycache__" and not link.is_symlink():
            link.symlink_to(file)
