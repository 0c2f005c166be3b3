import numpy as np

from cde_core.train.data.pairs import Pair, write_pairs
from cde_core.train.rivals import groups
from cde_core.train.rivals.groups import Group, rows_by_domain


def test_pairs_are_grouped_by_domain_in_their_order(pairs):
    found = dict(rows_by_domain(pairs, across_domains=False))
    assert found["b"].tolist() == list(range(0, 90, 3))
    assert sorted(np.concatenate(list(found.values())).tolist()) == list(range(90))
    ((name, rows),) = rows_by_domain(pairs, across_domains=True)
    assert name == "" and rows.tolist() == list(range(90))


def test_texts_are_numbered_as_they_first_come_however_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "TEXTS_AT_ONCE", 2)
    made = [Pair("q", "d"), Pair("other", "e"), Pair("q", "d"), Pair("q", "e"), Pair("", "f")]
    pairs = write_pairs(made, tmp_path / "some")
    group = Group.of(pairs, np.arange(1, 5), number=0, domain="")
    assert group.query_of.tolist() == [0, 1, 1, 2] and group.first_query.tolist() == [1, 2, 4]
    assert group.document_of.tolist() == [0, 1, 0, 2]
    assert group.queries(np.arange(3)) == ["other", "q", ""]
    assert group.documents(np.arange(3)) == ["e", "d", "f"]


def test_answers_are_all_documents_of_queries_with_the_same_text(pairs):
    group = Group.of(pairs, np.arange(90), number=0, domain="")
    every = np.tile(np.arange(len(group.first_document)), (90, 1))
    found = group.are_answers(np.arange(90), every)
    all_pairs = list(pairs)
    for row, pair in enumerate(all_pairs):
        answers = {other.document for other in all_pairs if other.query == pair.query}
        assert {
            text
            for text, is_one in zip(group.documents(every[row]), found[row], strict=True)
            if is_one
        } == answers
