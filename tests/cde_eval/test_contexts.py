import hashlib
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cde_core.errors import CdeError, ConfigError, ContextError
from cde_eval.contexts import (
    ContextPolicy,
    Sample,
    draw_sample,
    file_documents,
    titled,
)
from cde_eval.protocols import AUTHOR, MTEB, PAPER, Protocol

POOL = [f"document {number}" for number in range(10)]


def draw(
    size: int | None,
    *,
    pool: list[str] = POOL,
    key: str = "NFCorpus\0test\0default",
    seed: int = 42,
    protocol: Protocol = PAPER,
) -> Sample:
    return draw_sample(pool, size, source="corpus:x", key=key, seed=seed, protocol=protocol)


# What is drawn


@pytest.mark.parametrize("size", [1, 5, 10])
def test_no_document_comes_twice_while_the_pool_lasts(size: int):
    for seed in range(20):
        sample = draw(size, seed=seed)
        assert len(set(sample.documents)) == len(sample.documents) == size
        assert set(sample.documents) <= set(POOL)
        assert not sample.with_replacement


@pytest.mark.parametrize("size", [11, 25])
def test_a_pool_that_is_too_small_gives_every_document_once_and_then_more(size: int):
    sample = draw(size)
    assert sorted(sample.documents[:10]) == POOL
    assert set(sample.documents[10:]) <= set(POOL)
    assert len(sample.documents) == size
    assert sample.with_replacement
    assert sample.record()["with_replacement"] is True


def test_the_draw_is_fair():
    # 2,000 draws of 2 out of 5: each document is expected 2000 · 2/5 = 800 times, with a standard
    # deviation of sqrt(2000 · 0.4 · 0.6) = 21.9.
    drawn = Counter(
        document for seed in range(2000) for document in draw(2, pool=POOL[:5], seed=seed).documents
    )
    assert sum(drawn.values()) == 4000
    assert all(abs(drawn[document] - 800) < 4 * 21.9 for document in POOL[:5])


def test_no_size_means_the_whole_pool_in_its_order():
    for protocol in (PAPER, AUTHOR, MTEB):
        sample = draw(None, protocol=protocol)
        assert sample.documents == tuple(POOL)
        assert not sample.with_replacement


def test_documents_that_read_alike_are_drawn_as_two():
    assert draw(2, pool=["same", "same"]).documents == ("same", "same")


def test_an_empty_pool_says_what_to_do():
    with pytest.raises(ContextError, match=r"corpus:x has no documents.*--context none") as error:
        draw(3, pool=[])
    assert "\n" not in str(error.value)


# What a draw depends on


def test_the_same_draw_gives_the_same_documents():
    assert draw(5) == draw(5)


@pytest.mark.parametrize(
    "key",
    ["SciFact\0test\0default", "NFCorpus\0dev\0default", "NFCorpus\0test\0deu"],
    ids=["task", "split", "subset"],
)
def test_another_task_split_or_subset_gives_another_draw(key: str):
    pool = [str(number) for number in range(1000)]
    assert draw(8, pool=pool).documents != draw(8, pool=pool, key=key).documents


def test_another_seed_gives_another_draw():
    pool = [str(number) for number in range(1000)]
    samples = {draw(8, pool=pool, seed=seed).documents for seed in range(50)}
    assert len(samples) == 50


def test_a_key_that_ends_in_a_digit_is_not_another_seed():
    # Seed and key are told apart: (1, "1x") and (11, "x") must not be hashed as one string.
    assert draw(9, seed=1, key="1x").documents != draw(9, seed=11, key="x").documents


def test_tasks_draw_alike_in_any_order_and_whatever_else_is_drawn():
    alone = draw(5, key="B").documents
    np.random.seed(0)  # noqa: NPY002
    draw(7, key="A")
    assert draw(5, key="B").documents == alone
    np.random.seed(1)  # noqa: NPY002
    assert draw(5, key="B").documents == alone


# Other protocols


@pytest.mark.parametrize("size", [1, 7, 10, 11, 30])
def test_the_mteb_protocol_draws_what_mtebs_wrapper_for_cde_draws(size: int):
    # cde_models.py: rng = np.random.default_rng(42); rng.choice(..., replace=len < size)
    theirs = np.random.default_rng(42).choice(POOL, size=size, replace=len(POOL) < size)
    ours = draw(size, protocol=MTEB, seed=42)
    assert ours.documents == tuple(theirs.tolist())
    assert ours.with_replacement == (size > 10)


def test_under_the_mteb_protocol_all_tasks_draw_from_one_stream():
    assert draw(5, protocol=MTEB, key="A").documents == draw(5, protocol=MTEB, key="B").documents


def test_the_author_protocol_may_repeat_a_document_although_there_are_enough():
    samples = [draw(10, protocol=AUTHOR, seed=seed) for seed in range(20)]
    assert all(sample.with_replacement and len(sample.documents) == 10 for sample in samples)
    # Ten of ten without a repetition has the probability 10!/10^10 = 0.00036.
    assert all(len(set(sample.documents)) < 10 for sample in samples)


def test_the_author_protocol_tells_tasks_apart():
    assert (
        draw(9, protocol=AUTHOR, key="A").documents != draw(9, protocol=AUTHOR, key="B").documents
    )


# What a result says about its context


