"""A decoder that embeds (RepLLaMA's kind), tiny and random, passes through the same probes."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from cde_core.text import Purpose
from cde_eval.encoders import LoadOptions
from cde_eval.encoders.decoder import load
from cde_eval.probes.position.moved import MovedPassages, probe_moved
from cde_eval.probes.position.reading import reader_of, words
from cde_eval.probes.position.tenths import probe_tenths, tenths

from .counting_encoder import NOTHING_READ, numbered_passages

DATA = numbered_passages()
WORDS = ["<pad>", "<s>", "</s>", "<unk>", "query", "passage", ":"]
WORDS += [f"w{number:04}" for number in range(800)]
START, END, READ = 1, 2, 128  # tokens that it reads of a text


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    config = LlamaConfig(
        vocab_size=len(WORDS), num_hidden_layers=2, max_position_embeddings=READ, hidden_size=32,
        intermediate_size=48, num_attention_heads=4,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    with torch.no_grad():  # at its usual size, a random model says almost the same of all texts
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    model.save_pretrained(folder)
    numbers = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(numbers, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(":", "isolated")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", START)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        pad_token="<pad>",
    ).save_pretrained(folder)  # fmt: skip
    return folder


def by_hand(folder, text, role="passage"):
    """Last row of the last layer of one text."""
    ids = [START, *(WORDS.index(word) for word in [role, ":", *text.split()])][: READ - 1]
    with torch.no_grad():
        rows = AutoModel.from_pretrained(folder).eval()(input_ids=torch.tensor([[*ids, END]]))
    return rows.last_hidden_state[0, -1].numpy()


def test_tenths_are_compared_as_one_text_at_a_time_is(llama, tmp_path):
    encoder = load(str(llama), LoadOptions())
    frame = probe_tenths("d", encoder, DATA, [NOTHING_READ], tmp_path)
    assert len(frame) == 40
    found = frame[frame["document"] == 1].sort_values("tenth")["cosine"].tolist()
    text = DATA.documents[1]
    spans = (reader_of(encoder, Purpose("Retrieval", "document")) or words)(text)
    whole = by_hand(llama, text[: spans[-1][1]])
    parts = [by_hand(llama, part, "query") for part in tenths(text, spans)]
    cosines = [whole @ part / np.linalg.norm(whole) / np.linalg.norm(part) for part in parts]
    assert found == pytest.approx(cosines, abs=1e-4)


def test_a_passage_beyond_what_it_reads_changes_nothing_and_is_said_to_be_unread(llama, tmp_path):
    frame = probe_moved(
        "d", load(str(llama), LoadOptions()), MovedPassages(data=DATA), [NOTHING_READ], tmp_path
    )
    read = frame.groupby("place")["read"].mean()
    assert len(frame) == 44 and read[1] == 1 and read[9] == read[10] == 0
    last = frame[frame["place"].isin([9, 10])].groupby("query")["mrr_at_100"].nunique()
    assert (last == 1).all()  # what it reads is the same, and so is its rank
