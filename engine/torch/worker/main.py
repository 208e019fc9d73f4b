"""The torch engine's process: docs/engine-protocol.md on its standard streams."""

import os
import sys

# Nothing is fetched, and a product of matrices has the same bits each time.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

from olmes_torch import protocol  # noqa: E402


def main() -> None:
    """Serves until the standard input ends."""
    source, sink = protocol.take_streams()

    def load(args: dict) -> protocol.Engine:
        from olmes_torch.engine import TorchEngine  # torch takes seconds to import

        return TorchEngine.load(args)

    sys.exit(protocol.serve(source, sink, "olmes torch worker", load, more={"memory": "memory", "plan": "replan"}))


if __name__ == "__main__":
    main()
