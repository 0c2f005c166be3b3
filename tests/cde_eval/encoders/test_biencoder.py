import shutil

import numpy as np
import pytest
from mteb.models.abs_encoder import get_prompt_name
from mteb.types import PromptType
from safetensors.torch import load_file, save_file

from cde_core.errors import ModelError
from cde_core.text import Purpose
from cde_eval.encoders import LoadOptions, load_encoder
from cde_eval.encoders.biencoder import Biencoder, folder_revision
from cde_eval.vectors import unit_length

TEXTS = ["a cat", "the cat sat on the mat " * 30, "rain", "a cat", "tax law and its " * 8]


@pytest.fixture(scope="module")
def minilm(minilm_folder) -> Biencoder:
    encoder = load_encoder(f"biencoder:{minilm_folder}")
    assert isinstance(encoder, Biencoder)
    return encoder


def test_vectors_equal_those_of_sentence_transformers_in_the_order_of_the_texts(minilm):
    theirs = minilm.model.encode(TEXTS)
    assert minilm.encode(TEXTS, purpose=Purpose("STS")) == pytest.approx(theirs, abs=1e-6)


def test_a_text_met_before_is_remembered_and_its_vector_is_the_same(minilm):
    first = minilm.encode(["an unseen text", *TEXTS], purpose=Purpose("STS"))
    again = minilm.encode([*TEXTS, "an unseen text", "a new one"], purpose=Purpose("STS"))
    assert np.array_equal(first[1:], again[:5]) and np.array_equal(first[0], again[5])


class Task:
    """What mteb's own look-up of prompts needs of a task."""

    def __init__(self, name: str, task_type: str) -> None:
        self.name, self.type = name, task_type


@pytest.mark.parametrize(
    "keys",
    [
        ["query", "document"],
        ["STS", "query"],
        ["Retrieval-query", "Retrieval", "document"],
        ["NFCorpus", "Retrieval-query", "query"],
        ["NFCorpus-query", "NFCorpus"],
        [],
    ],
)
def test_prompts_are_chosen_as_mteb_chooses_them(minilm, monkeypatch, keys):
    monkeypatch.setattr(minilm.model, "prompts", {key: f"<{key}> " for key in keys})
    for name, kind in (("NFCorpus", "Retrieval"), ("STS12", "STS")):
        for role, prompt_type in (
            ("query", PromptType.query),
            ("document", PromptType.document),
            ("text", None),
        ):
            chosen = get_prompt_name(minilm.model.prompts, Task(name, kind), prompt_type)
            theirs = minilm.model.prompts.get(chosen)
            assert minilm.prompt_for(Purpose(kind, role, name)) == theirs


def test_the_prompt_reaches_the_model(minilm, monkeypatch):
    monkeypatch.setattr(minilm.model, "prompts", {"query": "query: "})
    vectors = minilm.encode(["rain"], purpose=Purpose("Retrieval", "query"))
    theirs = minilm.model.encode(["query: rain"], prompt="")
    assert vectors == pytest.approx(theirs, abs=1e-6)


def test_bfloat16_is_close_comes_back_as_float32_and_is_recorded(minilm, minilm_folder):
    fast = load_encoder(f"biencoder:{minilm_folder}", LoadOptions(dtype="bfloat16"))
    vectors = fast.encode(TEXTS, purpose=Purpose("STS"))
    exact = minilm.encode(TEXTS, purpose=Purpose("STS"))
    assert vectors.dtype == np.float32
    assert (unit_length(vectors) * exact).sum(axis=1).min() > 0.999
    assert fast.settings == {"dtype": "bfloat16"}


def test_a_missing_tensor_is_named_instead_of_made_up_at_random(minilm_folder, tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(minilm_folder, folder)
    tensors = load_file(folder / "model.safetensors")
    del tensors["encoder.layer.3.attention.self.query.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks 1 tensor.*layer\.3\.attention\.self\.query"):
        load_encoder(str(folder))


def test_the_revision_of_a_folder_is_its_content(tmp_path):
    for name, content in (("a", "x"), ("b", "x"), ("c", "y")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text(content)
    a, b, c = (folder_revision(tmp_path / name) for name in "abc")
    assert a == b != c
