"""Writes a GGUF file as a Hugging Face folder, in 32 bits.

Arguments: the folder of reference.py, which compares the values with those of
the file bit for bit; the file; the folder to be made.
"""

import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

sys.path.insert(0, sys.argv[1])
import reference

ref = reference.Reference("smollm2", sys.argv[2])
# transformers keeps a model read from GGUF from being written: its values go
# into a new one.
settings = ref.model.config.to_dict()
settings.pop("quantization_config", None)
model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings), dtype=torch.float32)
model.load_state_dict(ref.model.state_dict())
model.save_pretrained(sys.argv[3])
ref.tokenizer.save_pretrained(sys.argv[3])
written = AutoModelForCausalLM.from_pretrained(sys.argv[3], dtype=torch.float32)
reference.check_config(written.config, ref.reader)
reference.check_weights(written, ref.reader)
