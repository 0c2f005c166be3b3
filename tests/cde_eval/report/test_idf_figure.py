import pandas as pd
import pytest

from cde_eval.probes.table import ProbeTable
from cde_eval.report.exhibits import Results
from cde_eval.report.idf import EXHIBITS, losses, published_losses
from cde_eval.results import write_atomically
from tests.cde_eval.tiny_records import record

REVISION = "sha256-0"


def distances(*tasks):
    rows = [(task, REVISION, 1.0 + i, 100.0) for i, task in enumerate(tasks)]
    return pd.DataFrame(rows, columns=["task", "data", "per_word", "total"])


def of(model, score, task="A", **changes):
    return record(task, score, model=model, **changes)


def test_a_loss_is_bm25s_score_less_the_models():
    found = losses([of("bm25", 0.5), of("minilm", 0.4, policy="none")], distances("A"))
    assert found["model"].tolist() == ["minilm"]
    assert found["loss"].tolist() == pytest.approx([0.1])


def test_only_the_corpus_counts_and_draws_are_averaged():
    records = [
        of("bm25", 0.5),
        of("bm25", 0.3, policy="none"),
        of("bm25", 0.2, policy="random"),
        of("cde", 0.4, draw=0, draws=2),
        of("cde", 0.6, draw=1, draws=2),
        of("cde", 0.1, policy="random"),
        of("cde", 0.1, policy="none"),
        of("cde", 0.1, candidates={"retriever": "gtr", "depth": 9, "titles": True}),
        of("cde", 0.1, protocol="author"),
    ]
    found = losses(records, distances("A"))
    assert found["loss"].tolist() == pytest.approx([0.0])


def test_sizes_that_a_probe_tried_do_not_count_and_other_revisions_are_other_models():
    probed = [of("bm25", 0.1, context_size=size) for size in (1, 4, 16)]
    probed += [of("bm25", 0.1, policy="task:B"), of("cde", 0.1, context_size=1)]
    records = [*probed, of("bm25", 0.5, "B", context_size=None), of("cde", 0.5, "B")]
    records += [of("bm25", 0.5, context_size=None), of("cde", 0.4), of("cde", 0.3, "B")]
    records.append(of("cde", 0.2, model_revision="2"))
    found = losses(records, distances("A"))
    assert dict(zip(found["model"], found["loss"].round(6), strict=True)) == {
        "cde 1": 0.1,
        "cde 2": 0.3,
    }


def test_scores_on_other_data_than_the_distance_are_left_out():
    records = [of("bm25", 0.5, task_revision="old"), of("m", 0.4, task_revision="old")]
    assert losses(records, distances("A")).empty
    assert losses([of("m", 0.4)], distances("A")).empty  # nothing to compare with


def test_published_scores_are_joined_by_the_name_of_the_data_set():
    systems = ["ANCE", "ColBERT", "docT5query", "GenQ", "SPARTA", "TAS-B", "BM25+CE"]
    scores = pd.DataFrame([["nfcorpus", 0.5, *[0.4] * 7]], columns=["dataset", "BM25", *systems])
    found = published_losses(scores, distances("NFCorpus", "Other"))
    assert found["model"].tolist() == [f"{name} (published)" for name in systems]
    assert found["loss"].tolist() == pytest.approx([0.1] * 7)


def results_with(folder, tasks):
    table = ProbeTable(
        folder,
        "idf",
        {"model": "bm25", "model_name": "bm25", "revision": "1", "reference": "docs"},
        cell=["task", "data", "data_hash"],
    )
    for number, task in enumerate(tasks):
        row = {"per_word": 1.0 + number, "total": 9.0 - number}
        table.add([row], task=task, data=REVISION, data_hash="none")
        for model, policy, score in (
            ("bm25", "corpus", 0.5),
            ("minilm", "none", 0.5 - number / 10),
        ):
            path = folder / "records" / model / f"{task}.json"
            write_atomically(path, of(model, score, task, policy=policy).model_dump_json())
    return Results(folder, folder / "published")


def test_the_figure_has_a_panel_per_model_with_its_correlation(tmp_path):
    (exhibit,) = EXHIBITS
    results = results_with(tmp_path, ["A", "B", "C", "D"])
    figure = exhibit.make(results)
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "minilm\nr = +1.00 [+1.00, +1.00], n = 4"
    assert {text.get_text() for text in axes.texts} == {"A", "B", "C", "D"}
    assert "minilm: r = −1.00" in exhibit.note(results)  # the sum falls where the mean rises


def test_three_data_sets_are_too_few_for_a_correlation(tmp_path):
    figure = EXHIBITS[0].make(results_with(tmp_path, ["A", "B", "C"]))
    assert "3 data sets: too few for a correlation" in figure.axes[0].get_title(loc="left")


def test_there_is_no_figure_without_distances_or_without_scores(tmp_path):
    (exhibit,) = EXHIBITS
    assert exhibit.make(Results(tmp_path, tmp_path)) is None
    assert exhibit.note(Results(tmp_path, tmp_path)) == ""


def test_the_published_table_is_the_one_of_the_beir_paper():
    from tests.conftest import REPOSITORY

    table = pd.read_csv(REPOSITORY / "reports/published/beir.csv", comment="#").set_index("dataset")
    assert len(table) == 19
    zero_shot = table.drop("msmarco")
    # As the paper's text has it: the re-ranker is above BM25 on 16 of 18, ColBERT on 9.
    assert (zero_shot["BM25+CE"] > zero_shot["BM25"]).sum() == 16
    assert (zero_shot["ColBERT"] > zero_shot["BM25"]).sum() == 9
    assert (zero_shot["TAS-B"] > zero_shot["ANCE"]).sum() == 14
    assert (zero_shot["TAS-B"] > zero_shot["DPR"]).sum() == 17
