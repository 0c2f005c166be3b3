import math

import numpy as np
import pytest

from cde_core.errors import TaskError
from cde_core.text import Purpose
from cde_eval.encoders.bm25 import K1, B, Bm25

DOCUMENTS = ["apple apple pear", "pear plum", "cherry lemon grape melon"]
SEARCH = Purpose("Retrieval", "document")


def scores(bm25: Bm25, query: str, context: object) -> dict[int, float]:
    ranking = bm25.rank([query], DOCUMENTS, top_k=3, context=context)
    return dict(zip(ranking.rows[0].tolist(), ranking.scores[0].tolist(), strict=True))


def saturated(tf: int, length: int) -> float:
    average = (3 + 2 + 4) / 3
    return tf / (K1 * (1 - B + B * length / average) + tf)


def test_with_the_corpus_as_context_it_is_bm25_by_hand():
    # "apple" is in 1 of 3 documents: idf = log(1 + 2.5 / 1.5); twice in the first, of 3 words.
    # "pear" is in 2 of 3: idf = log(1 + 1.5 / 2.5); once in the first and the second.
    apple, pear = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 2.5)
    bm25 = Bm25()
    found = scores(bm25, "apple pear", bm25.read_context(DOCUMENTS, purpose=SEARCH))
    expected = {
        0: apple * saturated(2, 3) + pear * saturated(1, 3),
        1: pear * saturated(1, 2),
        2: 0.0,
    }
    assert found == pytest.approx(expected, abs=1e-6)


def test_with_the_corpus_as_context_scores_are_those_of_bm25s_itself():
    import bm25s
    import Stemmer

    def tokens(texts: list[str]) -> list[list[str]]:
        return bm25s.tokenize(
            texts,
            stopwords="en",
            stemmer=Stemmer.Stemmer("english"),
            return_ids=False,
            show_progress=False,
        )

    index = bm25s.BM25(k1=K1, b=B, method="lucene")
    index.index(tokens(DOCUMENTS), show_progress=False)
    theirs = index.get_scores(tokens(["apples and pears, plums"])[0])
    bm25 = Bm25()
    context = bm25.read_context(DOCUMENTS, purpose=SEARCH)
    ours = scores(bm25, "apples and pears, plums", context)
    assert [ours[row] for row in range(3)] == theirs.tolist()  # to the bit


def test_without_context_every_term_weighs_one():
    found = scores(Bm25(), "apple pear", None)
    expected = {0: saturated(2, 3) + saturated(1, 3), 1: saturated(1, 2), 2: 0.0}
    assert found == pytest.approx(expected, abs=1e-6)


def test_in_other_documents_a_term_weighs_what_it_weighs_there():
    # There, "pear" is in none of 4 documents and "apple" in all 4.
    elsewhere = ["apple pie", "apple juice", "apple tree", "apple cake"]
    pear, apple = math.log(1 + 4.5 / 0.5), math.log(1 + 0.5 / 4.5)
    bm25 = Bm25()
    found = scores(bm25, "apple pear", bm25.read_context(elsewhere, purpose=SEARCH))
    expected = {
        0: apple * saturated(2, 3) + pear * saturated(1, 3),
        1: pear * saturated(1, 2),
        2: 0.0,
    }
    assert found == pytest.approx(expected, abs=1e-6)


def test_every_candidate_is_scored_however_low_it_ranks():
    # mteb's own BM25 scores a candidate only if it is in its global top k.
    ranking = Bm25().rank(
        ["apple", "lemon"],
        DOCUMENTS,
        top_k=2,
        candidates=[np.array([2, 1]), np.array([0])],
        context=None,
    )
    assert ranking.rows.tolist() == [[1, 2], [0, -1]]
    assert ranking.scores[0].tolist() == [0.0, 0.0]


def test_a_query_of_stop_words_scores_nothing():
    assert set(scores(Bm25(), "the of and", None).values()) == {0.0}


def test_documents_of_stop_words_score_nothing():
    found = Bm25().rank(["a word"], ["the of", "and"], top_k=2)
    assert found.scores.tolist() == [[0.0, 0.0]]


def test_it_says_that_it_embeds_nothing():
    with pytest.raises(TaskError, match="cannot do STS12"):
        Bm25().encode(["a"], purpose=Purpose("STS", task_name="STS12"))
