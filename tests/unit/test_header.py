"""The header reader against files that llama.cpp reads, files it refuses, and random damage."""

from __future__ import annotations

import contextlib
import random
import struct
import time
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_spec.config import ModelSettings
from edge_spec.errors import ModelFileError
from edge_spec.models import kinds
from edge_spec.models.facts import facts_of
from edge_spec.models.ggml_types import FILE_TYPES, TENSOR_TYPES
from edge_spec.models.header import Header, _first_bytes, _parse, read_header
from edge_spec.models.memory.cache import cache_bytes
from edge_spec.models.reader import MAX_ARRAY_ITEMS, DamagedHeader, StringArray
from tests.gguf_maker import make_gguf


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", chat_template="{{ messages }}")


def _refusal(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        read_header(path)
    message = str(caught.value)
    assert message.startswith(("There is no file", str(path)))
    assert message.endswith(".")
    assert "\n" not in message
    return message


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _head(num_tensors: int, num_values: int, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_values)


_ARCHITECTURE = _string(b"general.architecture") + struct.pack("<I", 8) + _string(b"llama")
_TENSOR = _head(1, 1) + _ARCHITECTURE + _string(b"t")


def test_properties_are_those_of_the_file(tiny: Path) -> None:
    header = read_header(tiny)
    assert (header.version, header.architecture, header.name) == (3, "llama", "tiny random")
    assert (header.quantization, header.context_length, header.num_layers) == ("F32", 512, 2)
    assert (header.embedding_length, header.num_heads, header.num_kv_heads) == (32, 4, (2, 2))
    assert header.chat_template == "{{ messages }}"
    assert header.size == tiny.stat().st_size
    assert header.num_splits == 1
    assert header.vocab.size == len(header.vocab.tokens) == 300
    assert (header.vocab.model, header.vocab.pre, header.vocab.num_merges) == ("gpt2", "gpt-2", 42)
    assert (header.vocab.bos_id, header.vocab.eos_id) == (0, 1)
    assert (header.vocab.add_bos, header.vocab.add_eos) == (False, False)
    assert header.vocab.text(2) == "a"
    assert header.vocab.first_duplicate() is None


@pytest.mark.parametrize("kind", ["bpe", "spm"])
@pytest.mark.parametrize("architecture", ["llama", "mamba"])
def test_the_gguf_package_reads_the_same(tmp_path: Path, architecture: str, kind: str) -> None:
    path = make_gguf(tmp_path / "m.gguf", architecture=architecture, tokenizer=kind)  # type: ignore[arg-type]
    _assert_same_as_oracle(path)


@pytest.mark.gguf
def test_the_gguf_package_reads_the_same_of_the_real_model(tiny_path: Path) -> None:
    _assert_same_as_oracle(tiny_path)


def _assert_same_as_oracle(path: Path) -> None:
    header, oracle = read_header(path), gguf.GGUFReader(path)
    own = {key: field for key, field in oracle.fields.items() if not key.startswith("GGUF.")}
    assert list(header.metadata) == list(own)
    for key, field in own.items():
        value = header.metadata[key]
        expected = field.contents()
        if isinstance(value, StringArray):
            assert [raw.decode() for raw in value] == expected
        elif isinstance(value, np.ndarray):
            assert value.tolist() == expected
        else:
            assert value == expected
    assert header.data_offset == oracle.data_offset
    assert len(header.tensors) == len(oracle.tensors)
    for mine, theirs in zip(header.tensors, oracle.tensors, strict=True):
        assert mine.name == theirs.name
        assert mine.shape == tuple(theirs.shape.tolist())
        assert mine.type.name == theirs.tensor_type.name
        assert mine.num_bytes == theirs.n_bytes
        assert header.data_offset + mine.offset == theirs.data_offset


def test_type_tables_agree_with_the_gguf_package() -> None:
    # Q8_1 is never stored; the package still gives the size it had before it lost a float.
    theirs = {int(t): (t.name, *gguf.GGML_QUANT_SIZES[t]) for t in gguf.GGMLQuantizationType}
    mine = {n: (t.name, t.block_size, t.block_bytes) for n, t in TENSOR_TYPES.items()}
    for number in (theirs.keys() & mine.keys()) - {9}:
        assert mine[number] == theirs[number]
    assert theirs.keys() <= mine.keys()
    for file_type in gguf.LlamaFileType:
        if file_type is not gguf.LlamaFileType.GUESSED:
            assert FILE_TYPES[int(file_type)] == file_type.name.removeprefix("MOSTLY_").removeprefix("ALL_")


def test_version_2_reads_like_version_3(tiny: Path, tmp_path: Path) -> None:
    data = bytearray(tiny.read_bytes())
    data[4:8] = struct.pack("<I", 2)
    header = read_header(_write(tmp_path / "v2.gguf", bytes(data)))
    assert header.version == 2
    assert header.vocab.size == 300


def test_quantization_without_a_file_type_is_the_type_with_most_bytes(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("small", np.zeros(4, np.float32))
    writer.add_tensor("large", np.zeros((64, 32), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_header(tmp_path / "m.gguf")
    assert header.quantization == "F16"
    assert header.num_parameters == 4 + 64 * 32


@pytest.mark.parametrize(
    ("pre", "expected"),
    [("llama-bpe", (True, 11, 11)), ("glm4", (False, None, 11)), ("qwen2", (False, 11, 11))],
)
def test_special_tokens_that_are_not_named_are_llama_cpp_s_defaults(
    tmp_path: Path, pre: str, expected: tuple[bool, int | None, int | None]
) -> None:
    # An id outside the vocabulary counts as not named, as in llama.cpp.
    header = read_header(make_gguf(tmp_path / "m.gguf", pre=pre, bos_id=5000, eos_id=5000))
    assert (header.vocab.add_bos, header.vocab.bos_id, header.vocab.eos_id) == expected


def test_a_token_text_that_appears_twice_is_found(tmp_path: Path) -> None:
    path = make_gguf(tmp_path / "m.gguf")
    data = path.read_bytes()
    assert data.count(_string(b"b")) == 1
    path.write_bytes(data.replace(_string(b"b"), _string(b"a")))
    assert read_header(path).vocab.first_duplicate() == 3


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"GG", "begins with b'GG'"),
        (b"GGUF", "ends in the middle of the version"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"PK\x03\x04....", "a zip archive"),
        (_head(0, 0, 1), "GGUF version 1"),
        (_head(0, 0, 4), "GGUF version 4"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (_head(0, 0), "does not name its architecture"),
        (_head(0, 2**63), "claims 0 tensors and 9223372036854775808 key-values"),
        (_head(2**40, 0), "claims 1099511627776 tensors"),
        (_head(0, 1) + _string(b""), "empty or a duplicate"),
        (_head(0, 2) + _ARCHITECTURE * 2, "empty or a duplicate"),
        (_head(0, 1) + struct.pack("<Q", 2**62), "claims a length of 4611686018427387904 bytes"),
        (_head(0, 1) + _string(b"a") + struct.pack("<I", 99), "unknown type 99"),
        (_head(0, 1) + _string(b"a") + struct.pack("<IIQ", 9, 9, 1), "nested type 9"),
        (_head(0, 1) + _string(b"a") + struct.pack("<IIQ", 9, 4, 2**62), "claims 4611686018427387904 items"),
        (_head(0, 1) + _string(b"a") + struct.pack("<IIQ", 9, 8, MAX_ARRAY_ITEMS), "ends in the middle"),
        (_head(0, 1) + _string(b"a") + struct.pack("<IIQQ", 9, 8, 1, 2**64 - 1), "ends in the middle"),
        (
            _head(0, 2) + _ARCHITECTURE + _string(b"general.alignment") + struct.pack("<II", 4, 3),
            "alignment is 3",
        ),
        (_TENSOR + struct.pack("<I", 5), "5 dimensions"),
        (_TENSOR + struct.pack("<IQIQ", 1, 32, 4, 0), "has the type 4"),
        (_TENSOR + struct.pack("<IQIQ", 1, 31, 2, 0), "multiple of 32"),
        (_TENSOR + struct.pack("<IQIQ", 1, 32, 2, 64), "lies at 64"),
        (_TENSOR + struct.pack("<IQIQ", 1, 2**63, 2, 0), "impossible shape"),
        (_TENSOR + struct.pack("<IQIQ", 1, 64, 0, 0), "truncated"),
    ],
)  # fmt: skip
def test_what_is_not_a_gguf_is_refused_in_one_sentence(tmp_path: Path, data: bytes, words: str) -> None:
    assert words in _refusal(_write(tmp_path / "x.gguf", data))


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    assert "is a folder" in _refusal(tmp_path)
    assert "There is no file" in _refusal(tmp_path / "none.gguf")
    assert "cannot be read" in _refusal(tmp_path / "nul\0byte.gguf")


def test_a_truncated_file_is_refused_with_both_sizes(tiny: Path, tmp_path: Path) -> None:
    data = tiny.read_bytes()
    message = _refusal(_write(tmp_path / "cut.gguf", data[:-1]))
    assert f"{len(data) - 1:,} bytes" in message
    assert f"needs {len(data):,}" in message


def test_any_part_of_a_split_model_is_the_whole_model(tmp_path: Path) -> None:
    whole = read_header(make_gguf(tmp_path / "whole.gguf"))
    first = make_gguf(tmp_path / "part.gguf", split_tensors=8)
    files = tuple(tmp_path / f"part-0000{n}-of-00003.gguf" for n in (1, 2, 3))
    assert first == files[0]
    for path in files:
        header = read_header(path)
        assert (header.path, header.files, header.num_splits) == (files[0], files, 3)
        assert header.size == sum(path.stat().st_size for path in files)
        assert [t.name for t in header.tensors] == [t.name for t in whole.tensors]
        assert header.num_parameters == whole.num_parameters
        assert header.vocab.fingerprint == whole.vocab.fingerprint
        assert (header.name, header.short_name) == (whole.name, whole.short_name)
    assert whole.files == (tmp_path / "whole.gguf",)


def test_a_split_model_that_lacks_a_part_names_it(tmp_path: Path) -> None:
    make_gguf(tmp_path / "part.gguf", split_tensors=8)
    (tmp_path / "part-00002-of-00003.gguf").rename(tmp_path / "elsewhere.gguf")
    for number in (1, 3):
        message = _refusal(tmp_path / f"part-0000{number}-of-00003.gguf")
        assert "is one of 3 parts, and part-00002-of-00003.gguf is not beside it" in message
    assert "names such as elsewhere-00001-of-00003.gguf" in _refusal(tmp_path / "elsewhere.gguf")


def test_parts_of_different_models_are_not_one(tmp_path: Path) -> None:
    make_gguf(tmp_path / "part.gguf", split_tensors=8)
    make_gguf(tmp_path / "other.gguf", split_tensors=8, layers=3)
    second, third = (tmp_path / f"part-0000{number}-of-00003.gguf" for number in (2, 3))
    data = second.read_bytes()
    second.write_bytes(third.read_bytes())
    assert "is not part 2 of 3, as its name says" in _refusal(second)
    second.write_bytes((tmp_path / "other-00002-of-00004.gguf").read_bytes())
    with pytest.raises(ModelFileError) as caught:
        read_header(third)  # the part at fault is named, whichever was opened
    assert str(caught.value).startswith(f"{second} is not part 2 of 3, as its name says")
    assert "names such as part-00001-of-00004.gguf" in _refusal(second)
    second.write_bytes(data[:-1])
    with pytest.raises(ModelFileError) as caught:
        read_header(third)
    assert str(caught.value).startswith(f"{second} is not a usable GGUF: it is truncated")


def test_a_name_like_a_part_s_is_only_a_name(tmp_path: Path) -> None:
    path = make_gguf(tmp_path / "m-00001-of-00002.gguf")
    assert read_header(path).files == (path,)


@pytest.mark.parametrize(
    ("architecture", "key", "memory", "rollback"),
    [
        ("llama", None, "attention", "trim"),
        ("llama", "attention.sliding_window", "attention", "trim"),  # llama.cpp does not look at it there
        ("gemma3", "attention.sliding_window", "sliding window", "trim"),
        ("gemma3", None, "attention", "trim"),
        ("gemma2", None, "sliding window", "trim"),
        ("mamba", None, "recurrent", "checkpoint"),
        ("rwkv7", None, "recurrent", "checkpoint"),
        ("jamba", None, "hybrid", "checkpoint"),
        ("qwen35", None, "hybrid", "state rollback"),
    ],
)
def test_the_architecture_tells_the_memory_and_how_it_is_rolled_back(
    architecture: str, key: str | None, memory: str, rollback: str
) -> None:
    keys = {} if key is None else {f"{architecture}.{key}": 512}
    kind = kinds.memory_kind(architecture, keys)
    assert (kind, kinds.rollback(architecture, kind)) == (memory, rollback)


@pytest.mark.parametrize(
    ("architecture", "keys", "tensors", "kind"),
    [
        ("llama", {}, ["blk.0.attn_q.weight"], "model"),
        ("llama", {}, [], "vocabulary only"),
        ("llama", {"general.type": "adapter"}, ["blk.0.attn_q.weight.lora_a"], "adapter"),
        ("llama", {"adapter.type": "lora"}, ["blk.0.attn_q.weight.lora_a"], "adapter"),
        ("qwen3", {"qwen3.pooling_type": 3}, ["blk.0.attn_q.weight"], "embedding"),
        ("nomic-bert", {}, ["blk.0.attn_q.weight"], "embedding"),
        ("clip", {}, ["v.patch_embd.weight"], "mmproj"),
        ("", {"general.type": "imatrix"}, ["blk.0.attn_q.weight.in_sum2"], "imatrix"),
        ("t5", {}, ["enc.blk.0.attn_q.weight"], "encoder"),
        ("llada", {}, ["blk.0.attn_q.weight"], "diffusion"),
        ("eagle3", {}, ["fc.weight"], "eagle3"),
        ("dflash", {}, ["fc.weight"], "dflash"),
        ("qwen35", {"qwen35.nextn_predict_layers": 1}, ["blk.32.nextn.eh_proj.weight"], "mtp"),
        ("glm4moe", {"glm4moe.nextn_predict_layers": 1}, ["blk.0.attn_q.weight"], "model"),
    ],
)
def test_a_file_is_named_for_what_it_is(
    architecture: str, keys: dict[str, object], tensors: list[str], kind: str
) -> None:
    assert kinds.file_kind(architecture, keys, tensors) == kind


@pytest.mark.gguf
def test_the_ends_of_the_real_model_are_those_of_llama_cpp(tiny_path: Path) -> None:
    from edge_spec.config import ModelSettings
    from edge_spec.llama.model import Model

    model = Model(ModelSettings(tiny_path, gpu_layers=0))
    try:
        ends = tuple(token for token in range(model.num_vocab) if model.is_eog(token))
    finally:
        model.close()
    assert read_header(tiny_path).vocab.end_ids == ends


def test_every_cut_is_refused(tiny: Path, tmp_path: Path) -> None:
    data = tiny.read_bytes()
    for length in range(0, len(data), 997):
        _refusal(_write(tmp_path / "cut.gguf", data[:length]))


def test_control_characters_of_a_file_reach_no_message_and_no_name(tmp_path: Path) -> None:
    key = b"\x1b[31mred\n"
    data = _head(0, 2) + _ARCHITECTURE + _string(key) + struct.pack("<I", 99)
    assert '"?[31mred?" has the unknown type 99' in _refusal(_write(tmp_path / "x.gguf", data))
    header = read_header(make_gguf(tmp_path / "n.gguf", name="\x1b[31mred\n"))
    assert header.name == "[31mred"


def test_three_hundred_damaged_headers_raise_nothing_but_model_file_errors(
    tiny: Path, tmp_path: Path
) -> None:
    resource = pytest.importorskip("resource")  # not on Windows
    data, path = tiny.read_bytes(), tmp_path / "damaged.gguf"
    end = read_header(tiny).data_offset
    luck = random.Random(20240607)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.monotonic()
    read = 0
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(luck.choice((1, 1, 2, 8))):
            position = luck.randrange(end)
            if luck.random() < 0.5:
                damaged[position] = luck.randrange(256)
            else:  # lengths and counts are what hurts
                damaged[position : position + 8] = luck.choice(
                    (b"\xff" * 8, struct.pack("<Q", luck.randrange(1 << luck.randrange(1, 64))))
                )
        _write(path, bytes(damaged))
        try:
            header = read_header(path)
            _use(header)
            read += 1
        except ModelFileError:
            pass
    assert 0 < read < 300
    assert time.monotonic() - started < 60
    # KiB: far more than the 160 KB file, far less than a length that was believed.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def _use(header: Header) -> None:
    """Everything that hangs on a header must survive whatever was read."""
    for name in dir(Header):
        if isinstance(getattr(Header, name), property):
            getattr(header, name)
    header.vocab.first_duplicate()
    for token in range(min(len(header.vocab.tokens), 3)):
        header.vocab.text(token)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 3), st.integers(0, 3))
