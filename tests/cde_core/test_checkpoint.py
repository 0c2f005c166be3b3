import json
import resource
import shutil

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import cde_core
from cde_core.errors import ConfigError, ModelError
from cde_core.model.biencoder import Biencoder
from cde_core.model.checkpoint import export, load, save
from cde_core.model.config import ContextualConfig
from cde_core.model.contextual import ContextualEncoder
from cde_core.model.families import MODERNBERT_BASE, NOMIC_BERT_2048
from cde_core.model.published import contextual_config

from .conftest import BACKBONES, WORDS, shaken

TEXTS = ["the cat", "tax law : a court of law", "bread", ""]
DOCUMENTS = ["tax law court", "judge", "the king"]
V1 = {
    "architecture": "transductive",
    "embedder": "nomic-ai/nomic-bert-2048",
    "disable_dropout": True,
    "disable_transductive_rotary_embedding": True,
    "limit_layers": None,
    "logit_scale": 50.0,
    "max_seq_length": 512,
    "transductive_corpus_size": 512,
    "transductive_sequence_dropout_prob": 0.0,
    "transductive_tie_token_embeddings": False,
    "transductive_tokens_per_document": 1,
}


def embed(model):
    return model.encode_documents(TEXTS, model.read_context(DOCUMENTS))


