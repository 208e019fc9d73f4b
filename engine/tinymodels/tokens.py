"""Texts of invented words, and tokenizers trained on them."""

import random
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import LlamaTokenizer, PreTrainedTokenizerFast

SYLLABLES = "ba ke li mo nu ra se ti vo zu dra fle gri plo stu nen tor mik lan hes".split()
VOCAB = 600  # ids of each tokenizer; the models have some rows more, as published ones do

# How the families cut a text into words before merging. GPT-NeoX, OLMo and MPT
# share GPT-2's way; the others' are regular expressions or rules of their own.
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def word(rng: random.Random) -> str:
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(1, 3)))


def sentence(rng: random.Random) -> str:
    words = [word(rng) for _ in range(rng.randint(4, 9))]
    if rng.random() < 0.3:
        words.insert(2, str(rng.randint(0, 4000)))
    if rng.random() < 0.2:
        words[1] += "'s"
    return " ".join(words).capitalize() + rng.choice(".?!")


def corpus(seed: int = 1, sentences: int = 3000) -> list[str]:
    """Sentences of invented words, and the frame of the requests."""
    rng = random.Random(seed)
    frame = ["Question: Answer: A. B. C. D. Goal:"] * 20
    return [sentence(rng) for _ in range(sentences)] + frame


def texts(seed: int = 2) -> list[str]:
    """Texts that tokenizers are compared on."""
    rng = random.Random(seed)
    plain = [sentence(rng) for _ in range(10)]
    odd = ["", " ", "  two  spaces ", "tab\tand\nline\n\n", "x" * 40, "1234567 3.14", "it's IT'S we'll", "naïve Straße", "漢字 ok", "😀!", "a\u00a0b", "<s></s>", "<|endoftext|>",
           "...---", " A", "A", "Question: ba ke\n A. li\n B. mo\nAnswer:"]
    return plain + odd


def byte_level(kind: str, bos: str | None) -> PreTrainedTokenizerFast:
    """A byte-level BPE; kind says how a text is cut into words."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama-bpe"))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind in ("olmo", "falcon"))
    if kind == "olmo":
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = level
    elif kind == "falcon":
        digits = pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Punctuation("contiguous"), level, pre_tokenizers.Digits(individual_digits=False), digits])
    else:
        numbers = {"llama-bpe": "{1,3}", "stablelm2": ""}[kind]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(GPT4 % numbers), "isolated"), level])
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>"] + ([bos] if bos else [])
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos or special[0], eos_token=special[0])


def sentencepiece(folder: Path) -> LlamaTokenizer:
    """A SentencePiece BPE with bytes for what it lacks, as Llama 2 has; also writes tokenizer.model."""
    import sentencepiece as spm

    prefix = folder / "tokenizer"
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_prefix=str(prefix), model_type="bpe", vocab_size=VOCAB, byte_fallback=True,
        character_coverage=1.0, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        allow_whitespace_only_pieces=True, num_threads=1, minloglevel=2)
    (folder / "tokenizer.vocab").unlink()
    model = spm.SentencePieceProcessor(model_file=f"{prefix}.model")
    pieces = [model.IdToPiece(i) for i in range(model.vocab_size())]
    ids = {piece: i for i, piece in enumerate(pieces)}
    merges = []  # best score first, as the model prefers them
    for piece in sorted((p for i, p in enumerate(pieces) if not (model.IsControl(i) or model.IsUnknown(i) or model.IsByte(i))),
                        key=lambda p: -model.GetScore(ids[p])):
        merges += [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in ids and piece[i:] in ids]
    return LlamaTokenizer(vocab=ids, merges=merges, legacy=False, add_bos_token=True)
