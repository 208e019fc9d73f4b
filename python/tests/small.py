"""A small model and its tokenizer, made here, and a place for runs."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one you were all her she there would their we him been has when who will no more if out so up said what its about than into them can only other time new some could these two may first then do any like my now over such our man me even most made after also did many".split()


def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE whose merges come out of common words."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>", "</s>"], show_progress=False)
    backend.train_from_iterator([f" {a} {b}" for a in WORDS for b in WORDS], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="</s>")


def model(seed: int = 1, vocab: int = 500, dtype: torch.dtype = torch.float32, **settings: Any) -> LlamaForCausalLM:
    """Two layers with weights so large that every position and token counts."""
    torch.manual_seed(seed)
    config = LlamaConfig(**{
        "vocab_size": vocab, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "initializer_range": 0.2, "max_position_embeddings": 2048, "bos_token_id": 0, "eos_token_id": 1, **settings,
    })
    return LlamaForCausalLM(config).to(dtype)


class TestCase(unittest.TestCase):
    """Runs in a folder of its own, with one thread."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        torch.set_num_threads(1)
