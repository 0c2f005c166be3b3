import json
from types import SimpleNamespace

import pytest

from cde_core.errors import DataError
from cde_eval.probes.position import pages
from cde_eval.probes.position.folders import folder_passages
from cde_eval.probes.position.inputs import find_passages
from cde_eval.probes.position.msmarco import found_passages
from cde_eval.probes.position.passages import Passage, Passages, in_sections
from cde_eval.tasks.documentation import DocPair, Documentation


def _write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, rows in files.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
    return folder


DOCUMENTS = [{"_id": "d1", "text": "one two three"}, {"_id": "d2", "text": "four five"}]


def test_a_folder_of_ones_own_is_read(tmp_path):
    asked = {"id": "q", "query": "which?", "document": "d2", "start": 5, "end": 9}
    data = folder_passages(_write(tmp_path / "mine", documents=DOCUMENTS, passages=[asked]))
    assert data.name == "mine"
    assert data.passages == (Passage("q", "which?", 1, 5, 9),)
    assert data.documents[1][5:9] == "five"


def test_the_files_of_qmsum_give_questions_with_one_span_only(tmp_path):
    rows = [
        {"id": "a", "query": "one?", "meeting": "d1", "char_spans": [[4, 7]]},
        {"id": "b", "query": "two?", "meeting": "d1", "char_spans": [[0, 3], [4, 7]]},
        {"id": "c", "query": "elsewhere?", "meeting": "d9", "char_spans": [[0, 3]]},
    ]
    data = folder_passages(_write(tmp_path / "qmsum", meetings=DOCUMENTS, positions=rows))
    assert [passage.id for passage in data.passages] == ["a"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": "q", "query": "?", "document": "d2", "start": 5, "end": 10}, "line 1: characters"),
        ({"id": "q", "query": "?", "document": "d2", "start": 5}, "line 1: no offsets"),
        ({"id": "q", "document": "d2", "start": 5, "end": 9}, "line 1: there is no 'query'"),
        ({"id": "q", "query": "?", "document": "d9", "start": 0, "end": 1}, "has no passage"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(tmp_path, row, says):
    with pytest.raises(DataError, match=says):
        folder_passages(_write(tmp_path / "bad", documents=DOCUMENTS, passages=[row]))


def test_unknown_data_is_said_in_one_line(tmp_path):
    with pytest.raises(DataError, match="it is no folder"):
        find_passages(str(tmp_path / "nothing"))
    with pytest.raises(DataError, match=r"needs documents\.jsonl and passages\.jsonl"):
        find_passages(str(tmp_path))


def test_squad_paragraphs_are_where_the_file_says(shared_data):
    data = find_passages(str(shared_data / "positions" / "squad"))
    assert (len(data.documents), len(data.passages)) == (48, 10_570)
    first = data.passages[0]
    assert data.documents[first.document][first.start :].startswith("The 1973 oil crisis began")


def test_sections_are_cut_between_paragraphs_and_keep_their_passages():
    text = "aaaa\n\nbb\n\nbb\n\ncccc\n\ndd"
    asked = Passage("q", "?", 0, text.index("bb"), text.index("\n\ncccc"))  # of two paragraphs
    cut = in_sections(Passages("d", [text], (asked,)), 12)
    # "aaaa\n\nbb\n\nbb" would have 12, "bb\n\nbb\n\ncccc" also 12: taken as they come
    assert cut.documents == ["aaaa\n\nbb\n\nbb", "cccc\n\ndd"]
    (found,) = cut.passages
    assert cut.documents[found.document][found.start : found.end] == "bb\n\nbb"


def test_a_passage_longer_than_a_section_stays_whole():
    text = "aaaa\n\nbbbbbbbbbbbbbbbb\n\ncc"
    asked = Passage("q", "?", 0, 6, 22)
    cut = in_sections(Passages("d", [text], (asked,)), 8)
    assert cut.documents == ["aaaa", "b" * 16, "cc"]


def test_queries_come_from_as_many_documents_as_possible():
    passages = tuple(Passage(f"q{n}", "?", n // 5, 0, 1) for n in range(20))  # 5 of each of 4
    data = Passages("d", ["text"] * 4, passages)
    assert sorted(one.document for one in data.chosen(4).passages) == [0, 1, 2, 3]
    assert data.chosen(9) == data.chosen(9)
    assert data.chosen(99) is data


def test_a_passage_that_fills_its_document_cannot_be_moved():
    passages = (Passage("whole", "?", 0, 0, 10), Passage("half", "?", 0, 0, 5))
    data = Passages("d", ["0123456789"], passages)
    assert [one.id for one in data.movable().passages] == ["half"]


def _documentation():
    """Two subpackages: one of ten short sections, one of two; and a section that is too long."""
    lengths = {f"a.one.f{n}": 900 for n in range(10)} | {"a.one.long": 2_000, "a.two.f": 200}
    pairs = [
        DocPair(key, "a", key.rpartition(".")[0], "f", f"What does {key} do?", f"{key} " * (n // 9))
        for key, n in lengths.items()
    ]
    return Documentation(tuple(pairs[::-1]), {})


def test_built_in_pages_hold_several_sections_each_asked_for_by_its_summary(monkeypatch):
    monkeypatch.setattr(pages, "load_documentation", _documentation)
    data = find_passages("docs:a")
    assert data.name == "docs:a"
    # Ten of 900 characters: four fit in 4,000, and two are too few for a page of their own.
    assert [text.count("\n\n") for text in data.documents] == [3, 3]
    assert [one.id for one in data.passages] == [f"a.one.f{number}" for number in range(8)]
    for one in data.passages:
        text = data.documents[one.document]
        assert one.query == f"What does {one.id} do?"
        assert text[one.start : one.end].split() == [one.id] * 100


def test_pages_too_short_for_three_sections_are_said(monkeypatch):
    monkeypatch.setattr(pages, "load_documentation", _documentation)
    with pytest.raises(DataError, match="hold no 3 sections"):
        find_passages("docs", longest=300)


def test_ms_marco_passages_are_found_in_the_document_of_the_same_query():
    def judged(query, key, relevance=1):
        return SimpleNamespace(query_id=query, doc_id=key, relevance=relevance)

    bodies = {"D1": "before. the answer. after.", "D2": "nothing of it"}
    texts = {"p1": "the answer. ", "p2": "elsewhere"}
    queries = [SimpleNamespace(query_id=f"q{n}", text=f"question {n}") for n in (1, 2, 3)]
    found = list(
        found_passages(
            queries,
            [judged("q1", "D1"), judged("q2", "D2"), judged("q3", "D1", 0)],
            [judged("q1", "p2"), judged("q1", "p1"), judged("q2", "p1"), judged("q3", "p1")],
            body=bodies.__getitem__,
            text=texts.__getitem__,
            row=["D0", "D1", "D2"].index,
        )
    )
    assert found == [Passage("q1", "question 1", 1, 8, 19)]