def test_random_bytes_after_a_good_start_are_refused(tail: bytes, num_tensors: int, num_values: int) -> None:
    data = _head(num_tensors, num_values + 1) + _ARCHITECTURE + tail
    with contextlib.suppress(DamagedHeader):
        _use(_parse(Path("x.gguf"), data, len(data)))


@pytest.mark.gguf
def test_the_real_model_is_read_in_a_moment(tiny_path: Path) -> None:
    read_header(tiny_path)  # into the page cache
    started = time.perf_counter()
    header = read_header(tiny_path)
    assert time.perf_counter() - started < 0.5
    assert (header.architecture, header.quantization, header.vocab.size) == ("llama", "Q4_1", 49152)
    assert header.num_parameters == 134_515_008


@pytest.mark.parametrize("layers", [4097, -1])
def test_an_impossible_number_of_layers_is_refused_before_anything_is_counted(
    tmp_path: Path, layers: int
) -> None:
    kind = gguf.GGUFValueType.INT32

    def edit(writer: gguf.GGUFWriter) -> None:
        writer.kv_data[0]["llama.block_count"] = gguf.GGUFValue(layers, kind)

    assert f"claims {layers} layers" in _refusal(make_gguf(tmp_path / "x.gguf", edit=edit))


def test_lists_and_endless_numbers_where_one_number_belongs_are_passed_over(tmp_path: Path) -> None:
    def edit(writer: gguf.GGUFWriter) -> None:
        writer.add_array("llama.attention.sliding_window", [0, 4096])
        writer.add_tensor(f"blk.{'9' * 5000}.attn_q.weight", np.zeros(32, np.float32))

    header = read_header(make_gguf(tmp_path / "x.gguf", edit=edit))
    assert facts_of(header).memory == "attention"
    assert [tensor.layer for tensor in header.tensors[-2:]] == [1, None]
    assert cache_bytes(ModelSettings(header.path), header, ["RAM"] * 3).keys_values


def test_what_a_file_without_architecture_is_may_be_a_list(tmp_path: Path) -> None:
    numbers = struct.pack("<IIQ", 9, 4, 2) + struct.pack("<II", 1, 2)
    data = _head(0, 2) + _string(b"general.type") + numbers + _string(b"split.no") + numbers
    assert "does not name its architecture" in _refusal(_write(tmp_path / "x.gguf", data))


def test_a_file_that_is_shorter_than_it_was_is_read_as_far_as_it_goes(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(b"GGUF and no more")
    with path.open("rb") as file:
        assert _first_bytes(file, 1000) == b"GGUF and no more"
        assert _first_bytes(file, 4)[:] == b"GGUF"
