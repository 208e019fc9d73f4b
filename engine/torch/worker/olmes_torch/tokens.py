"""A model's own tokenizer, as the protocol wants it: no special token is added,
and none is recognised in a text."""

from __future__ import annotations

import json

from .protocol import TextError, Unsupported

# Texts whose ids say whether two ways to encode agree, and whether the bytes
# of the ids are understood.
PROBES = ["", "a", " the cat", "Question: What is 2+2?\nAnswer: four", "two  spaces\n\n and\ta tab", "1234567890 <s></s>"]


def _byte_of_character() -> dict[str, int]:
    """The characters that byte-level BPE writes bytes as (GPT-2's map, inverted)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in set(plain)]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


def _flat(part: dict | None, inner: str) -> list[dict]:
    """The steps of a decoder or normalizer, out of their sequences."""
    if not part:
        return []
    if part.get("type") == "Sequence":
        return [step for one in part[inner] for step in _flat(one, inner)]
    return [part]


class Tokens:
    """Texts to ids and ids to bytes. vocab is the model's number of tokens."""

    def __init__(self, tokenizer, vocab: int):
        self.tokenizer, self.vocab = tokenizer, vocab
        self.notes: list[str] = []
        self.backend = getattr(tokenizer, "backend_tokenizer", None)
        self._fast = self.backend is not None and self._prepare()
        self.special = {i for i, t in self._added().items() if t.special or t.content in tokenizer.all_special_tokens}
        self.special.discard(tokenizer.unk_token_id)
        self._leaks = self._find_leaks()
        self._pieces: list[bytes] | None = None
        self._why = ""  # there are no pieces
        self._normalizes = ""
        self._spaces = False  # SentencePiece writes spaces as ▁
        self._derive()
        self.adds_bos = self._adds_bos()

    def _added(self) -> dict:
        return dict(getattr(self.tokenizer, "added_tokens_decoder", {}))

    def _slow_encode(self, texts: list[str]) -> list[list[int]]:
        ids = self.tokenizer(texts, add_special_tokens=False, split_special_tokens=True, padding=False, truncation=False)
        return [list(one) for one in ids["input_ids"]]

    def _fast_encode(self, texts: list[str]) -> list[list[int]]:
        self.backend.encode_special_tokens = True  # transformers' own calls change it
        encode = getattr(self.backend, "encode_batch_fast", self.backend.encode_batch)
        return [one.ids for one in encode(texts, add_special_tokens=False)]

    def _prepare(self) -> bool:
        """Readies the tokenizer below transformers' own, which costs less a text, if both agree."""
        slow = self._slow_encode(PROBES)
        self.backend.no_padding()
        self.backend.no_truncation()
        return self._fast_encode(PROBES) == slow

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return self._fast_encode(texts) if self._fast else self._slow_encode(texts)

    def _find_leaks(self) -> bool:
        """Tells whether some special token's text is read as that token."""
        added = self._added()
        ids = sorted(self.special & set(added))[:1000]
        texts = [text for i in ids for text in (added[i].content, f"a {added[i].content} b")]
        leaks = [i for i, one in zip([i for i in ids for _ in range(2)], self._encode(texts)) if i in one] if texts else []
        if leaks:
            self.notes.append(f"the tokenizer reads {added[leaks[0]].content!r} in a text as a special token: texts that hold one are refused")
        return bool(leaks)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Ids of each text; a TextError for one that would hold a special token."""
        filled = [i for i, text in enumerate(texts) if text]
        out: list[list[int]] = [[] for _ in texts]
        for i, ids in zip(filled, self._encode([texts[i] for i in filled])):
            out[i] = ids
        for i, ids in enumerate(out):
            if self._leaks and not self.special.isdisjoint(ids):
                raise TextError(i, "holds a special token's text, which this tokenizer cannot read as text")
            if self._normalizes and self._pieces is not None and not self._decodes(texts[i], ids):
                raise TextError(i, "is cut into tokens that do not spell it: the model's vocabulary cannot serve")
        return out

    def _decodes(self, text: str, ids: list[int]) -> bool:
        want = self.backend.normalizer.normalize_str(text)
        want = (want.replace("\u2581", " ") if self._spaces else want).encode()
        got = b"".join(self._pieces[i] if i < self.vocab else b"\xff" for i in ids)
        return got in (want, b" " + want) or b" " + got == want

    def pieces(self) -> list[bytes]:
        """The bytes of every id of the model's vocabulary; b"" for those the tokenizer lacks."""
        if self._normalizes:
            raise Unsupported(f"the tokenizer normalizes texts ({self._normalizes}), so that ids do not spell them byte for byte")
        if self._pieces is None:
            raise Unsupported(self._why)
        return self._pieces

    def _derive(self) -> None:
        if self.backend is None:
            self._why = "the tokenizer has no description of its tokens' bytes"
            return
        spec = json.loads(self.backend.to_str())
        decoders = _flat(spec.get("decoder"), "decoders")
        names = {d["type"] for d in decoders}
        before = {d["type"] for d in _flat(spec.get("pre_tokenizer"), "pretokenizers")}
        self._spaces = "Metaspace" in names or any(
            d["type"] == "Replace" and d.get("pattern") == {"String": "\u2581"} and d.get("content") == " " for d in decoders
        )
        if not self._spaces and "ByteLevel" not in names | before:
            self._why = f"the bytes of this tokenizer's tokens are not known ({spec['model'].get('type')})"
            return
        odd = [
            d
            for d in _flat(spec.get("normalizer"), "normalizers")
            if not (self._spaces and (d["type"] == "Prepend" or d["type"] == "Replace" and d.get("content") == "\u2581" and d.get("pattern") == {"String": " "}))
        ]
        if odd:
            self._normalizes = ", ".join(d["type"] for d in odd)
            self.notes.append(f"the tokenizer normalizes texts ({self._normalizes}): its ids were compared with the normalized text")
        fallback = self._spaces and ("ByteFallback" in names or spec["model"].get("byte_fallback"))
        added = {t["id"]: t["content"] for t in spec.get("added_tokens", [])}
        byte = _byte_of_character()
        pieces = [b""] * self.vocab
        for token, i in self.backend.get_vocab(with_added_tokens=True).items():
            if i >= self.vocab:
                continue
            if self._spaces:
                if fallback and len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
                    pieces[i] = bytes([int(token[3:5], 16)])
                else:
                    pieces[i] = token.replace("\u2581", " ").encode()
            elif i in added or any(c not in byte for c in token):
                pieces[i] = token.encode()
            else:
                pieces[i] = bytes(byte[c] for c in token)
        self._pieces = pieces
        unknown = self.tokenizer.unk_token_id
        for text, ids in zip(PROBES, self._encode(PROBES)):
            if unknown in ids or max(ids, default=0) >= self.vocab:
                continue
            got = b"".join(pieces[i] for i in ids)
            if not self._normalizes and got not in (text.encode(), b" " + text.encode()) or self._normalizes and not self._decodes(text, ids):
                self._pieces, self._why = None, f"the bytes of this tokenizer's tokens are not understood: {text!r} became {got!r}"
                self.notes.append(self._why)
                return

    def _adds_bos(self) -> bool:
        """Tells whether the tokenizer would put a beginning-of-sequence token first."""
        bos = self.tokenizer.bos_token_id
        if bos is None:
            return False
        with_special = list(self.tokenizer("a", add_special_tokens=True)["input_ids"])
        return with_special[:1] == [bos] and self._encode(["a"])[0][:1] != [bos]
