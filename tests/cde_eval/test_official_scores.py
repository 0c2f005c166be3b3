"""Official mteb task classes on real data give the published scores."""

import pytest

from cde_eval.contexts import ContextPolicy
from cde_eval.plan import Evaluation, Failure
from cde_eval.run import evaluate
from cde_eval.tasks.catalogue import find_tasks

PUBLISHED = {
    "STSBenchmark": 0.8203,
    "STS12": 0.7237,
    "STS14": 0.7559,
    "STS16": 0.7899,
    "Banking77Classification": 0.8004,
    "AmazonCounterfactualClassification": 0.6364,
    "NFCorpus": 0.3159,
    "SciFact": 0.6451,
    "TwitterURLCorpus": 0.8470,
}
"""all-MiniLM-L6-v2 in the MTEB results repository, test split, English."""

PUBLISHED_BM25 = {"NFCorpus": 0.3208, "SciFact": 0.6874}


def score(model: str, task: str, shared_data, tmp_path) -> float:
    plan = Evaluation(
        models=(model,),
        tasks=tuple(find_tasks([task], data=[shared_data / "mteb"])),
        policies=(ContextPolicy("corpus"),),
    )
    (record,) = evaluate(plan, tmp_path)
    assert not isinstance(record, Failure), record
    (main,) = [one.main for one in record.scores if one.split == "test"]
    assert main is not None
    return main


@pytest.mark.slow
@pytest.mark.parametrize("task", PUBLISHED)
def test_minilm_gives_the_published_score(task, shared_data, minilm_folder, tmp_path):
    assert round(score("minilm", task, shared_data, tmp_path), 4) == PUBLISHED[task]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["SummEval", "SummEvalSummarization.v2"])
def test_summaries_score_as_mteb_itself_scores_them(task, shared_data, minilm_folder, tmp_path):
    # mteb 1.12 published 0.3081 for SummEval; mteb 2.26 gives 0.3158 on the data at hand, and the
    # harness must not differ from the mteb that it runs. Summaries of one text are near ties, and
    # ranks among those move the mean in its fifth decimal with the batches they were embedded in.
    import mteb
    from sentence_transformers import SentenceTransformer

    (source,) = find_tasks([task], data=[shared_data / "mteb"])
    model = SentenceTransformer(str(minilm_folder), device="cpu")
    theirs = mteb.evaluate(model, source.make(), cache=None, show_progress_bar=False)
    ours = score("minilm", task, shared_data, tmp_path)
    assert ours == pytest.approx(theirs.task_results[0].get_score(), abs=1e-4)


@pytest.mark.parametrize("task", PUBLISHED_BM25)
def test_bm25_gives_the_score_that_mteb_has_for_it(task, shared_data, tmp_path):
    # The tokeniser's version moves it a little: mteb does not pin bm25s.
    assert score("bm25", task, shared_data, tmp_path) == pytest.approx(PUBLISHED_BM25[task], abs=3e-3)  # fmt: skip # noqa: E501
