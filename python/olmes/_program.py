"""Finds the program that the wheel brought."""

import os
import sys
import sysconfig
from pathlib import Path

NAME = "olmes" + (sysconfig.get_config_var("EXE") or "")


def find() -> Path:
    """The program's path. Where an installer puts scripts depends on how it was
    called: into the environment's, the user's, or beside a ``--target`` folder."""
    package = Path(__file__).resolve().parent
    folders = [Path(sysconfig.get_path("scripts"))]
    user = f"{os.name}_user" if sys.platform != "darwin" or not sysconfig.get_config_var("PYTHONFRAMEWORK") else "osx_framework_user"
    if user in sysconfig.get_scheme_names():
        folders.append(Path(sysconfig.get_path("scripts", user)))
    folders.append(package.parent / "bin")  # pip install --target
    if len(package.parents) > 3:  # pip install --prefix
        folders += [package.parents[3] / "bin", package.parents[2] / "Scripts"]
    # The program of the very installation that this file is of goes first.
    folders.sort(key=lambda folder: not package.is_relative_to(folder.parent))
    for folder in folders:
        if (folder / NAME).is_file():
            return folder / NAME
    looked = ", ".join(dict.fromkeys(map(str, folders)))
    raise FileNotFoundError(f"the program {NAME} is in none of the folders where the wheel may have put it ({looked}); install the wheel again")
