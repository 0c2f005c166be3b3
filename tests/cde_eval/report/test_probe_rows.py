import json

import pytest

from cde_eval.probes.table import ProbeTable, read_probe
from cde_eval.report.exhibits import Results
from cde_eval.report.position.places import asked
from cde_eval.report.probe_rows import newest, newest_on_most_pairs


def write_table(folder, written, *, probe="geometry", value=1.0, **about):
    """A table of one row; what it says of when it was written is set by hand."""
    said = {"model": "m", "model_name": "m", "revision": "1", "task": "T", "pairs": 7, **about}
    table = ProbeTable(folder, probe, said, cell=["part"])
    table.add([{"value": value}], part="vectors")
    path = table.path.with_suffix(".json")
    found = json.loads(path.read_text())
    assert found.pop("written")  # every table says it
    path.write_text(json.dumps({**found, **({"written": written} if written else {})}))


def values(rows):
    return rows["value"].tolist()


@pytest.mark.parametrize("choice", ["seed", "size", "revision", "texts"])
def test_tables_made_in_different_ways_are_never_in_one_figure(tmp_path, choice):
    # By their names, which are hashes, they stand in any order.
    for number in range(8):
        written = f"2026-01-0{1 + (3 * number) % 8}"
        write_table(tmp_path, written, value=(3 * number) % 8, **{choice: str(number)})
    rows = read_probe(tmp_path, "geometry")
    assert len(rows) == 8
    assert values(newest(rows)) == [7]


def test_a_table_that_does_not_say_when_it_was_written_is_older(tmp_path):
    for seed, written in enumerate(("", "2026-01-01", "", "")):
        write_table(tmp_path, written, value=seed, seed=seed)
    assert values(newest(read_probe(tmp_path, "geometry"))) == [1]


def test_other_models_and_tasks_stay(tmp_path):
    for model in ("a", "b"):
        for task in ("T", "U"):
            for seed in (0, 1):
                write_table(tmp_path, f"2026-01-0{1 + seed}", model=model, task=task, seed=seed)
    rows = newest(read_probe(tmp_path, "geometry"))
    assert len(rows) == 4 and set(rows["seed"]) == {1}


def test_of_tables_on_pairs_the_one_on_the_most_is_shown(tmp_path):
    write_table(tmp_path, "2026-01-01", pairs=9, value=1)
    write_table(tmp_path, "2026-01-02", pairs=9, value=2, queries=10)
    write_table(tmp_path, "2026-01-03", pairs=7, value=3)
    assert values(newest_on_most_pairs(read_probe(tmp_path, "geometry"))) == [2]


def test_positions_asked_in_two_ways_are_not_averaged(tmp_path):
    for number, pooling in enumerate(("", "cls", "")):
        write_table(
            tmp_path,
            f"2026-01-0{1 + number}",
            probe="position-tenths",
            data="d",
            pooling=pooling,
            size=str(number),
            value=number,
        )
    assert values(asked(Results(tmp_path, tmp_path), "position-tenths")) == [1, 2]
    assert asked(Results(tmp_path, tmp_path), "position-moved").empty
