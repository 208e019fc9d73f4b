"""Writes a GGUF file as a folder that transformers and vLLM load.

The values are those of the file that olmes computes with, compared bit for bit.
"""

import argparse
import os
import sys

import gguf
import torch
from transformers import AutoConfig, AutoModelForCausalLM

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "parity"))
import reference


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gguf", required=True, help="the published file")
    parser.add_argument("--expanded", required=True, help="the same in 32 bits, as olmes made it")
    parser.add_argument("--out", required=True, help="folder to be made")
    args = parser.parse_args()
    ref = reference.Reference("smollm2", args.gguf)
    # transformers keeps a model read from GGUF from being written: its values go into a new one.
    settings = ref.model.config.to_dict()
    settings.pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings), dtype=torch.float32)
    model.load_state_dict(ref.model.state_dict())
    part = args.out + ".part"
    model.save_pretrained(part)
    ref.tokenizer.save_pretrained(part)
    written = AutoModelForCausalLM.from_pretrained(part, dtype=torch.float32)
    reference.check_config(written.config, ref.reader)
    reference.check_weights(written, gguf.GGUFReader(args.expanded))
    os.rename(part, args.out)


if __name__ == "__main__":
    main()
