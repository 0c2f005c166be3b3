import dataclasses

import pytest

from cde_core.errors import ConfigError
from cde_core.text import Purpose, prefix_for
from cde_eval.protocols import AUTHOR, MTEB, PAIR_TYPES, PAPER, PROTOCOLS, protocol_named


def test_a_protocol_is_found_by_its_name():
    assert list(PROTOCOLS) == ["paper", "author", "mteb"]
    assert [protocol_named(name) for name in PROTOCOLS] == [PAPER, AUTHOR, MTEB]


def test_an_unknown_protocol_is_answered_with_the_nearest_and_all():
    with pytest.raises(ConfigError, match=r"'papre'.*Did you mean 'paper'.*paper, author, mteb"):
        protocol_named("papre")


def test_protocols_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PAPER.name = "mine"  # type: ignore[misc]
    with pytest.raises(TypeError):
        PROTOCOLS["mine"] = PAPER  # type: ignore[index]


# The table of how the three differ, as MTEB_NOTES.md, section 1.7 and DESIGN.md, section 4 have it


def test_only_the_author_shows_classification_its_test_texts():
    splits = {name: protocol.classification_split for name, protocol in PROTOCOLS.items()}
    assert splits == {"paper": "train", "author": "test", "mteb": "train"}


def test_reranking_tasks_lend_candidates_right_answers_or_everything():
    lent = {name: protocol.reranking_documents for name, protocol in PROTOCOLS.items()}
    assert lent == {"paper": "candidates", "author": "relevant", "mteb": "corpus"}


def test_only_mteb_reads_the_first_side_and_the_first_set():
    assert [(p.pair_sides, p.clustering_sets) for p in PROTOCOLS.values()] == [
        ("both", "all"),
        ("both", "all"),
        ("first", "first"),
    ]


@pytest.mark.parametrize("protocol", [PAPER, AUTHOR])
def test_context_documents_carry_the_prefix_of_their_task(protocol):
    purpose = protocol.context_purpose(Purpose("Clustering", "document", "X"))
    assert prefix_for(purpose) == "clustering: "
    assert prefix_for(protocol.context_purpose(Purpose("STS", "document"))) == "classification: "


@pytest.mark.parametrize("task_type", ["Retrieval", "Clustering", "STS", "Classification"])
def test_under_mteb_context_documents_always_carry_search_document(task_type: str):
    purpose = MTEB.context_purpose(Purpose(task_type, "document", "QuoraRetrieval"))
    assert prefix_for(purpose) == "search_document: "


@pytest.mark.parametrize("task_type", ["Retrieval", "Clustering", "STS"])
def test_paper_scales_every_vector_and_the_others_those_to_be_clustered(task_type: str):
    assert PAPER.scales(task_type)
    assert AUTHOR.scales(task_type) == MTEB.scales(task_type) == (task_type == "Clustering")


def test_pair_types_are_those_that_lend_two_sides():
    assert {"PairClassification", "STS", "BitextMining"} == PAIR_TYPES
