import json

from cde_eval.report.choices import EXHIBITS, choices_figure, choices_table
from cde_eval.report.exhibits import Results

(CHOICES,) = EXHIBITS


def sweep(folder, runs, name="choices"):
    for number, (cell, scores) in enumerate(runs):
        path = folder / "sweeps" / name / str(number) / "result.json"
        path.parent.mkdir(parents=True)
        result = {"cell": cell, "scores": scores, "loss": 1.0, "accuracy": 0.5, "steps": 3}
        path.write_text(json.dumps(result), encoding="utf-8")
    return Results(folder, folder)


RUNS = [
    ({"clusters.size": 256}, {"mean/corpus": 0.5, "mean/random": 0.4}),
    ({"clusters.size": 0}, {"mean/corpus": 0.3, "mean/random": 0.2}),
    ({"clusters.size": 64}, {"mean/corpus": 0.6, "mean/random": 0.5}),
    ({"filter.surrogate": ""}, {"mean/corpus": 0.1, "mean/random": 0.1, "NFCorpus/corpus": 0.1}),
    ({"batches.size": 32, "steps": 240}, {"mean/corpus": 0.2, "mean/random": 0.2}),
]


def test_values_rise_within_their_choice_and_the_whole_domain_is_the_largest_cluster(tmp_path):
    table = choices_table(sweep(tmp_path, RUNS).sweeps)
    corpus = table[table["context"] == "corpus"]
    assert list(zip(corpus["choice"], corpus["value"], corpus["score"], strict=True)) == [
        ("pairs per cluster", "64", 0.6),
        ("pairs per cluster", "256", 0.5),
        ("pairs per cluster", "a domain", 0.3),
        ("pairs per batch", "32", 0.2),
        ("filter", "none", 0.1),
    ]


def test_seeds_are_averaged_and_runs_of_table_1_are_shown_there(tmp_path):
    runs = [({"clusters.size": 64, "seed": seed}, {"mean/none": seed / 10}) for seed in (1, 3)]
    other = ({"model.kind": "biencoder", "clusters.size": 64}, {"mean/none": 0.9})
    table = choices_table(sweep(tmp_path, [*runs, other]).sweeps)
    assert table["score"].round(9).tolist() == [0.2]


def test_every_run_is_a_marker_where_its_line_is_named(tmp_path):
    results = sweep(tmp_path, RUNS)
    (axes,) = choices_figure(choices_table(results.sweeps)).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    at = dict(zip(names, axes.get_yticks(), strict=True))
    assert names[0] == "pairs per cluster: 64" and names[2] == "a domain"
    corpus = next(line for line in axes.lines if line.get_label() == "context: its own corpus")
    drawn = dict(zip(corpus.get_ydata(), corpus.get_xdata(), strict=True))
    assert drawn[at["a domain"]] == 30 and drawn[at["filter: none"]] == 10


def test_the_note_names_the_ends_and_without_sweeps_there_is_nothing(tmp_path):
    said = CHOICES.note(sweep(tmp_path, RUNS))
    assert said == "choices: from filter none (10.0) to pairs per cluster 64 (60.0)."
    empty = Results(tmp_path / "none", tmp_path)
    assert CHOICES.make(empty) is None and CHOICES.note(empty) == ""
