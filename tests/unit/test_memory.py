"""The memory plan: its arithmetic, where things go, and that only what surely does not fit is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edge_spec.config import ModelSettings
from edge_spec.errors import MemoryForeseenError
from edge_spec.models.ggml_types import TENSOR_TYPES
from edge_spec.models.header import Header, TensorInfo, read_header
from edge_spec.models.memory import Machine, Request, advice, check_memory, plan_memory, savings
from edge_spec.models.memory.cache import cache_bytes
from edge_spec.models.memory.placing import RAM, is_repacked, layer_places, place_weights
from edge_spec.types import Device
from tests.gguf_maker import make_gguf

GB = 1_000_000_000
AVX2 = frozenset({"AVX2", "REPACK"})
NEON = frozenset({"NEON", "DOTPROD", "REPACK"})
LARGE = Machine(64 * GB, 60 * GB, features=AVX2)
KINDS = {kind.name: kind for kind in TENSOR_TYPES.values()}


@pytest.fixture
def header(tmp_path: Path) -> Header:
    return read_header(make_gguf(tmp_path / "m.gguf"))


def _settings(header: Header, **changes: object) -> ModelSettings:
    return ModelSettings(header.path, **{"context_size": 1024, **changes})  # type: ignore[arg-type]


def _typed(header: Header, name: str) -> Header:
    """The header of the same model with its matrices in another type, 256 wide."""
    tensors = tuple(
        replace(tensor, type=KINDS[name], shape=(256, *tensor.shape[1:]))
        if len(tensor.shape) == 2
        else tensor
        for tensor in header.tensors
    )
    return replace(header, tensors=tensors)


def _tensor(name: str, kind: str, *shape: int) -> TensorInfo:
    return TensorInfo(name, shape, KINDS[kind], 0)


def _gpu(name: str, free: int, kind: str = "gpu") -> Device:
    return Device(name, "a GPU", kind, free, 24 * GB)


# -- KV cache and state


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # 2 layers x 2 kv heads x 8 wide x (key + value) x 1024 tokens x 2 bytes
        ({}, 2 * 2 * 8 * 2 * 1024 * 2),
        ({"context_size": 1000}, 2 * 2 * 8 * 2 * 1024 * 2),  # a multiple of 256 cells
        ({"num_slots": 3}, 3 * 2 * 2 * 8 * 2 * 1024 * 2),
        ({"num_slots": 3, "context_size": 300}, 2 * 2 * 8 * 2 * 1024 * 2),  # 900 cells, not 3 x 512
        ({"kv_type_k": "f32"}, 2 * 2 * 8 * 1024 * (4 + 2)),
    ],
)
def test_the_cache_is_layers_heads_context_and_type(
    header: Header, changes: dict[str, object], expected: int
) -> None:
    cache = cache_bytes(_settings(header, **changes), header, [RAM] * 3)
    assert (cache.keys_values, cache.state) == ({RAM: expected}, {})


def test_recurrent_models_have_a_state_for_each_slot_and_no_cache(tmp_path: Path) -> None:
    header = read_header(make_gguf(tmp_path / "m.gguf", architecture="mamba"))
    # convolution: (4 - 1) x 64; state: 8 x 64; float32, two layers
    state = 2 * 4 * ((4 - 1) * 64 + 8 * 64)
    cache = cache_bytes(_settings(header, num_slots=3), header, [RAM] * 3)
    assert (cache.keys_values, cache.state) == ({}, {RAM: 3 * state})
    plan = plan_memory([Request(_settings(header), header)], LARGE)
    assert plan.models[0].total("checkpoints") == plan.models[0].total("state") == state


def _with_keys(header: Header, **keys: int) -> Header:
    metadata = {**header.metadata, **{f"llama.{name}": value for name, value in keys.items()}}
    return replace(header, metadata=metadata)


def test_latent_attention_caches_one_vector_a_token(header: Header) -> None:
    latent = _with_keys(
        header,
        **{"attention.key_length": 576, "attention.key_length_mla": 192, "attention.value_length_mla": 128,
           "attention.head_count_kv": 1},
    )  # fmt: skip
    cache = cache_bytes(_settings(latent), latent, [RAM] * 3)
    assert cache.keys_values == {RAM: 2 * 576 * 2 * 1024}


def test_in_a_hybrid_only_layers_with_attention_have_a_cache(header: Header) -> None:
    hybrid = _with_keys(header, **{"ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 8})
    tensors = [t for t in header.tensors if not t.name.startswith("blk.0.attn_")]
    tensors += [
        _tensor("blk.0.ssm_conv1d.weight", "F32", 4, 64),
        _tensor("blk.0.attn_qkv.weight", "F32", 32, 64),
    ]
    cache = cache_bytes(_settings(header), replace(hybrid, tensors=tuple(tensors)), [RAM] * 3)
    assert cache.keys_values == {RAM: 2 * 8 * 2 * 1024 * 2}
    assert cache.state == {RAM: 4 * (3 * 64 + 8 * 64)}


def test_layers_for_predicting_several_tokens_are_neither_loaded_nor_cached(header: Header) -> None:
    trunk = _with_keys(header, nextn_predict_layers=1)
    whole, less = (place_weights(h, [RAM] * 3, LARGE).plain[RAM] for h in (header, trunk))
    layer = sum(tensor.num_bytes for tensor in header.tensors if tensor.name.startswith("blk.1."))
    assert whole - less == layer
    assert cache_bytes(_settings(trunk), trunk, [RAM] * 3).keys_values == {RAM: 2 * 8 * 2 * 1024 * 2}


# -- weights


@pytest.mark.parametrize(
    ("kind", "rows", "features", "repacked"),
    [
        ("Q4_0", 64, AVX2, True),
        ("Q4_0", 60, AVX2, False),
        ("Q4_0", 60, NEON, True),
        ("Q4_0", 64, frozenset({"AVX", "REPACK"}), False),
        ("Q6_K", 64, AVX2, False),
        ("Q6_K", 64, NEON, True),
        ("Q2_K", 64, AVX2, False),
        ("Q2_K", 64, AVX2 | {"AVX512"}, True),
        ("Q8_0", 64, AVX2, False),
        ("Q8_0", 64, NEON, True),
        ("F16", 64, AVX2 | NEON, False),
    ],
)
def test_what_is_repacked_depends_on_type_rows_and_cpu(
    kind: str, rows: int, features: frozenset[str], repacked: bool
) -> None:
    machine = replace(LARGE, features=features)
    assert is_repacked(_tensor("blk.0.ffn_up.weight", kind, 256, rows), machine) == repacked
    assert is_repacked(_tensor("blk.0.ffn_up_exps.weight", kind, 256, rows, 8), machine) == repacked
    assert not is_repacked(_tensor("blk.0.ffn_up.bias", kind, 256, rows), machine)


def test_a_tied_output_that_is_repacked_is_a_further_copy(header: Header) -> None:
    untied = _typed(header, "Q4_0")
    small = replace(untied, tensors=tuple(t for t in untied.tensors if t.name != "output.weight"))
    wide = _multiple_of_eight(small)
    embedding = next(t.num_bytes for t in wide.tensors if t.name == "token_embd.weight")
    weights = place_weights(wide, [RAM] * 3, LARGE)
    assert weights.repacked - weights.originals == embedding
    assert weights.plain[RAM] >= embedding
    assert place_weights(wide, [RAM] * 3, replace(LARGE, features=AVX2 | {"AMX_INT8"})).repacked == 0


def _multiple_of_eight(header: Header) -> Header:
    tensors = tuple(
        replace(tensor, shape=(tensor.shape[0], (tensor.shape[1] + 7) // 8 * 8))
        if len(tensor.shape) == 2
        else tensor
        for tensor in header.tensors
    )
    return replace(header, tensors=tensors)


def test_rearranged_weights_are_read_without_mmap_when_there_is_room(header: Header) -> None:
    for kind, free, mode in (("Q4_0", 60 * GB, "none"), ("Q4_0", 1 * GB, "mmap"), ("F16", 60 * GB, "mmap")):
        model = _multiple_of_eight(_typed(header, kind))
        plan = plan_memory([Request(_settings(model), model)], replace(LARGE, available=free))
        assert plan.models[0].load_mode == mode
        as_asked = plan_memory([Request(_settings(model, load_mode="none"), model)], LARGE)
        assert as_asked.models[0].load_mode == "none"
        assert (as_asked.mapped, as_asked.idle) == (0, 0)


# -- devices (fabricated: there was no GPU to try this on)


def test_the_last_layers_and_the_output_go_to_the_gpu_and_are_shared_by_free_memory(header: Header) -> None:
    machine = replace(LARGE, devices=(_gpu("A", 2 * GB), _gpu("B", GB)))
    assert layer_places(_settings(header), header, machine) == ["A", "A", "B"]
    assert layer_places(_settings(header, gpu_layers=2), header, machine) == [RAM, "A", "A"]
    assert layer_places(_settings(header, gpu_layers=0), header, machine) == [RAM, RAM, RAM]
    assert layer_places(_settings(header, device="B"), header, machine) == ["B", "B", "B"]


def test_what_is_on_a_gpu_is_not_counted_against_the_machine_s_memory(header: Header) -> None:
    machine = replace(LARGE, devices=(_gpu("A", 8 * GB),))
    plan = plan_memory([Request(_settings(header), header)], machine)
    model = plan.models[0]
    assert model.load_mode == "auto"
    assert plan.mapped == next(t.num_bytes for t in header.tensors if t.name == "token_embd.weight")
    assert model.total("weights", "A") + plan.mapped == sum(t.num_bytes for t in header.tensors)
    assert model.total("KV cache", RAM) == 0
    assert plan.on_device("A") == model.total(place="A") > model.total("weights", "A")
    assert plan.verdict == "fits"


def test_a_gpu_that_is_too_small_gets_a_warning_and_fewer_layers_are_advised(header: Header) -> None:
    requests = [Request(_settings(header, context_size=200_000), header)]
    needed = plan_memory(requests, replace(LARGE, devices=(_gpu("A", 8 * GB),))).on_device("A")
    machine = replace(LARGE, devices=(_gpu("A", needed - 1),))
    plan = plan_memory(requests, machine)
    assert (plan.verdict, plan.crowded) == ("tight", ("A",))
    check_memory(requests, machine)  # drivers lend the machine's memory, so this is no refusal
    fewer = [saving for saving in savings(requests, machine) if "-ngl" in saving.change]
    assert fewer[0].change == "put 2 of the target's 3 layers on the GPU (-ngl 2)"
    assert fewer[0].fits


def test_a_second_model_is_placed_by_what_the_first_left_free(header: Header) -> None:
    machine = replace(LARGE, devices=(_gpu("A", 2_000_000), _gpu("B", 1_900_000)))
    one = Request(_settings(header, gpu_layers=1), header)
    plan = plan_memory([one, one], machine)
    assert plan.models[0].total("weights", "A") > 0
    assert {part.place for part in plan.models[1].parts if part.what == "weights"} <= {"A", "B"}


def test_memory_of_an_integrated_gpu_is_the_machine_s_own(header: Header) -> None:
    requests = [Request(_settings(header), header)]
    apart = plan_memory(requests, replace(LARGE, devices=(_gpu("A", 8 * GB),)))
    shared = plan_memory(requests, replace(LARGE, devices=(_gpu("A", 8 * GB, "igpu"),)))
    assert shared.private - apart.private == shared.on_device("A")


# -- verdicts


def test_only_what_surely_does_not_fit_is_refused(header: Header) -> None:
    requests = [Request(_settings(header), header)] * 2
    plan = plan_memory(requests, Machine(64 * GB, 60 * GB))
    assert plan.least < plan.private

    def verdict(available: int, total: int = 64 * GB) -> str:
        return plan_memory(requests, Machine(total, available)).verdict

    assert verdict(plan.needed) == "fits"
    assert verdict(plan.needed - 1) == "tight"
    assert verdict(plan.least) == "tight"
    assert verdict(plan.least - 1) == "too small"
    assert verdict(plan.least, total=plan.least + plan.mapped - 1) == "too small"
    with pytest.raises(MemoryForeseenError):
        check_memory(requests, Machine(64 * GB, plan.least - 1))
    check_memory(requests, Machine(64 * GB, plan.least))


def test_the_error_names_needed_free_and_what_to_lower(header: Header) -> None:
    requests = [Request(_settings(header, context_size=10_000_000), header)]
    with pytest.raises(MemoryForeseenError) as caught:
        check_memory(requests, Machine(8 * GB, 1 * GB, features=AVX2))
    assert str(caught.value).startswith(
        "The model would need at least 1.3 GB of memory (151 kB weights, 1.3 GB KV cache), "
        "but 1.0 GB of 8.0 GB are free: lower the context to "
    )


def test_savings_are_what_a_plan_with_the_change_needs_less(header: Header) -> None:
    settings = _settings(header, context_size=1_000_000)
    requests = [Request(settings, header), Request(settings, header)]
    plan = plan_memory(requests, LARGE)
    found = {saving.change: saving for saving in savings(requests, LARGE)}
    context = found["lower the context to 500000 tokens (-c 500000)"]
    half = [Request(_settings(header, context_size=500_000), header)] * 2
    assert context.num_bytes == plan.needed - plan_memory(half, LARGE).needed > 0
    assert (
        found["leave the draft out (--drafter none)"].num_bytes
        == plan.needed - plan_memory(requests[:1], LARGE).needed
    )


def test_a_saving_that_suffices_comes_first(header: Header) -> None:
    requests = [Request(_settings(header, context_size=1_000_000), header)]
    needed = plan_memory(requests, LARGE).needed
    machine = replace(LARGE, available=needed - 10_000_000)
    assert savings(requests, machine)[0].fits
    assert "probably needs" in advice(requests, plan_memory(requests, machine))
    assert advice(requests, plan_memory(requests, LARGE)).endswith("are free.")


def test_a_model_that_is_not_here_yet_counts_by_its_size(header: Header) -> None:
    plan = plan_memory([Request(_settings(header), None, 5 * GB)], LARGE)
    assert plan.mapped == 5 * GB
    assert plan_memory([Request(_settings(header), None, 65 * GB)], LARGE).verdict == "too small"


def test_wide_weights_are_advised_to_be_requantised_and_small_ones_not(header: Header) -> None:
    change = "requantise the target to Q4_K_M (models quantize)"
    large = replace(
        header,
        tensors=tuple(
            replace(t, shape=(t.shape[0] * 64, *t.shape[1:])) if len(t.shape) == 2 else t
            for t in header.tensors
        ),
    )
    found = {s.change: s.num_bytes for s in savings([Request(_settings(header), large)], LARGE)}
    size = sum(tensor.num_bytes for tensor in large.tensors)
    assert found[change] == pytest.approx(size * (1 - 4.85 / 32), rel=0.05)
    small = replace(large, metadata={**large.metadata, "general.file_type": 2})
    assert change not in {s.change for s in savings([Request(_settings(header), small)], LARGE)}


def test_of_experts_only_those_that_a_token_is_given_to_must_be_in_memory(header: Header) -> None:
    experts = tuple(_tensor(f"blk.{i}.ffn_up_exps.weight", "F16", 32, 640, 64) for i in range(2))
    mixed = replace(
        _with_keys(header, expert_count=64, expert_used_count=8), tensors=(*header.tensors, *experts)
    )
    size = sum(tensor.num_bytes for tensor in experts)
    plan = plan_memory([Request(_settings(header), mixed)], LARGE)
    must = plan.least + plan.mapped - size * 7 // 8
    for total, verdict in ((must, "tight"), (must - 1, "too small")):
        machine = Machine(total, plan.least, features=AVX2)
        assert plan_memory([Request(_settings(header), mixed)], machine).verdict == verdict
