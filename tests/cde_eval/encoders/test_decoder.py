"""A tiny random Llama, read one text at a time by hand, is what the encoder must agree with."""

import json
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5Model,
)

from cde_core.errors import ModelError
from cde_core.text import Purpose
from cde_eval.encoders import LoadOptions
from cde_eval.encoders.biencoder import folder_revision
from cde_eval.encoders.decoder import load

WORDS = "<pad> <s> </s> <unk> query : passage the a cat dog tax law river mill flour oven".split()
BOS, EOS = 1, 2
TEXTS = ["the cat", "tax law " * 40, "", "a dog", "river mill flour oven the cat a dog", "the cat"]
QUERY, DOCUMENT = Purpose("Retrieval", "query"), Purpose("Retrieval", "document")
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}


def save_tokenizer(folder, *, template="<s> $A", padding_side="right", eos="</s>"):
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(":", "isolated")]
    )
    words.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("<s>", BOS), ("</s>", EOS)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=words,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token=eos,
        pad_token="<pad>",
        padding_side=padding_side,
    ).save_pretrained(folder)


@pytest.fixture
def llama(tmp_path):
    """Save a causal language model with random weights and its tokenizer; return the folder."""

    def build(name="llama", **tokenizer):
        config = LlamaConfig(
            vocab_size=len(WORDS), num_hidden_layers=3, max_position_embeddings=64, **SIZES
        )
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
        with torch.no_grad():  # at its usual size, a random model says almost the same of all texts
            for weight in model.parameters():
                weight.add_(0.2 * torch.randn_like(weight))
        model.save_pretrained(tmp_path / name)
        save_tokenizer(tmp_path / name, **tokenizer)
        return tmp_path / name

    return build


@pytest.fixture
def lora(llama, tmp_path):
    """Save a LoRA folder with weights that are not zero, and return it with the merged model."""
    peft = pytest.importorskip("peft")

    def build(*, with_head=False):
        base = llama()
        model = LlamaForCausalLM.from_pretrained(base)
        model = model if with_head else model.model
        config = peft.LoraConfig(r=2, lora_alpha=8, target_modules=["q_proj", "down_proj"])
        if with_head:
            config.task_type = "CAUSAL_LM"
        torch.manual_seed(1)
        adapted = peft.get_peft_model(model, config)
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(weight, std=0.2)
        adapted.save_pretrained(tmp_path / "lora")
        merged = adapted.merge_and_unload()
        return tmp_path / "lora", base, merged.model if with_head else merged

    return build


def by_hand(model, texts, prefix):
    """Last row of the last layer, one text at a time, without padding or mask."""
    vectors = []
    for text in texts:
        words = (prefix + text).replace(":", " : ").split()
        ids = [BOS, *(WORDS.index(word) for word in words)][:63]
        with torch.no_grad():
            rows = model.eval()(input_ids=torch.tensor([[*ids, EOS]])).last_hidden_state
        vectors.append(rows[0, -1].numpy())
    return np.stack(vectors)


def test_vectors_equal_one_text_at_a_time_with_the_prefix_of_each_role(llama):
    folder = llama()
    model, encoder = AutoModel.from_pretrained(folder), load(str(folder), LoadOptions())
    for role, prefix in (("query", "query: "), ("document", "passage: "), ("text", "passage: ")):
        vectors = encoder.encode(TEXTS, purpose=Purpose("Retrieval", role))
        assert vectors.dtype == np.float32
        assert vectors == pytest.approx(by_hand(model, TEXTS, prefix), abs=1e-5)
    queries, documents = (encoder.encode(TEXTS, purpose=p) for p in (QUERY, DOCUMENT))
    assert np.abs(queries - documents).max() > 0.1
    assert np.linalg.norm(queries, axis=1).std() > 1e-3  # as the model scales them


def test_the_side_of_padding_and_the_batch_change_nothing(llama):
    sides = ("right", "left")
    right, left = (load(str(llama(side, padding_side=side)), LoadOptions()) for side in sides)
    together = right.encode(TEXTS, purpose=QUERY)
    assert right.tokenizer.padding_side != left.tokenizer.padding_side
    assert left.encode(TEXTS, purpose=QUERY) == pytest.approx(together, abs=1e-6)
    for row, text in enumerate(TEXTS):
        fresh = load(str(left.model.name_or_path), LoadOptions())  # remembers no text
        assert fresh.encode([text], purpose=QUERY)[0] == pytest.approx(together[row], abs=1e-5)


