import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

import cde_core
from cde_core.errors import DataError, ModelError
from cde_core.model.reshape import without_what_is_not_pooled
from cde_eval.probes.position.filling import Span
from cde_eval.probes.position.passages import Passages
from cde_eval.probes.position.span_models import load_span_model
from cde_eval.probes.position.spans import probe_spans, spans_of_zone

WORDS = [f"w{number}" for number in range(60)]
DATA = Passages("words", [" ".join(WORDS[k:] + WORDS[:k]) for k in range(5)] + ["too short"], ())


class KnownFiller:
    """Right in the first half of the input; behind it, only the first token of every span."""

    name, revision, window = "tests/known", "1", 60

    def __init__(self):
        self.asked = 0

    def tokens(self, text):
        return np.array([int(word[1:]) if word[1:].isdigit() else 0 for word in text.split()])

    def fill(self, spans):
        self.asked += len(spans)
        return [
            span.truth if span.start < 30 else np.array([span.truth[0], -1, -1]) for span in spans
        ]


def test_a_model_of_known_accuracy_has_that_accuracy_zone_by_zone(tmp_path):
    frame = probe_spans("m", KnownFiller(), DATA, tmp_path, per_zone=40)
    share = (frame["right_tokens"] / frame["tokens"]).tolist()
    assert share == pytest.approx([1] * 5 + [1 / 3] * 5)
    assert frame["right_spans"].tolist() == [40] * 5 + [0] * 5
    assert frame["zone"].tolist() == list(range(1, 11))


def test_spans_lie_within_their_zone_and_reach_both_of_its_ends():
    texts = [np.arange(60)]
    for zone in range(1, 11):
        spans = spans_of_zone(texts, zone, 200, np.random.default_rng(0))
        first, end = 6 * (zone - 1), 6 * zone
        assert min(span.start for span in spans) == first
        assert max(span.start + span.length for span in spans) == end


def test_zones_that_are_done_are_not_asked_again(tmp_path):
    probe_spans("m", KnownFiller(), DATA, tmp_path, per_zone=10)
    again = KnownFiller()
    assert len(probe_spans("m", again, DATA, tmp_path, per_zone=10)) == 10
    assert again.asked == 0


def test_documents_and_windows_that_are_too_short_are_said(tmp_path):
    with pytest.raises(DataError, match="has the 61 tokens"):
        probe_spans("m", KnownFiller(), DATA, tmp_path, window=61)
    with pytest.raises(DataError, match="allow at least 30"):
        probe_spans("m", KnownFiller(), DATA, tmp_path, window=29)


def _tokenizer(**special):
    vocabulary = {word: number for number, word in enumerate([*special.values(), *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=WORDS[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    named = {name: token for name, token in special.items() if name != "extra"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **named), len(
        vocabulary
    )


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    tokenizer, size = _tokenizer(
        pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]"
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=size, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=64, initializer_range=0.5,
    )  # fmt: skip
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5")
    tokenizer, size = _tokenizer(pad_token="<pad>", eos_token="</s>", extra="<extra_id_0>")
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=size, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, initializer_factor=3.0,
    )  # fmt: skip
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _spans(model):
    whole, short = (model.tokens(" ".join(WORDS[:length])) for length in (40, 20))
    return [Span(whole, 0, 3), Span(short, 5, 3), Span(whole, 37, 3)]


def test_a_masked_model_fills_what_it_says_alone_and_unpadded(bert):
    model = load_span_model(str(bert))
    assert model.window == 62
    found = model.fill(_spans(model))
    for span, filled in zip(_spans(model), found, strict=True):
        masked = span.tokens.copy()
        masked[span.start : span.start + 3] = model.tokenizer.mask_token_id
        text = model.tokenizer.decode(masked)
        cls, sep = model.tokenizer.cls_token_id, model.tokenizer.sep_token_id
        ids = [cls, *model.tokenizer(text, add_special_tokens=False)["input_ids"], sep]
        with torch.inference_mode():
            logits = model.model(input_ids=torch.tensor([ids])).logits[0]
        assert filled.tolist() == logits[1 + span.start : 4 + span.start].argmax(-1).tolist()


def test_a_span_model_fills_what_it_would_generate(t5):
    model = load_span_model(str(t5))
    assert model.window == 63
    mark = model.tokenizer.convert_tokens_to_ids("<extra_id_0>")
    for span, filled in zip(_spans(model), model.fill(_spans(model)), strict=True):
        asked = [*span.tokens[: span.start], mark, *span.tokens[span.start + 3 :], 1]
        for number in range(3):
            begun = [0, mark, *span.truth[:number]]
            written = model.model.generate(
                torch.tensor([asked]),
                decoder_input_ids=torch.tensor([begun]),
                max_new_tokens=1,
                do_sample=False,
            )
            assert written[0, -1].item() == filled[number]


def test_a_t5_of_ours_fills_what_transformers_fills(t5, tmp_path):
    theirs = load_span_model(str(t5))
    encoder = cde_core.load(t5, device="cpu", cache=None)
    encoder.reader.tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    ours = load_span_model(str(cde_core.save(encoder, tmp_path / "ours")))
    assert ours.window == theirs.window == 63 and ours.name == "local/ours"
    spans = _spans(theirs)
    assert np.array_equal(_spans(ours)[0].tokens, spans[0].tokens)
    for mine, other in zip(ours.fill(spans), theirs.fill(spans), strict=True):
        assert mine.tolist() == other.tolist()


def test_a_text_encoder_of_ours_without_its_decoder_fills_in_nothing(t5, tmp_path):
    encoder = without_what_is_not_pooled(cde_core.load(t5, device="cpu", cache=None), "mean")
    cde_core.save(encoder, tmp_path / "ours")
    with pytest.raises(ModelError, match="fills in nothing: it is no T5 with its decoder"):
        load_span_model(str(tmp_path / "ours"))


def test_random_models_fill_in_about_as_well_everywhere(bert, t5, tmp_path):
    for folder in (bert, t5):
        model = load_span_model(str(folder))
        frame = probe_spans(folder.name, model, DATA, tmp_path, per_zone=3, window=30)
        assert (frame["right_tokens"] / frame["tokens"]).mean() < 0.3  # one of sixty by chance


def test_models_that_fill_in_nothing_are_said(bert, tmp_path):
    with pytest.raises(ModelError, match="No language model 'nobody/nothing'"):
        load_span_model("nobody/nothing")
    headless = tmp_path / "headless"
    BertModel(BertForMaskedLM.from_pretrained(bert).config).save_pretrained(headless)
    PreTrainedTokenizerFast.from_pretrained(bert).save_pretrained(headless)
    with pytest.raises(ModelError, match="has no weights for cls"):
        load_span_model(str(headless))
