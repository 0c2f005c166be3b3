"""The filter against a loop over all scores; cut differently, killed, on texts it cannot read."""

import numpy as np
import pytest

from cde_core.errors import ConfigError, DataError
from cde_core.train.batching import surrogates
from cde_core.train.data.pairs import Pair, write_pairs
from cde_core.train.rivals import consistency, each_pair, exact_search
from cde_core.train.rivals.consistency import Consistency, margins_of
from cde_core.train.rivals.judges import SurrogateJudge


def by_brute_force(pairs, letters, *, keep, across_domains):
    """Which pairs stay: fewer than `keep` other documents score higher than a pair's own."""
    judge, all_pairs, found = letters(), list(pairs), []

    def score(query, document):
        one, other = judge.encode([query, document], "query").astype(float)
        return float(np.sum(one * other))

    for pair in all_pairs:
        corpus = {p.document for p in all_pairs if across_domains or p.domain == pair.domain}
        same = across_domains or pair.domain
        answers = {
            p.document for p in all_pairs if p.query == pair.query and same in (True, p.domain)
        }
        own = score(pair.query, pair.document)
        better = [d for d in corpus - answers if score(pair.query, d) > own]
        found.append(len(better) < keep)
    return np.array(found)


def margins(pairs, surrogate, tmp_path, **settings):
    return margins_of(pairs, SurrogateJudge(surrogate), Consistency(**settings), cache=tmp_path)


@pytest.mark.parametrize("across_domains", [False, True])
@pytest.mark.parametrize("keep", [1, 2, 5])
def test_keeps_what_a_loop_over_all_scores_keeps(pairs, letters, tmp_path, keep, across_domains):
    found = margins(pairs, letters(), tmp_path, keep=keep, across_domains=across_domains)
    expected = by_brute_force(pairs, letters, keep=keep, across_domains=across_domains)
    assert np.array_equal(found.stay, expected)
    assert 0 < expected.sum() < 90


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(each_pair, "PAIRS_AT_ONCE", 7)
    monkeypatch.setattr(exact_search, "DOCUMENTS_AT_ONCE", 5)
    monkeypatch.setattr(exact_search, "MORE", 1)
    monkeypatch.setattr(consistency, "SPARE", 0)


def test_margins_have_the_same_bits_however_the_work_is_cut(pairs, letters, tmp_path, request):
    whole = margins(pairs, letters(), tmp_path / "whole", pool=20)
    request.getfixturevalue("small_pieces")
    cut = margins(pairs, letters(), tmp_path / "cut", pool=20)
    assert np.array_equal(whole.margins, cut.margins) and np.array_equal(whole.rivals, cut.rivals)


def test_a_pool_is_a_draw_of_the_groups_documents_that_its_seed_decides(pairs, letters, tmp_path):
    settings = {"pool": 6, "across_domains": True, "keep": 1}
    found = [margins(pairs, letters(), tmp_path / f"{i}", seed=i % 2, **settings) for i in range(3)]
    assert np.array_equal(found[0].margins, found[2].margins)
    assert not np.array_equal(found[0].margins, found[1].margins)
    drawn = {text for text in pairs.documents(found[0].rivals)}
    assert 1 < len(drawn) <= 6
    everything = margins(pairs, letters(), tmp_path / "all", keep=1, across_domains=True)
    assert (found[0].margins >= everything.margins).all()  # fewer rivals drop no more pairs


def test_copies_ties_and_other_answers_drop_no_pair(tmp_path):
    class Tied:
        """Every document has the query's own vector but one, which is worse."""

        fingerprint = "tied"

        def encode(self, texts, side):
            return np.array([[0.6, 0.8] if t == "far" else [1, 0] for t in texts], np.float32)

    made = [
        *(Pair("q", "copy") for _ in range(5)),  # copies of one document
        Pair("other", "tied"),  # which scores what the copies score
        Pair("p", "near"),
        Pair("p", "far"),  # beaten by two documents that are no answers, and one that is
    ]
    pairs = write_pairs(made, tmp_path / "tied")
    found = [margins(pairs, Tied(), tmp_path, keep=keep) for keep in (1, 2, 3)]
    assert [one.stay.tolist() for one in found] == [
        [True] * 7 + [False],
        [True] * 7 + [False],
        [True] * 8,
    ]
    assert found[0].margins[7] == pytest.approx(0.6 - 1)


def test_nobody_is_dropped_for_a_text_that_the_judge_cannot_read(tmp_path, letters):
    made = [
        Pair("", "a document"),
        Pair("a query", ""),
        *(Pair(f"q {i}", f"d {i}") for i in range(9)),
    ]
    found = margins(write_pairs(made, tmp_path / "some"), letters(), tmp_path, keep=1)
    assert found.stay[:2].all() and not found.stay.all()


@pytest.mark.parametrize("calls", range(0, 36, 3))
def test_a_killed_run_goes_on_where_it_was(
    pairs, letters, tmp_path, small_pieces, monkeypatch, calls
):
    monkeypatch.setattr(surrogates, "TEXTS_AT_ONCE", 5)
    expected = margins(pairs, whole := letters(), tmp_path / "whole")
    first, second = letters(dies_after=calls), letters()
    with pytest.raises(KeyboardInterrupt):
        margins(pairs, first, tmp_path / "killed")
    found = margins(pairs, second, tmp_path / "killed")
    assert np.array_equal(found.margins, expected.margins)
    assert first.asked + second.asked == whole.asked


def test_killed_while_it_ranks_it_embeds_nothing_again(
    pairs, letters, tmp_path, small_pieces, monkeypatch
):
    expected = margins(pairs, letters(), tmp_path / "whole")
    searches, search = [], consistency.highest

    def dies(*asked, **settings):
        searches.append(len(asked[0]))
        if len(searches) == 4:
            raise KeyboardInterrupt
        return search(*asked, **settings)

    monkeypatch.setattr(consistency, "highest", dies)
    with pytest.raises(KeyboardInterrupt):
        margins(pairs, letters(), tmp_path / "killed")
    again = letters()
    found = margins(pairs, again, tmp_path / "killed")
    assert np.array_equal(found.margins, expected.margins)
    second_domain = sum(pairs.domain_of == 1)
    assert len(again.asked) <= 2 * second_domain  # the first domain was embedded before
    assert margins(pairs, letters(dies_after=0), tmp_path / "killed").stay.sum() == found.stay.sum()


def test_what_cannot_be_asked_is_said(tmp_path, letters):
    with pytest.raises(ConfigError, match="keep is 0; the least that works is 1"):
        Consistency(keep=0)
    with pytest.raises(DataError, match="no pairs"):
        margins(write_pairs([], tmp_path / "none"), letters(), tmp_path)
