import subprocess
import sys

from cde_eval.probes import clusters, context_space, difficulty, geometry, idf, neighbours
from cde_eval.probes.position import moved, moving, spans, starts, tenths
from cde_eval.report import probe_names


def test_the_report_calls_the_tables_of_probes_as_they_do():
    assert probe_names.CLUSTERS == clusters.PROBE
    assert probe_names.CONTEXT_SPACE == context_space.PROBE
    assert probe_names.DIFFICULTY == difficulty.PROBE
    assert probe_names.DIFFICULTY_OF_RUNS == difficulty.OF_RUNS
    assert probe_names.GEOMETRY == geometry.PROBE
    assert probe_names.IDF == idf.PROBE
    assert probe_names.NEIGHBOURS == neighbours.PROBE
    assert probe_names.MOVED == moved.PROBE
    assert probe_names.STARTS == starts.PROBE
    assert probe_names.TENTHS == tenths.PROBE
    assert probe_names.SPANS == spans.PROBE


def test_and_what_stands_in_them():
    assert probe_names.ALL_CONTEXTS == context_space.ALL
    assert moving.PLACES == probe_names.PLACES
    assert probe_names.UNCHANGED == moved.UNCHANGED
    assert probe_names.MOVED_MEASURES == tuple(moved.MEASURES)


def test_a_report_waits_for_no_model_library():
    code = (
        "import sys, cde_eval.report.page\n"
        "sys.exit(bool({'torch', 'mteb', 'transformers', 'datasets'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
