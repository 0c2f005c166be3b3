"""Mined negatives against a loop over all scores, and against sentence-transformers' own."""

import numpy as np
import pytest

from cde_core.errors import ConfigError
from cde_core.train.data.pairs import Pair, write_pairs
from cde_core.train.rivals import each_pair, mining
from cde_core.train.rivals.judges import SurrogateJudge
from cde_core.train.rivals.mining import Mining, mined_in_cache, with_negatives
from tests.cde_core.conftest import WORDS


def found(pairs, surrogate, tmp_path, **settings):
    judge = SurrogateJudge(surrogate)
    return mined_in_cache(pairs, judge, Mining(**settings), cache=tmp_path)


def texts_of(pairs, negatives):
    return [pair.negatives for pair in with_negatives(pairs, negatives)]


def by_hand(pairs, letters, *, negatives, depth, margin):
    """Documents of the domain by score; without answers, and those above the bar."""
    vectors, all_pairs = {}, list(pairs)
    for pair in all_pairs:
        for text in (pair.query, pair.document):
            vectors[text] = letters().encode([text], "query")[0].astype(float)
    expected = []
    for pair in all_pairs:
        domain = [p for p in all_pairs if p.domain == pair.domain]
        answers = {p.document for p in domain if p.query == pair.query}
        score = {p.document: float(vectors[pair.query] @ vectors[p.document]) for p in domain}
        best = sorted(score, key=lambda text: -score[text])[:depth]
        bar = score[pair.document] + (np.inf if margin is None else margin)
        expected.append(tuple(t for t in best if t not in answers and score[t] < bar)[:negatives])
    return expected


@pytest.mark.parametrize("margin", [None, -0.1, 0.2])
@pytest.mark.parametrize(("negatives", "depth"), [(3, 10), (9, 200)])
def test_finds_what_a_loop_over_all_scores_finds(
    pairs, letters, tmp_path, negatives, depth, margin
):
    asked = {"negatives": negatives, "depth": depth, "margin": margin}
    rows = found(pairs, letters(), tmp_path, **asked)
    expected = by_hand(pairs, letters, **asked)
    assert texts_of(pairs, rows) == expected
    assert {len(one) for one in expected} & set(range(1, negatives + 1))


@pytest.mark.parametrize("margin", [None, 0.1])
def test_finds_what_sentence_transformers_finds(tmp_path, tokenizer, margin):
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
    from sentence_transformers.util import mine_hard_negatives

    rng = np.random.default_rng(0)
    weights = rng.normal(size=(len(WORDS), 16)).astype(np.float32)
    table = StaticEmbedding(tokenizer, embedding_weights=weights)
    model = SentenceTransformer(modules=[table, Normalize()], device="cpu")
    words = WORDS[9:]
    made = [Pair(" ".join(rng.choice(words, 3)), " ".join(rng.choice(words, 5))) for _ in range(60)]
    made += [Pair(pair.query, " ".join(rng.choice(words, 5))) for pair in made[:10]]
    pairs = write_pairs(made, tmp_path / "words")

    class Theirs:
        fingerprint = "theirs"

        def encode(self, texts, side):
            return model.encode(texts)

    expected = mine_hard_negatives(
        Dataset.from_dict({"q": [p.query for p in made], "d": [p.document for p in made]}),
        model,
        range_max=70,
        num_negatives=4,
        absolute_margin=margin,
        output_format="n-tuple",
        verbose=False,
    )
    ours = found(pairs, Theirs(), tmp_path, negatives=4, depth=70, margin=margin and -margin)
    mined = {(pair.query, pair.document): pair.negatives for pair in with_negatives(pairs, ours)}
    # With a margin, theirs compares with the best answer to a query, ours with the pair's own.
    several = {pair.query for pair in made[:10]} if margin else ()
    rows = [row for row in expected if row["q"] not in several]
    assert len(rows) > 20
    for row in rows:
        assert mined[row["q"], row["d"]] == tuple(row[f"negative_{i}"] for i in range(1, 5))


def test_a_draw_is_of_the_documents_that_rank_high_and_does_not_depend_on_the_pieces(
    pairs, letters, tmp_path, monkeypatch
):
    some = {"negatives": 3, "depth": 9}
    all_of_them = by_hand(pairs, letters, negatives=9, depth=9, margin=None)
    drawn = found(pairs, letters(), tmp_path / "one", choose="drawn", **some)
    for chosen, those in zip(texts_of(pairs, drawn), all_of_them, strict=True):
        assert len(chosen) == min(3, len(those))
        assert [text for text in those if text in chosen] == list(chosen)
    highest = found(pairs, letters(), tmp_path, **some)
    other = found(pairs, letters(), tmp_path / "one", choose="drawn", seed=1, **some)
    assert not np.array_equal(drawn, highest) and not np.array_equal(drawn, other)
    monkeypatch.setattr(each_pair, "PAIRS_AT_ONCE", 11)
    again = found(pairs, letters(), tmp_path / "two", choose="drawn", **some)
    assert np.array_equal(again, drawn)


def test_a_killed_search_goes_on_where_it_was(pairs, letters, tmp_path, monkeypatch):
    monkeypatch.setattr(each_pair, "PAIRS_AT_ONCE", 7)
    expected = found(pairs, letters(), tmp_path / "whole")
    searched, search = [], mining.highest

    def dies(queries, *rest):
        if len(searched) == 5:
            raise KeyboardInterrupt
        searched.append(len(queries))
        return search(queries, *rest)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(mining, "highest", dies)
        found(pairs, letters(), tmp_path / "killed")
    again = []
    monkeypatch.setattr(
        mining, "highest", lambda q, *rest: again.append(len(q)) or search(q, *rest)
    )
    assert np.array_equal(found(pairs, letters(), tmp_path / "killed"), expected)
    assert len(searched) == 5 and sum(searched) + sum(again) == 90


def test_everything_else_of_a_pair_stays(pairs, letters, tmp_path):
    rows = found(pairs, letters(), tmp_path)
    written = write_pairs(with_negatives(pairs, rows), tmp_path / "with")
    for before, after in zip(pairs, written, strict=True):
        assert (before.query, before.document, before.domain) == (
            *(after.query, after.document),
            after.domain,
        )
        assert "old negative" not in after.negatives and after.negatives


def test_a_pair_alone_in_its_domain_has_no_negatives(tmp_path, letters):
    pairs = write_pairs([Pair("q", "d", domain="a"), Pair("r", "e", domain="b")], tmp_path / "two")
    assert (found(pairs, letters(), tmp_path) == -1).all()
    assert texts_of(pairs, found(pairs, letters(), tmp_path)) == [(), ()]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"negatives": 0}, "negatives is 0"),
        ({"depth": 9}, "depth is 9, but 9 negatives beside an answer need at least 10"),
        ({"margin": float("nan")}, "such as -0.05"),
    ],
)
def test_what_cannot_be_asked_is_said(settings, said):
    with pytest.raises(ConfigError, match=said):
        Mining(**settings)
