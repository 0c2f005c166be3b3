"""Two crops of every text: how long, from where, and the same again."""

import gzip
import json
import math

import numpy as np
import pandas
import pytest

from cde_core.errors import ConfigError, DataError
from cde_core.train.data.crops import two_crops
from cde_core.train.data.source_kinds import source_named, texts_named
from cde_core.train.data.sources import prepare_pairs

WORDS = [f"word{number}" for number in range(100)]
TEXT = " ".join(WORDS)


def test_crops_are_spans_of_ten_to_fifty_percent_as_they_stand_in_the_text():
    text = TEXT.replace("word7 ", "word7\n\n  ")
    for seed in range(200):
        for crop in two_crops(text, seed=seed):
            assert crop in text and crop == crop.strip()
            assert 10 <= len(crop.split()) <= 50


def test_lengths_and_starts_are_uniform_and_the_two_are_independent():
    both = [[crop.split() for crop in two_crops(TEXT, seed=seed)] for seed in range(4000)]
    lengths = np.array([[len(crop) for crop in pair] for pair in both])
    starts = np.array([[int(crop[0].removeprefix("word")) for crop in pair] for pair in both])
    # Uniform on [10, 50]: mean 30, standard deviation 40 / √12.
    assert lengths.mean() == pytest.approx(30, abs=4 * 40 / math.sqrt(12 * 8000))
    shares = starts / (100 - lengths)  # uniform on [0, 1]: mean 1/2, standard deviation 1 / √12
    assert shares.mean() == pytest.approx(0.5, abs=4 / math.sqrt(12 * 8000))
    for values in (lengths, starts):
        assert abs(np.corrcoef(values.T)[0, 1]) < 4 / math.sqrt(4000)


def test_crops_follow_from_the_text_and_the_seed():
    assert two_crops(TEXT, seed=1) == two_crops(TEXT, seed=1) != two_crops(TEXT, seed=2)
    assert two_crops(TEXT, seed=1) != two_crops(TEXT + " more", seed=1)
    assert two_crops(" ".join(WORDS[:9]), seed=1) is None


@pytest.fixture
def corpus(tmp_path):
    """A BEIR folder without judgements for training."""
    folder = tmp_path / "letters"
    (folder / "qrels").mkdir(parents=True)
    rows = [
        {"_id": "1", "title": "Title", "text": TEXT},
        {"_id": "2", "text": "too short"},
        {"_id": "3", "title": "", "text": ""},
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "queries.jsonl").write_text("")
    return folder


def test_the_texts_of_a_corpus_are_its_documents_with_titles(corpus):
    texts = [(text.domain, text.text) for text in texts_named(str(corpus)).read()]
    assert texts == [("letters", f"Title {TEXT}"), ("letters", "too short")]


def test_crops_of_a_corpus_are_pairs_of_its_domain(corpus, tmp_path):
    prepared = prepare_pairs([f"crops:{corpus}"], cache=tmp_path / "cache")
    assert len(prepared.pairs) == 1 and prepared.pairs.domains == ("letters",)
    pair = prepared.pairs[0]
    assert (pair.query, pair.document) == two_crops(f"Title {TEXT}", seed=0)
    assert prepare_pairs([f"crops:{corpus}"], cache=tmp_path / "cache").pairs.digest == (
        prepared.pairs.digest
    )


def test_a_document_of_several_pairs_is_one_text(tmp_path):
    file = tmp_path / "pairs.jsonl.gz"
    rows = [{"query": q, "document": TEXT} for q in "ab"] + [{"query": "c", "document": "other"}]
    with gzip.open(file, "wt") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)
    folder = tmp_path / "folder"
    folder.mkdir()
    file.rename(folder / file.name)
    assert [text.text for text in texts_named(str(folder)).read()] == [TEXT, "other"]
    assert len(list(source_named(f"crops:{folder}").read())) == 1


@pytest.fixture
def titled(tmp_path):
    """Texts with and without a title, a blank one and a copy."""
    file = tmp_path / "folder" / "x.jsonl"
    file.parent.mkdir()
    rows = [("Title", TEXT), ("", "other"), ("", " "), ("", "other")]
    made = ({"_id": i, "title": title, "text": text} for i, (title, text) in enumerate(rows))
    file.write_text("".join(json.dumps(row) + "\n" for row in made))
    return file


def test_texts_are_the_same_in_a_file_in_a_folder_and_in_parquet(titled, tmp_path):
    whole = pandas.read_json(titled, lines=True)
    whole.to_parquet(tmp_path / "x.parquet")
    texts = list(texts_named(str(titled)).read())
    assert [text.text for text in texts] == [f"Title {TEXT}", "other", "other"]
    for name in (titled.parent, tmp_path / "x.parquet"):
        assert list(texts_named(str(name)).read()) == texts
        (crops,) = source_named(f"crops:{name}").read()
        assert (crops.query, crops.document) == two_crops(f"Title {TEXT}", seed=0)


def test_an_empty_name_is_not_the_folder_at_hand(titled, tmp_path, monkeypatch):
    monkeypatch.chdir(titled.parent)
    for name in ("", "crops:", "crops:crops:"):
        with pytest.raises(ConfigError, match=r"data\.sources has a name that is empty"):
            prepare_pairs([name], cache=tmp_path / "cache")


def test_rows_of_text_and_what_is_wrong_with_others(tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text(json.dumps({"text": TEXT}) + "\n\n{broken\n" + '{"name": 1}\n')
    with pytest.raises(DataError, match=r"texts\.jsonl, line 3: this is not JSON"):
        prepare_pairs([f"crops:{file}"], cache=tmp_path / "cache")
    kept = prepare_pairs([f"crops:{file}"], skip_bad_rows=True, cache=tmp_path / "cache")
    assert len(kept.pairs) == 1 and kept.bad_rows == 2 and kept.pairs.domains == ("texts",)
