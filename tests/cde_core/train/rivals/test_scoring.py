import numpy as np
import pytest

from cde_core.train.data.pairs import Pair, write_pairs
from cde_core.train.rivals import each_pair
from cde_core.train.rivals.judges import ModelJudge, SurrogateJudge
from cde_core.train.rivals.scoring import each_apart, scores_of, with_scores
from cde_core.train.rivals.selection_report import scored_by_domain
from cde_core.train.rivals.teachers import Cosines
from tests.cde_core.train.rivals.conftest import vector_of


@pytest.fixture
def mined(tmp_path):
    """Two domains that take turns; some pairs have no negatives, and texts come again."""
    rng = np.random.default_rng(1)
    made = []
    for number in range(40):
        negatives = [f"document {rng.integers(20)} subject-{rng.integers(5)}" for _ in range(3)]
        query = f"query {number % 25} subject-{number % 5}"
        document = f"document {rng.integers(20)} subject-{number % 5}"
        some = tuple(negatives[: number % 4])
        made.append(Pair(query, document, some, "ab"[number % 3 == 0], score=0.5, label="old"))
    return write_pairs(made, tmp_path / "mined")


def cosine(one, other):
    a, b = vector_of(one, 0.5), vector_of(other, 0.5)
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_scores_are_the_cosines_of_the_document_and_of_each_negative(mined, letters, tmp_path):
    scored = scores_of(mined, Cosines(SurrogateJudge(letters())), cache=tmp_path)
    found = list(with_scores(mined, scored))
    assert [(p.query, p.document, p.negatives, p.domain, p.score, p.label) for p in found] == [
        (p.query, p.document, p.negatives, p.domain, 0.5, "old") for p in mined
    ]
    for pair in found:
        expected = [cosine(pair.query, text) for text in (pair.document, *pair.negatives)]
        assert pair.scores == pytest.approx(expected, abs=1e-6)
    written = write_pairs(found, tmp_path / "written")
    assert written.taught.all()
    assert [pair.scores for pair in written] == [pair.scores for pair in found]


def test_a_distinct_text_is_embedded_once_a_domain(mined, letters, tmp_path):
    surrogate = letters()
    scores_of(mined, Cosines(SurrogateJudge(surrogate)), cache=tmp_path)
    expected = []
    for domain in "ab":
        own = [pair for pair in mined if pair.domain == domain]
        expected += {pair.query for pair in own}
        expected += {text for pair in own for text in (pair.document, *pair.negatives)}
    assert sorted(surrogate.asked) == sorted(expected)


def test_apart_every_text_is_a_pair_with_a_score_and_a_label(mined, letters, tmp_path):
    scored = scores_of(mined, Cosines(SurrogateJudge(letters())), cache=tmp_path)
    found, beside = list(each_apart(mined, scored)), list(with_scores(mined, scored))
    texts = [
        (pair.query, text, str(int(number == 0)), pair.scores[number], pair.domain)
        for pair in beside
        for number, text in enumerate((pair.document, *pair.negatives))
    ]
    assert [(p.query, p.document, p.label, p.score, p.domain) for p in found] == texts
    assert not any(pair.negatives or pair.scores for pair in found)
    # As a view without scores, which is what the teacher reads, they are the same.
    view = [(p.query, p.document, p.label, p.domain) for p in mined.apart()]
    assert view == [(query, text, label, domain) for query, text, label, _, domain in texts]


def test_stopped_anywhere_it_goes_on_and_ends_the_same(mined, letters, tmp_path, monkeypatch):
    surrogate = letters()
    whole = scores_of(mined, Cosines(SurrogateJudge(surrogate)), cache=tmp_path / "in-peace")
    once = len(surrogate.asked)
    monkeypatch.setattr(each_pair, "PAIRS_AT_ONCE", 7)
    appended, written = [], each_pair.GrowingArray.append

    def dying(growing, rows):
        written(growing, rows)
        appended.append(len(rows))
        if growing._file.name == each_pair.ANSWERS and len(appended) % 4 == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(each_pair.GrowingArray, "append", dying)
    surrogate, deaths = letters(), 0  # asks are counted over all lives
    while True:
        try:
            scored = scores_of(mined, Cosines(SurrogateJudge(surrogate)), cache=tmp_path / "killed")
            break
        except KeyboardInterrupt:
            deaths += 1
    assert deaths >= 3 and len(surrogate.asked) == once
    assert np.array_equal(scored.documents, whole.documents)
    assert np.array_equal(scored.negatives, whole.negatives)


def test_a_contextual_model_reads_documents_and_negatives_of_the_domain(encoder, tmp_path):
    model = encoder(context_documents=6)
    made = [
        Pair("tax law", "the law of the court", ("a cat", "a judge")),
        Pair("a cat", "a cat in the town", ("a judge",)),
    ]
    pairs = write_pairs(made, tmp_path / "few")
    context = model.read_context(["the law of the court", "a cat", "a judge", "a cat in the town"])
    scored = scores_of(pairs, Cosines(ModelJudge(model)), cache=tmp_path)
    for pair in with_scores(pairs, scored):
        texts = [pair.document, *pair.negatives]
        query = model.encode_queries([pair.query], context)[0]
        documents = model.encode_documents(texts, context)
        lengths = np.linalg.norm(documents, axis=1) * np.linalg.norm(query)
        assert pair.scores == pytest.approx(documents @ query / lengths, abs=1e-5)


def test_the_table_says_means_and_whose_document_is_first(mined, letters, tmp_path):
    scored = scores_of(mined, Cosines(SurrogateJudge(letters())), cache=tmp_path)
    lines = [line.split() for line in scored_by_domain(mined, scored).splitlines()]
    assert [line[0] for line in lines] == ["domain", "a", "b", "all"]
    for name, *cells in lines[1:]:
        own = [p for p in with_scores(mined, scored) if name in (p.domain, "all")]
        of_negatives = [score for pair in own for score in pair.scores[1:]]
        firsts = [max(p.scores[1:]) < p.scores[0] for p in own if p.negatives]
        assert cells[-4:] == [
            str(len(own)),
            f"{np.mean([pair.scores[0] for pair in own]):.3f}",
            f"{np.mean(of_negatives):.3f}",
            f"{np.mean(firsts):.1%}",
        ]