def test_the_record_names_the_documents_by_their_hash():
    sample = Sample(("a", "b"), "corpus:x", pool=7, seed=43, with_replacement=False)
    assert sample.record() == {
        "source": "corpus:x",
        "documents": 2,
        "pool": 7,
        "seed": 43,
        "with_replacement": False,
        "sha256": hashlib.sha256(b"a\0b").hexdigest(),
    }


def test_the_record_tells_the_order_of_documents_and_where_they_end():
    def digest(*documents: str) -> str:
        return Sample(documents, "x", 2, 0, False).record()["sha256"]

    assert len({digest("a", "b"), digest("b", "a"), digest("ab"), digest("a b")}) == 4


def test_a_text_that_utf8_cannot_write_has_a_record_too():
    assert len(Sample(("\ud800",), "x", 1, 0, False).record()["sha256"]) == 64


# Policies


def test_a_policy_is_split_at_its_first_colon():
    policy = ContextPolicy("task:Docs:Numpy")
    assert (policy.kind, policy.argument) == ("task", "Docs:Numpy")


@pytest.mark.parametrize("source", ["corpus", "random", "none", "task:NFCorpus"])
def test_the_known_policies_are_taken(source: str):
    assert ContextPolicy(source, size=1).source == source


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("corpsu", r"There is no context 'corpsu'\. Did you mean 'corpus'\?"),
        (
            "",
            "There is no context ''.*one of corpus, candidates, random, none, task:",
        ),
        ("corpus:x", "'corpus:x' cannot be read; write one of corpus"),
        ("task", "'task' cannot be read; write one of .*task:NAME"),
        ("task:", "'task:' cannot be read"),
        ("file", "'file' cannot be read"),
    ],
)
def test_a_policy_that_cannot_be_read_is_answered_with_those_that_can(source: str, message: str):
    with pytest.raises(ConfigError, match=message) as error:
        ContextPolicy(source)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_known_before_work_starts(tmp_path: Path):
    with pytest.raises(ContextError, match=r"does not exist; give a text file.*JSONL.*BEIR"):
        ContextPolicy(f"file:{tmp_path / 'notes.txt'}")
    (tmp_path / "notes.txt").write_text("one\n")
    assert ContextPolicy(f"file:{tmp_path / 'notes.txt'}").kind == "file"


@pytest.mark.parametrize("size", [0, -3])
def test_a_context_of_no_documents_is_asked_for_by_name(size: int):
    with pytest.raises(ConfigError, match=f"context of {size} documents.*--context none"):
        ContextPolicy("corpus", size=size)


# Documents of a file


def test_a_text_file_has_a_document_on_each_line(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_bytes("first line\r\n\n   \nzweite Zeile: größer\nlast without an end".encode())
    assert file_documents(path) == ["first line", "zweite Zeile: größer", "last without an end"]


def test_a_jsonl_document_is_its_title_and_its_text(tmp_path: Path):
    path = tmp_path / "notes.jsonl"
    rows = [
        {"title": "Bread", "text": "flour and water"},
        {"title": "", "text": " no title "},
        {"title": None, "text": "null title"},
        {"text": "only text", "other": 1},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    assert file_documents(path) == ["Bread flour and water", "no title", "null title", "only text"]


def test_a_beir_folder_gives_its_corpus(tmp_path: Path):
    (tmp_path / "corpus.jsonl").write_text('{"_id": "1", "title": "A", "text": "b"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "never read"}\n')
    assert file_documents(tmp_path) == ["A b"]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0c", "\x1e"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, mark: str):
    # Python's str.splitlines also splits at these, and JSON allows them inside a string.
    text = f"one{mark}document"
    jsonl = tmp_path / "notes.jsonl"
    as_json = json.dumps(text, ensure_ascii=False)
    jsonl.write_text(f'{{"text": {as_json}}}\n', encoding="utf-8")
    assert file_documents(jsonl) == [text]
    plain = tmp_path / "notes.txt"
    plain.write_text(f"{text}\n", encoding="utf-8")
    assert file_documents(plain) == [text]


@pytest.mark.parametrize(
    "line",
    ['{"text": "cut off', '{"body": "no text"}', '"a string"', "[1]", '{"text": null}', "17"],
)
def test_a_broken_line_is_named_by_file_and_number(tmp_path: Path, line: str):
    path = tmp_path / "notes.jsonl"
    path.write_text(f'{{"text": "fine"}}\n\n{line}\n')
    with pytest.raises(ContextError, match=r"notes\.jsonl, line 3: not a JSON object"):
        file_documents(path)


def test_a_file_that_is_not_text_is_named(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"fine\n\xff\xfe\x00")
    with pytest.raises(CdeError, match=r"notes\.txt"):
        file_documents(path)


def test_a_folder_without_a_corpus_is_not_a_beir_folder(tmp_path: Path):
    with pytest.raises(ContextError, match=r"corpus\.jsonl does not exist.*BEIR folder"):
        file_documents(tmp_path)


@pytest.mark.parametrize(
    ("title", "text", "document"),
    [
        ("Bread", "flour", "Bread flour"),
        ("", "flour", "flour"),
        (None, "flour", "flour"),
        ("Bread", "", "Bread"),
        (" Bread ", " flour ", "Bread   flour"),
    ],
)
def test_a_title_stands_before_its_text_once(title: str | None, text: str, document: str):
    assert titled(title, text) == document