def edit_config(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def edit_tensors(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize("family", BACKBONES)
@pytest.mark.parametrize(
    "settings", [{}, {"context_attention": "prefix", "context_bias_init": -4.0}], ids=str
)
def test_a_saved_model_comes_back_bit_for_bit(encoder, tmp_path, family, settings):
    model = encoder(family, null_context=True, residual_head=True, **settings)
    back = load(save(model, tmp_path))
    assert back.model.config == model.model.config
    np.testing.assert_array_equal(embed(back), embed(model))


@pytest.mark.parametrize("family", BACKBONES)
def test_a_model_in_the_published_format_comes_back_bit_for_bit(encoder, tmp_path, family):
    model = encoder(family, rotary_on_context=family == "modernbert", pool_instruction=False)
    back = load(export(model, tmp_path))
    np.testing.assert_array_equal(embed(back), embed(model))


def test_exported_tensors_have_their_published_names(encoder, tmp_path):
    names = set(load_file(export(encoder(null_context=True), tmp_path) / "model.safetensors"))
    assert {
        "first_stage_model.embedder.emb_ln.bias",
        "first_stage_model.embedder.encoder.layers.2.attn.Wqkv.weight",
        "first_stage_model.mlp.2.weight",
        "second_stage_model.backbone.encoder.layers.0.mlp.fc12.weight",
        "second_stage_model.prompt_projection.0.bias",
        "second_stage_model.output_projection.2.weight",
        "second_stage_model.sequence_dropout_null_embedding",
    } <= names


def test_prefix_attention_has_no_published_format(encoder, tmp_path):
    with pytest.raises(ModelError, match="joint"):
        export(encoder(context_attention="prefix"), tmp_path)


def test_spans_of_text_have_no_published_format_unless_there_is_only_one(encoder, tmp_path):
    with pytest.raises(ModelError, match="cuts padded documents"):
        export(encoder(tokens_per_document=2), tmp_path)
    export(encoder(tokens_per_document=2, spans_of="padded"), tmp_path)


def test_a_published_config_describes_cde_small_v1():
    config = contextual_config(V1, colon_id=1024)
    assert config == ContextualConfig(
        first=NOMIC_BERT_2048,
        second=NOMIC_BERT_2048,
        spans_of="padded",
        colon_id=1024,
        backbone_name="nomic-ai/nomic-bert-2048",
    )
    with torch.device("meta"):
        assert sum(p.numel() for p in ContextualEncoder(config).parameters()) == 281_140_992


def test_a_published_config_of_the_newer_code_adds_residual_and_instruction_mask():
    newer = {
        **V1,
        "embedder": "answerdotai/ModernBERT-base",
        "pool_ignore_contextual_tokens": True,
        "pool_ignore_instruction_tokens": True,
    }
    config = contextual_config(newer, colon_id=27)
    assert config.second == MODERNBERT_BASE and config.rotary_on_context
    assert config.residual_head and not config.pool_instruction and not config.pool_context


def test_limited_layers_are_read_from_a_published_config():
    config = contextual_config({**V1, "limit_layers": 6}, colon_id=None)
    assert (config.first.layers, config.second.layers) == (6, 6)


def test_what_is_saved_is_short_and_readable(encoder, tmp_path):
    save(encoder(), tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert '\n    "context_documents": 6,\n' in (tmp_path / "config.json").read_text()


def test_a_missing_tensor_is_named(encoder, tmp_path):
    save(encoder(), tmp_path)
    edit_tensors(tmp_path, lambda tensors: tensors.pop("backbone.layers.1.attention.out.weight"))
    with pytest.raises(ModelError, match=r"lacks backbone\.layers\.1\.attention\.out\.weight"):
        load(tmp_path)


def test_an_unexpected_tensor_is_named(encoder, tmp_path):
    save(encoder(), tmp_path)
    edit_tensors(tmp_path, lambda tensors: tensors.update(extra=torch.zeros(2)))
    with pytest.raises(ModelError, match="has extra"):
        load(tmp_path)


def test_a_tensor_of_another_shape_is_named(encoder, tmp_path):
    save(encoder(null_context=True), tmp_path)
    edit_tensors(tmp_path, lambda tensors: tensors.update(null_embedding=torch.zeros(2)))
    with pytest.raises(ModelError, match=r"null_embedding has shape \(2,\)"):
        load(tmp_path)


def test_missing_tensors_of_a_published_model_are_named(encoder, tmp_path):
    export(encoder(), tmp_path)
    name = "second_stage_model.backbone.emb_ln.weight"
    edit_tensors(tmp_path, lambda tensors: tensors.pop(name))
    with pytest.raises(ModelError, match=r"second_stage_model\.backbone lacks emb_ln\.weight"):
        load(tmp_path)


def test_broken_weights_and_missing_files_are_named(encoder, tmp_path):
    save(encoder(), tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ModelError, match="cannot be read"):
        load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has no model\.safetensors"):
        load(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelError, match=r"has no config\.json"):
        load(tmp_path)


def test_a_misspelt_setting_is_answered_with_the_nearest(encoder, tmp_path):
    save(encoder(), tmp_path)
    model = json.loads((tmp_path / "config.json").read_text())["model"]
    model["context_document"] = model.pop("context_documents")
    edit_config(tmp_path, model=model)
    with pytest.raises(ConfigError, match="Did you mean 'context_documents'"):
        load(tmp_path)


def test_what_cannot_be_written_is_one_line(encoder, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match=r"to .*file \(File exists\); make room .* another folder"):
        save(encoder(), tmp_path / "file")
    with pytest.raises(ModelError, match=r"below \(Not a directory\)"):
        export(encoder(), tmp_path / "file" / "below")


def test_where_there_is_no_room_that_is_one_line_too(encoder, tmp_path):
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, hard))  # less than the weights are
    try:
        with pytest.raises(ModelError, match="A model cannot be written to") as error:
            save(encoder(), tmp_path / "full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
    assert "\n" not in str(error.value) and not (tmp_path / "full" / "model.safetensors").exists()


def test_a_saved_tokenizer_is_as_its_library_writes_it(encoder, tmp_path):
    model = encoder()
    save(model, tmp_path)
    model.reader.tokenizer.save(str(tmp_path / "theirs.json"))
    expected = (tmp_path / "theirs.json").read_bytes()
    assert (tmp_path / "tokenizer.json").read_bytes() == expected


@pytest.mark.parametrize("name", ["/nowhere/at/all", "./nowhere", "no/such-model", "a b"])
def test_a_model_that_is_not_there_is_one_line(name, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError) as error:
        load(name)
    assert name in str(error.value) and "\n" not in str(error.value)


def test_an_unknown_precision_is_refused(encoder, tmp_path):
    with pytest.raises(ModelError, match="not a precision"):
        load(save(encoder(), tmp_path), dtype="int8")


def test_a_model_loaded_without_gradients_works_like_any_other(encoder, tmp_path):
    folder = save(encoder(), tmp_path)
    with torch.inference_mode():
        found = embed(load(folder))
    np.testing.assert_array_equal(found, embed(load(folder, cache=None)))


@pytest.mark.parametrize("mode", ["joint", "prefix"])
def test_a_compiled_model_gives_the_same(encoder, tmp_path, monkeypatch, mode):
    folder = save(encoder(context_attention=mode), tmp_path)
    compiled = load(folder, compile="eager")
    assert isinstance(compiled.model, ContextualEncoder)
    counted = torch._dynamo.utils.counters
    counted.clear()
    np.testing.assert_allclose(embed(compiled), embed(load(folder)), atol=1e-5)
    assert counted["stats"]["unique_graphs"] > 0
    assert not any("_orig_mod" in name for name in compiled.model.state_dict())


def test_a_folder_of_transformers_loads_as_an_encoder_without_context(tmp_path, tokenizer):
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=16,
    )
    torch.manual_seed(0)
    theirs = shaken(transformers.BertModel(config))
    theirs.save_pretrained(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    ours = cde_core.load(tmp_path)
    assert isinstance(ours.model, Biencoder) and ours.context_size == 0
    ids = torch.tensor([tokenizer.encode(TEXTS[1]).ids])
    expected = theirs(input_ids=ids).last_hidden_state.mean(1).detach().numpy()
    np.testing.assert_allclose(ours.encode([TEXTS[1]], normalise=False), expected, atol=1e-5)
    np.testing.assert_array_equal(load(save(ours, tmp_path)).encode(TEXTS), ours.encode(TEXTS))


def test_an_encoder_that_pools_otherwise_is_refused(minilm, tmp_path):
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(
        '{"pooling_mode_mean_sqrt_len_tokens": true}'
    )
    shutil.copy(f"{minilm}/config.json", tmp_path)
    with pytest.raises(ModelError, match="pooling_mode_mean_sqrt_len_tokens; we do mean"):
        load(tmp_path)


@pytest.mark.parametrize("pooling", ["max", "lasttoken", "weightedmean"])
def test_a_sentence_transformer_loads_with_its_pooling(pooling, tmp_path, tokenizer):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    shape = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    torch.manual_seed(0)
    theirs = shaken(BertModel(BertConfig(**shape, intermediate_size=48)))
    theirs.save_pretrained(tmp_path / "bert")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]")
    fast.save_pretrained(tmp_path / "bert")
    modules = [Transformer(str(tmp_path / "bert"), max_seq_length=32), Pooling(32, pooling)]
    sentences = SentenceTransformer(modules=modules, device="cpu")
    sentences.save(str(tmp_path / "sentences"))
    ours = cde_core.load(tmp_path / "sentences", device="cpu")
    assert ours.model.config.pooling == pooling
    expected = sentences.encode(TEXTS)
    np.testing.assert_allclose(ours.encode(TEXTS, normalise=False), expected, atol=1e-5)


def test_minilm_equals_sentence_transformers(minilm):
    from sentence_transformers import SentenceTransformer

    texts = ["A cat sat on the mat.", "", "Markets fell: rates rose.", "word " * 400]
    ours = cde_core.load(minilm, device="cpu").encode(texts)
    theirs = SentenceTransformer(minilm, device="cpu").encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
