"""``python -m olmes`` is the program ``olmes``."""

import os
import subprocess
import sys

from ._program import find


def main() -> int:
    command = [str(find()), *sys.argv[1:]]
    if os.name == "posix":
        os.execv(command[0], command)
    try:
        return subprocess.call(command)
    except KeyboardInterrupt:  # the program has it too, and says so
        return 130


if __name__ == "__main__":
    sys.exit(main())
