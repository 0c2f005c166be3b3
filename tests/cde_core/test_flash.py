"""The flash path with a stand-in kernel: same signature and layout, plain arithmetic, any device.

The kernel itself runs on GPUs only. What is ours is tested: when it is chosen, how padding is taken
out and put back, and how the answers for context and text are joined.
"""

import sys
from types import ModuleType

import pytest
import torch

from cde_core.model import flash

from .conftest import BACKBONES

IDS = torch.randint(3, 50, (4, 11), generator=torch.Generator().manual_seed(1))
MASK = torch.arange(11) < torch.tensor([[11], [7], [3], [9]])
VECTORS = torch.randn(6, 32, generator=torch.Generator().manual_seed(0))


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
    softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
    deterministic=False, return_attn_probs=False, block_table=None,
):  # fmt: skip
    """As flash-attn 2.7 documents it: windows are aligned at the end of keys and queries."""
    assert cu_seqlens_q.dtype == cu_seqlens_k.dtype == torch.int32
    assert len(q) == cu_seqlens_q[-1] and len(k) == len(v) == cu_seqlens_k[-1]
    assert cu_seqlens_q.diff().max() == max_seqlen_q and cu_seqlens_k.diff().max() == max_seqlen_k
    rows, normalisers = torch.zeros_like(q), torch.zeros(q.shape[1], len(q))
    for text in range(len(cu_seqlens_q) - 1):
        asking = slice(cu_seqlens_q[text], cu_seqlens_q[text + 1])
        seen = slice(cu_seqlens_k[text], cu_seqlens_k[text + 1])
        scores = torch.einsum("qhw,khw->hqk", q[asking], k[seen]) / q.shape[-1] ** 0.5
        if window_size != (-1, -1):
            asks, sees = scores.shape[1:]
            distance = torch.arange(sees) - (torch.arange(asks)[:, None] + sees - asks)
            far = (distance < -window_size[0]) | (distance > window_size[1])
            scores = scores.masked_fill(far, float("-inf"))
        rows[asking] = torch.einsum("hqk,khw->qhw", scores.softmax(-1), v[seen])
        normalisers[:, asking] = scores.logsumexp(-1)
    return (rows, normalisers, None) if return_attn_probs else rows


@pytest.fixture
def kernel(monkeypatch):
    """The stand-in, where the package would be; gives how often it was called."""
    calls = []
    module = ModuleType("flash_attn")
    module.flash_attn_varlen_func = lambda *a, **k: (
        calls.append(1) or flash_attn_varlen_func(*a, **k)
    )
    monkeypatch.setitem(sys.modules, "flash_attn", module)
    monkeypatch.setattr(flash, "_installed", lambda: True)
    monkeypatch.setattr(flash, "DEVICES", {"cpu"})
    monkeypatch.setattr(flash, "PRECISIONS", {torch.float32})
    return calls


def both(compute, kernel, monkeypatch):
    """What the kernel gives, and what PyTorch gives."""
    found = compute()
    assert kernel, "the kernel was not used"
    monkeypatch.setattr(flash, "DEVICES", set())
    calls = len(kernel)
    expected = compute()
    assert len(kernel) == calls, "the kernel was used for both"
    return found, expected


SETTINGS = [
    {"context_attention": "joint"},
    {"context_attention": "prefix"},
    {"context_attention": "prefix", "context_bias_init": -1.0},
]


@pytest.mark.parametrize("mask", [MASK, None], ids=["padded", "full"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("family", BACKBONES)
@torch.inference_mode()
def test_without_padding_the_vectors_are_the_same(
    contextual, kernel, monkeypatch, family, settings, mask
):
    model = contextual(family, rotary_on_context=family == "modernbert", **settings)
    found, expected = both(lambda: model(IDS, mask, model.prepare(VECTORS)), kernel, monkeypatch)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("family", BACKBONES)
@torch.inference_mode()
def test_the_first_stage_reads_the_same_without_padding(contextual, kernel, monkeypatch, family):
    model = contextual(family)
    found, expected = both(lambda: model.read_context(IDS, MASK), kernel, monkeypatch)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


@torch.inference_mode()
def test_a_context_of_its_own_per_text_is_told_apart(contextual, kernel, monkeypatch):
    model = contextual("nomic", context_attention="prefix", context_bias_init=-1.0)
    each = torch.stack([VECTORS + number for number in range(4)])
    found, expected = both(lambda: model(IDS, MASK, model.prepare(each)), kernel, monkeypatch)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


def test_gradients_of_joint_attention_are_the_same(contextual, kernel, monkeypatch):
    def gradient():
        model, vectors = contextual("nomic"), VECTORS.clone().requires_grad_()
        model(IDS, MASK, model.prepare(vectors)).square().sum().backward()
        return vectors.grad

    found, expected = both(gradient, kernel, monkeypatch)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-4)


def test_training_with_rows_in_front_does_not_use_the_kernel(contextual, kernel):
    model = contextual("nomic", context_attention="prefix")
    context = model.prepare(VECTORS)
    model(IDS, MASK, context)
    assert not kernel
    with torch.no_grad():
        model(IDS, MASK, context)
    assert kernel


def test_rows_are_taken_out_and_put_back_where_they_were():
    rows = flash.real_rows(MASK)
    assert rows.starts.tolist() == [0, 11, 18, 21, 30] and rows.longest == 11
    padded = torch.randn(4, 11, 2, 3)
    back = rows.put(rows.take(padded), padded)
    assert torch.equal(back[MASK], padded[MASK]) and back[~MASK].abs().max() == 0


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({}, True),
        ({"device": "meta"}, False),
        ({"dtype": torch.float32}, False),
        ({"installed": False}, False),
        ({"heads": 1, "width": 512}, False),
        ({"in_front": True}, True),
        ({"in_front": True, "gradients": True}, False),
        ({"gradients": True}, True),
    ],
    ids=str,
)
def test_the_kernel_is_chosen_on_gpus_in_half_precision_where_it_is_installed(
    monkeypatch, change, fits
):
    asked = {"device": "cpu", "dtype": torch.bfloat16, "installed": True, "heads": 4, "width": 32}
    asked |= {"in_front": False, "gradients": False} | change
    monkeypatch.setattr(flash, "DEVICES", {"cpu"})  # stands for the GPU here
    monkeypatch.setattr(flash, "_installed", lambda: asked["installed"])
    x = torch.empty(2, 5, asked["width"], device=asked["device"], dtype=asked["dtype"])
    width = asked["width"] // asked["heads"]
    with torch.set_grad_enabled(asked["gradients"]):
        assert flash.fits(x, head_width=width, in_front=asked["in_front"]) is fits


def test_mixed_precision_counts_as_the_precision_it_computes_in(monkeypatch):
    monkeypatch.setattr(flash, "DEVICES", {"cpu"})
    monkeypatch.setattr(flash, "_installed", lambda: True)
    x = torch.empty(2, 5, 32)
    assert not flash.fits(x, head_width=8, in_front=False)
    with torch.autocast("cpu", torch.bfloat16):
        assert flash.fits(x, head_width=8, in_front=False)


def test_gpus_and_half_precision_are_what_the_kernel_is_for():
    assert flash.DEVICES == {"cuda"} and flash.PRECISIONS == {torch.float16, torch.bfloat16}