@pytest.mark.parametrize("template", ["<s> $A", "<s> $A </s>"])
def test_every_text_ends_with_one_eos_also_where_it_is_cut(llama, template):
    encoder = load(str(llama(template=template)), LoadOptions())
    for ids, text in zip(encoder.read(TEXTS, "query: "), TEXTS, strict=True):
        assert ids[0] == BOS and ids[-1] == EOS and list(ids).count(EOS) == 1
        assert len(ids) == min(64, len(text.split()) + 4)


def test_it_is_filed_under_the_hash_of_its_folder(llama):
    folder = llama()
    encoder = load(str(folder), LoadOptions())
    assert (encoder.name, encoder.context_size) == ("local/llama", 0)
    assert (encoder.revision, encoder.settings) == (folder_revision(folder), {})


def test_bfloat16_is_recorded_and_comes_back_as_float32(llama):
    folder = llama()
    encoder = load(str(folder), LoadOptions(dtype="bfloat16"))
    assert next(encoder.model.parameters()).dtype == torch.bfloat16
    assert encoder.encode(TEXTS, purpose=QUERY).dtype == np.float32
    assert encoder.settings == {"dtype": "bfloat16"}


@pytest.mark.parametrize("with_head", [False, True])
def test_a_lora_folder_equals_its_weights_merged_by_hand(lora, with_head):
    folder, base, merged = lora(with_head=with_head)
    encoder = load(str(folder), LoadOptions())
    vectors = encoder.encode(TEXTS, purpose=QUERY)
    assert vectors == pytest.approx(by_hand(merged, TEXTS, "query: "), abs=1e-5)
    plain = load(str(base), LoadOptions()).encode(TEXTS, purpose=QUERY)
    assert np.abs(vectors - plain).max() > 0.1
    assert encoder.settings == {"base": f"local/llama@{folder_revision(base)}"}
    assert encoder.revision == folder_revision(folder)


def test_a_lora_folder_with_a_tensor_missing_or_unknown_is_refused(lora):
    folder, *_ = lora()
    file = folder / "adapter_model.safetensors"
    weights = load_file(file)
    name = next(iter(weights))
    tensor = weights.pop(name)
    unknown = {"base_model.model.layers.7.lora_A.weight": tensor.clone()}
    save_file(weights, file)
    with pytest.raises(ModelError, match=r"lacks 1 tensor\(s\): base_model\.model\.layers\.0"):
        load(str(folder), LoadOptions())
    save_file({**weights, name: tensor, **unknown}, file)
    with pytest.raises(ModelError, match=r"has a tensor that .* lacks: .*layers\.7"):
        load(str(folder), LoadOptions())


def test_without_peft_a_lora_folder_says_what_to_install(llama, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)  # importing it fails
    folder = tmp_path / "lora"
    folder.mkdir()
    config = {"peft_type": "LORA", "base_model_name_or_path": str(llama())}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"needs peft: pip install 'cde-eval\[lora\]'") as error:
        load(str(folder), LoadOptions())
    assert "\n" not in str(error.value)


def test_a_missing_tensor_is_named_instead_of_made_up_at_random(llama):
    folder = llama()
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks 1 tensor\(s\): layers\.1\.mlp\.up_proj"):
        load(str(folder), LoadOptions())


def test_what_is_no_decoder_is_refused_in_one_line(llama, tmp_path):
    config = T5Config(vocab_size=len(WORDS), d_model=8, d_ff=8, num_layers=1, num_heads=1)
    T5Model(config).save_pretrained(tmp_path / "t5")
    save_tokenizer(tmp_path / "t5")
    (tmp_path / "empty").mkdir()
    for model, reason in (
        (tmp_path / "t5", "an encoder with a decoder"),
        (llama(eos=None), "has no EOS token"),
        (tmp_path / "empty", "does not load"),
        ("nobody/there-is-no-such-model", "does not load"),
        ("", "needs a model"),
    ):
        with pytest.raises(ModelError, match=reason) as error:
            load(str(model), LoadOptions())
        assert "\n" not in str(error.value)
