"""Make tiny random GGUFs that llama.cpp really loads and decodes (about 100 KB, milliseconds).

`make_gguf(path)` is a two-layer llama with a byte-level BPE vocabulary of 300 tokens; options
change the vocabulary, the tokenizer or the architecture, one thing at a time. The same options
and seed give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import gguf
import numpy as np
from numpy.typing import NDArray

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
CHAT_TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


def make_gguf(
    path: Path,
    *,
    architecture: Literal["llama", "mamba"] = "llama",
    tokenizer: Literal["bpe", "spm"] = "bpe",
    vocab_size: int = 300,
    padded_ids: int = 0,
    pad_name: str = "pad",
    keep: Sequence[int] | None = None,
    changed_token: int | None = None,
    bos_id: int = 0,
    eos_id: int = 1,
    add_bos: bool | None = None,
    add_eos: bool | None = None,
    layers: int = 2,
    width: int = 32,
    context: int = 512,
    seed: int = 0,
    noise: float = 0.0,
    name: str = "tiny random",
    pre: str = "gpt-2",
    chat_template: str | None = None,
    split_tensors: int = 0,
    edit: Callable[[gguf.GGUFWriter], None] | None = None,
) -> Path:
    """Write a tiny random model to `path` and return it.

    `vocab_size` is at least 64 (bpe; 258 to hold every byte) or 300 (spm). `padded_ids` unused
    ids are put at the end, on top of `vocab_size`; with `keep` only the tokens of these ids stay.
    `changed_token` is an id whose text becomes another one. `noise` shakes the weights of `seed`
    by that share, so that a draft made with noise=0.3 often agrees with the target made without.
    Logits spread by about 3, so that sampling neither always nor never picks the same token. With
    `split_tensors` the model is spread over files of so many tensors each, the first of which is
    returned. `edit` may add keys.
    """
    writer = gguf.GGUFWriter(path, architecture, split_max_tensors=split_tensors)
    writer.add_name(name)
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_layer_norm_rms_eps(1e-5)

    tokens, kinds = (_bpe_tokens if tokenizer == "bpe" else _spm_tokens)(vocab_size)
    tokens += [f"<{pad_name}{i}>" for i in range(padded_ids)]
    kinds += [CONTROL] * padded_ids
    if keep is not None:
        tokens, kinds = [tokens[i] for i in keep], [kinds[i] for i in keep]
    if changed_token is not None:
        tokens[changed_token] = f"changed{changed_token}"
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2" if tokenizer == "bpe" else "llama")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    if tokenizer == "bpe":
        writer.add_tokenizer_pre(pre)
        pairs = [f"{t[0]} {t[1]}" for t in tokens if len(t) == 2 and t.isascii()]
        writer.add_token_merges(pairs or ["a b"])
    else:
        writer.add_token_scores([-float(i) for i in range(len(tokens))])
        writer.add_unk_token_id(2)
    writer.add_bos_token_id(bos_id)
    writer.add_eos_token_id(eos_id)
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
    if add_eos is not None:
        writer.add_add_eos_token(add_eos)
    if chat_template is not None:
        writer.add_chat_template(chat_template)

    weights = (_llama if architecture == "llama" else _mamba)(writer, len(tokens), width, layers)
    base, shake = np.random.default_rng(seed), np.random.default_rng(seed + 1_000_003)
    for tensor, (shape, mean, spread) in weights.items():
        values = mean + spread * base.standard_normal(shape)
        if noise:
            values += noise * spread * shake.standard_normal(shape)
        writer.add_tensor(tensor, values.astype(np.float32))
    if edit is not None:
        edit(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(path.parent.glob(f"{path.stem}-00001-of-*.gguf"))[0] if split_tensors else path


Weights = dict[str, tuple[tuple[int, ...], "float | NDArray[np.float64]", float]]
"""Tensor name to shape (slowest axis first), mean and spread of its random values."""


def _shared(vocab: int, width: int) -> Weights:
    return {
        "token_embd.weight": ((vocab, width), 0.0, 1.0),
        "output_norm.weight": ((width,), 1.0, 0.1),
        "output.weight": ((vocab, width), 0.0, 3.0 / width**0.5),
    }


def _llama(writer: gguf.GGUFWriter, vocab: int, width: int, layers: int) -> Weights:
    heads, kv_heads, hidden = 4, 2, 2 * width
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_feed_forward_length(hidden)
    writer.add_rope_dimension_count(width // heads)
    kv_width, scale = width * kv_heads // heads, 1.0 / width**0.5
    weights = _shared(vocab, width)
    for i in range(layers):
        weights |= {
            f"blk.{i}.attn_norm.weight": ((width,), 1.0, 0.1),
            f"blk.{i}.attn_q.weight": ((width, width), 0.0, 2 * scale),
            f"blk.{i}.attn_k.weight": ((kv_width, width), 0.0, 2 * scale),
            f"blk.{i}.attn_v.weight": ((kv_width, width), 0.0, scale),
            f"blk.{i}.attn_output.weight": ((width, width), 0.0, scale),
            f"blk.{i}.ffn_norm.weight": ((width,), 1.0, 0.1),
            f"blk.{i}.ffn_gate.weight": ((hidden, width), 0.0, scale),
            f"blk.{i}.ffn_up.weight": ((hidden, width), 0.0, scale),
            f"blk.{i}.ffn_down.weight": ((width, hidden), 0.0, scale),
        }
    return weights


def _mamba(writer: gguf.GGUFWriter, vocab: int, width: int, layers: int) -> Weights:
    inner, state, conv, rank = 2 * width, 8, 4, 2
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(conv)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    scale = 1.0 / width**0.5
    decay = -np.tile(np.arange(1.0, state + 1), (inner, 1))
    weights = _shared(vocab, width)
    for i in range(layers):
        weights |= {
            f"blk.{i}.attn_norm.weight": ((width,), 1.0, 0.1),
            f"blk.{i}.ssm_in.weight": ((2 * inner, width), 0.0, scale),
            f"blk.{i}.ssm_conv1d.weight": ((inner, conv), 0.0, 0.5),
            f"blk.{i}.ssm_conv1d.bias": ((inner,), 0.0, 0.1),
            f"blk.{i}.ssm_x.weight": ((rank + 2 * state, inner), 0.0, scale),
            f"blk.{i}.ssm_dt.weight": ((inner, rank), 0.0, 0.5),
            f"blk.{i}.ssm_dt.bias": ((inner,), -1.0, 0.1),
            f"blk.{i}.ssm_a": ((inner, state), decay, 0.01),
            f"blk.{i}.ssm_d": ((inner,), 1.0, 0.1),
            f"blk.{i}.ssm_out.weight": ((width, inner), 0.0, scale),
        }
    return weights


def _bpe_tokens(size: int) -> tuple[list[str], list[int]]:
    """<s>, </s>, one token a byte (the common ones first), then pairs of letters."""
    assert size >= 64, "64 tokens are the least that hold the letters"
    common = "abcdefghijklmnopqrstuvwxyz \n.,'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123"
    letters = _byte_letters()
    order = [ord(c) for c in common] + [b for b in range(256) if chr(b) not in common]
    tokens = ["<s>", "</s>"] + [letters[b] for b in order]
    tokens += [a + b for a in common[:26] for b in common[:26]]
    tokens += [f"<unused{i}>" for i in range(size - len(tokens))]
    tokens = tokens[:size]
    return tokens, [CONTROL if t.startswith("<") and len(t) > 1 else NORMAL for t in tokens]


def _spm_tokens(size: int) -> tuple[list[str], list[int]]:
    """<s>, </s>, <unk>, one token a byte, then letters and pairs of letters."""
    assert size >= 300, "300 tokens are the least that hold the bytes and the letters"
    common = "▁abcdefghijklmnopqrstuvwxyz.,'"
    tokens = ["<s>", "</s>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)] + list(common)
    tokens += [a + b for a in common[:27] for b in common[1:27]]
    tokens += [f"<unused{i}>" for i in range(size - len(tokens))]
    kinds = [CONTROL, CONTROL, UNKNOWN] + [BYTE] * 256 + [NORMAL] * len(tokens)
    return tokens[:size], kinds[:size]


def _byte_letters() -> list[str]:
    """GPT-2's printable stand-in for each byte."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(spare)) for b in range(256)]
