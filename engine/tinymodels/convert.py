"""Converts small models with llama.cpp's own converter to GGUF in 32 bits. See README.md.

The converter knows a byte-level tokenizer by a digest of the ids that it gives to
one text, so it knows published vocabularies only. Its answer to that one question is
given here, as it is for the family's published models. It reads config.json through
transformers, whose version 5 hides keys that it needs (rotary_pct) and adds ones that
mislead it (num_kv_heads of a Falcon with one); where that fails it reads the file
itself, which is what it is made to do here. All else is its own.
"""

import argparse
import runpy
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="llama.cpp's source: convert_hf_to_gguf.py, conversion/, gguf-py/")
    parser.add_argument("models", type=Path, help="folder with the models' folders")
    parser.add_argument("out", type=Path, help="folder to fill with NAME.gguf")
    parser.add_argument("names", nargs="+", metavar="NAME[:PRE]", help="model, and the pre-tokenizer of the family's published models")
    args = parser.parse_args()
    sys.path[:0] = [str(args.source), str(args.source / "gguf-py")]
    from conversion import base

    base.AutoConfig = None
    script = args.source / "convert_hf_to_gguf.py"
    recognize = base.TextModel.get_vocab_base_pre
    for name, _, pre in (text.partition(":") for text in args.names):
        base.TextModel.get_vocab_base_pre = (lambda self, tokenizer, pre=pre: pre) if pre else recognize
        sys.argv = [str(script), str(args.models / name), "--outfile", str(args.out / f"{name}.gguf"), "--outtype", "f32"]
        runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
