from pathlib import Path

import pandas as pd

from cde_eval.probes.table import ProbeTable
from cde_eval.report.exhibits import Results
from cde_eval.report.long_documents import EXHIBITS
from cde_eval.report.page import PUBLISHED
from cde_eval.results import RunRecord, Score
from tests.cde_eval.report.saved import save
from tests.cde_eval.tiny_records import record

SEARCH, TRAINING = EXHIBITS


def long_run(mrr: float, recall: float, draw: int = 0, policy: str = "corpus") -> RunRecord:
    measures = {"mrr_at_100": mrr, "recall_at_100": recall}
    score = Score(split="dev", subset="default", main=0.1, measures=measures)
    return record("msmarco-doc", draw=draw, policy=policy).model_copy(update={"scores": (score,)})


def test_published_rows_are_those_of_the_paper():
    of = Results(PUBLISHED, PUBLISHED)
    search, training = SEARCH.published(of), TRAINING.published(of)
    assert isinstance(search, pd.DataFrame) and isinstance(training, pd.DataFrame)
    assert search.iloc[4].tolist() == ["RepLLaMA", "7B", "0.456", "–", "paper"]
    assert training.iloc[1].tolist() == ["✓", "", "1 episode", "0.350", "0.872", "paper"]
    assert SEARCH.make(of) is None and TRAINING.make(of) is None


def test_runs_on_the_same_documents_stand_below_with_the_mean_of_their_draws(tmp_path: Path):
    records = [long_run(0.4, 0.9), long_run(0.2, 0.8, draw=1), long_run(0.1, 0.5, policy="none")]
    of = Results(save([*records, record("NFCorpus")], tmp_path), PUBLISHED)
    table = SEARCH.make(of)
    assert isinstance(table, pd.DataFrame)
    assert table.iloc[6:].to_numpy().tolist() == [
        ["tiny · corpus", "", "0.300", "0.850", "ours"],
        ["tiny · none", "", "0.100", "0.500", "ours"],
    ]


def test_the_probe_of_moved_passages_adds_what_it_found_where_nothing_was_moved(tmp_path: Path):
    about = {"model": "runs/my-2k-t5-2-mean/model", "data": "manual", "revision": "1"}
    table = ProbeTable(tmp_path, "position-moved", about, cell=["context", "draw", "place"])
    for place in range(11):
        found = {"mrr_at_100": 0.5 if place == 0 else 0.1, "recall_at_100": 1.0}
        rows = [{"query": "a", **found}, {"query": "b", **found, "mrr_at_100": 0.3}]
        table.add(rows, context="none", draw=0, place=place)
    made = SEARCH.make(Results(tmp_path, PUBLISHED))
    assert isinstance(made, pd.DataFrame)
    own = ["0.400", "1.000", "ours, manual"]
    assert made.iloc[6:].to_numpy().tolist() == [["my-2k-t5-2-mean", "", *own]]
    stages = TRAINING.make(Results(tmp_path, PUBLISHED))
    assert isinstance(stages, pd.DataFrame)
    assert stages.iloc[4:].to_numpy().tolist() == [["✓", "✓", "my-2k-t5-2-mean", *own]]
