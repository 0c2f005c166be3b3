from pathlib import Path

import pandas as pd

from cde_eval.report.data_sets import EXHIBITS
from cde_eval.report.exhibits import Results
from cde_eval.report.page import PUBLISHED
from cde_eval.results import query_scores_path, write_atomically
from tests.cde_eval.report.saved import save
from tests.cde_eval.tiny_records import record

PAIRS, SIZES = EXHIBITS


def test_the_pairs_add_up_to_the_printed_total():
    table = PAIRS.make(Results(PUBLISHED, PUBLISHED))
    assert isinstance(table, pd.DataFrame)
    counts = [int(text.replace(",", "")) for text in table["pairs"]]
    assert len(counts) == 30 and sum(counts[:-1]) == counts[-1] == 234_553_344
    assert "29 rows add up to 234,553,344" in PAIRS.note(Results(PUBLISHED, PUBLISHED))


def test_shares_are_computed_beside_those_printed():
    table = PAIRS.make(Results(PUBLISHED, PUBLISHED))
    assert isinstance(table, pd.DataFrame)
    first = table.iloc[0].tolist()
    assert first == ["Reddit", "64,978,944", "0.28", "27.70%"]  # 64,978,944 / 234,553,344


def test_a_searched_data_set_has_its_sizes_beside_the_published(tmp_path: Path):
    # 3,956 texts embedded, 323 of them queries: 3,633 documents, as the paper prints.
    results = save([record("NFCorpus", texts=3956), record("DocsNumpy", texts=30)], tmp_path)
    for path in (results / "records").rglob("*.json"):
        queries = 323 if path.stem == "NFCorpus" else 10
        lines = [f"test,default,{number},0.5" for number in range(queries)]
        text = "\n".join(["split,subset,query,ndcg_at_10", *lines]) + "\n"
        write_atomically(query_scores_path(path), text)
    table = SIZES.make(Results(results, PUBLISHED))
    assert isinstance(table, pd.DataFrame)
    rows = {row[0]: list(row[1:]) for row in table.itertuples(index=False)}
    assert rows["NFCorpus"] == ["323", "3,633", "323", "3,633"]
    assert rows["DocsNumpy"] == ["", "", "10", "20"]
    assert rows["MS MARCO"] == ["6,980", "8,841,823", "", ""]
    assert table["data set"].tolist()[:2] == ["NFCorpus", "SciFact"]  # as printed, ours below


def test_without_searches_the_published_sizes_stand_alone(tmp_path: Path):
    results = Results(save([record("STS12", task_type="STS")], tmp_path), PUBLISHED)
    assert SIZES.make(results) is None
    published = SIZES.published(results)
    assert isinstance(published, pd.DataFrame) and len(published) == 8
