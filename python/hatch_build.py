"""Puts the Go program into the wheel.

The program is built for GOOS and GOARCH (this machine's, if they are not set)
from the checkout that this folder is part of. The same sources, Go and
SOURCE_DATE_EPOCH give the same wheel, byte for byte.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Wheel platforms. The program is linked without cgo: on Linux it needs a glibc of
# any age the tag allows; macOS is the oldest that Go supports.
PLATFORMS = {
    "linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "darwin/amd64": "macosx_12_0_x86_64",
    "darwin/arm64": "macosx_12_0_arm64",
    "windows/amd64": "win_amd64",
}


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        source = Path(self.root).parent
        go = self._go(source, "env", "GOOS", "GOARCH").split()
        platform = PLATFORMS.get("/".join(go))
        if platform is None:
            raise RuntimeError(f"there is no wheel for {'/'.join(go)}; it can be {', '.join(PLATFORMS)}")
        self._folder = tempfile.TemporaryDirectory()
        name = "olmes.exe" if go[0] == "windows" else "olmes"
        program = Path(self._folder.name, name)
        self._go(source, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", str(program), "./cmd/olmes")
        build_data["shared_scripts"][str(program)] = name
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version, build_data, artifact_path):
        self._folder.cleanup()

    @staticmethod
    def _go(source, *args):
        try:
            done = subprocess.run(
                ["go", *args], cwd=source, env={**os.environ, "CGO_ENABLED": "0"},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        except FileNotFoundError:
            raise RuntimeError("the wheel is built with Go, and there is no go on PATH") from None
        if done.returncode != 0:
            raise RuntimeError(f"go {args[0]} failed:\n{done.stderr}")
        return done.stdout
