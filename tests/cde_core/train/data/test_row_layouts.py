from typing import Any

import pytest

from cde_core.train.data.pairs import Pair
from cde_core.train.data.row_layouts import NotAPair, pair_of


@pytest.mark.parametrize(
    ("row", "pair"),
    [
        # Our own.
        ({"query": "q", "document": "d"}, Pair("q", "d", (), "file")),
        (
            {"query": "q", "document": "d", "negatives": ["n", "m"], "domain": "x", "id": 7},
            Pair("q", "d", ("n", "m"), "x"),
        ),
        (
            {"query": "q", "document": "d", "negatives": None, "domain": None},
            Pair("q", "d", (), "file"),
        ),
        # nomic-embed-unsupervised-data and nomic-embed-supervised-data.
        (
            {"query": "q", "document": "d", "dataset": "squad", "shard": 3},
            Pair("q", "d", (), "squad"),
        ),
        (
            {"query": "q", "document": "d", "negative": ["n"], "dataset": "fever"},
            Pair("q", "d", ("n",), "fever"),
        ),
        # bge-full-data: the first positive is the document.
        (
            {"query": "q", "pos": ["d", "e"], "neg": ["n"], "prompt": "Find it.", "type": "normal"},
            Pair("q", "d", ("n",), "file"),
        ),
        (
            {"query": "q", "pos": ["d"], "neg": ["n"], "pos_scores": [2], "neg_scores": [0.5]},
            Pair("q", "d", ("n",), "file", scores=(2.0, 0.5)),
        ),
        # Reranking sets; triples of sentence-transformers; STS; inference; texts alone.
        (
            {"query": "q", "positive": ["d", "e"], "negative": ["n", "m"]},
            Pair("q", "d", ("n", "m"), "file"),
        ),
        ({"anchor": "a", "positive": "p", "negative": "n"}, Pair("a", "p", ("n",), "file")),
        (
            {"sentence1": "a", "sentence2": "b", "score": 4},
            Pair("a", "b", (), "file", score=4.0),
        ),
        ({"premise": "a", "hypothesis": "b", "label": 2}, Pair("a", "b", (), "file", label="2")),
    ],
)
def test_a_layout_is_known_by_its_columns(row: dict[str, Any], pair: Pair):
    assert pair_of(row, domain="file") == pair


def test_blank_negatives_are_left_out():
    row = {"query": "q", "document": "d", "negatives": ["", "n", " \n"]}
    assert pair_of(row, domain="").negatives == ("n",)
    scored = pair_of({**row, "scores": [4, 3, 2, 1]}, domain="")
    assert scored.negatives == ("n",) and scored.scores == (4.0, 2.0)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (["q", "d"], "this is a list, not an object"),
        ("q", "this is a str"),
        ({"question": "q", "answer": "d"}, r"columns query and document .*has question, answer"),
        ({"query": "q"}, "has query$"),
        ({}, "has none"),
        ({"query": None, "document": "d"}, "query must be a text, not None"),
        ({"query": "q", "document": 7}, "document must be a text, not 7"),
        ({"query": " \t", "document": "d"}, "query is empty"),
        ({"query": "q", "document": ""}, "document is empty"),
        ({"query": "q", "pos": []}, r"pos must be a list that begins with a text, not \[\]"),
        ({"query": "q", "pos": "d"}, "pos must be a list that begins with a text, not 'd'"),
        ({"query": "q", "pos": [None]}, "pos must be a text, not None"),
        ({"query": "q", "pos": [""]}, "pos is empty"),
        ({"query": "q", "document": "d", "negatives": "n"}, "negatives must be a list of texts"),
        ({"query": "q", "document": "d", "neg": ["n", 1]}, r"neg must be .* not \['n', 1\]"),
        ({"query": "q", "document": "d", "domain": 3}, "domain must be a text, not 3"),
        ({"query": "q", "document": "a\ud800"}, "document is no valid Unicode at character 1"),
        ({"query": "q", "document": "d" , "neg": ["\udc00"]}, "neg is no valid Unicode"),
        ({"query": "q", "document": "d", "neg": "n" * 99}, "not 'n{39}…$"),
        ({"query": "q", "document": "d", "score": "high"}, "score must be a number, not 'high'"),
        ({"query": "q", "document": "d", "score": float("nan")}, "score must be a number, not nan"),
        ({"query": "q", "document": "d", "label": 0.5}, "label must be a text or a whole number"),
        ({"query": "q", "document": "d", "label": True}, "label must be .* not True"),
        (
            {"query": "q", "document": "d", "negatives": ["n"], "scores": [1]},
            r"scores must be a list of 2 numbers, .* not \[1\]",
        ),
        ({"query": "q", "document": "d", "scores": [None]}, "scores must be a number, not None"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_row_is_said(row: object, why: str):
    with pytest.raises(NotAPair, match=why):
        pair_of(row, domain="file")
