import csv
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cde_core.errors import ConfigError, DataError
from cde_eval.report.page import to_markdown, write_report
from cde_eval.report.tables import gain_table, score_table
from cde_eval.results import RunRecord, record_path, write_atomically
from tests.cde_eval.tiny_records import record

RECORDS = [
    record("A", 0.5, draw=0, draws=2),
    record("A", 0.7, draw=1, draws=2),
    record("A", 0.3, policy="none"),
    record("B", 0.4),
    record("B", 0.45, policy="none"),
    record("A", 0.35, policy="none", model="minilm"),
]


def save(records: Sequence[RunRecord], results: Path) -> Path:
    for number, one in enumerate(records):
        path = record_path(
            results, one.model_name, one.model_revision, {"n": str(number)}, one.task
        )
        write_atomically(path, one.model_dump_json())
    return results


class Page(HTMLParser):
    """What a page links to and shows, its table cells, and whether its tags close."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.cells: list[str] = []
        self.open: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in ("meta", "img", "br", "link"):
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return write_report(save(RECORDS, tmp_path / "results"), tmp_path / "out")


def test_every_table_and_figure_is_a_file(written: Path):
    files = {path.relative_to(written.parent).as_posix() for path in written.parent.rglob("*.*")}
    assert files == {
        "index.html",
        *(f"tables/{name}.{end}" for name in ("scores", "gains") for end in ("md", "csv")),
        *(f"figures/score_by_policy.{end}" for end in ("png", "svg")),
    }
    assert (written.parent / "figures/score_by_policy.png").read_bytes()[:4] == b"\x89PNG"
    assert "<svg" in (written.parent / "figures/score_by_policy.svg").read_text()


def test_every_link_and_image_of_the_page_is_there(written: Path):
    page = Page(written)
    assert len(page.links) == 6  # two tables as Markdown and CSV, the figure and its vector
    for link in page.links:
        assert (written.parent / link).is_file(), link
    assert page.open == []


def test_the_page_needs_no_network_and_no_script(written: Path):
    text = written.read_text()
    assert "http" not in text.replace("http-equiv", "")
    assert "<script" not in text


def test_the_page_shows_every_number_of_the_tables(written: Path):
    shown = Page(written).cells
    for table in (score_table(RECORDS), gain_table(RECORDS)):
        assert {str(value) for value in table.to_numpy().ravel()} <= set(shown)
    assert "0.6000 ± 0.1414" in shown  # (0.5 + 0.7) / 2 ± 0.2 / sqrt(2)


def test_the_csv_holds_what_the_table_holds(written: Path):
    with (written.parent / "tables" / "scores.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    by_task = {row["task"]: row for row in rows}
    assert by_task["A"]["tiny · corpus"] == "0.6000 ± 0.1414"
    assert by_task["A"]["minilm"] == "0.3500"
    assert by_task["B"]["minilm"] == ""
    assert by_task["mean of tasks"]["tiny · corpus"] == "0.5000"  # (0.6 + 0.4) / 2


def test_markdown_has_words_left_and_numbers_right():
    table = score_table([record("A", 0.5)]).reset_index()
    lines = to_markdown(table).splitlines()
    assert [cell.strip() for cell in lines[0].strip("|").split("|")] == [
        *("task", "type", "measure", "tiny · corpus")
    ]
    rule = lines[1].strip("|").split("|")
    assert [cell[0] == ":" for cell in rule] == [True, True, True, False]
    assert rule[3].endswith(":")
    assert "0.5000" in lines[2] and to_markdown(table).endswith("|\n")


def test_the_same_records_give_the_same_bytes(tmp_path: Path):
    results = save(RECORDS, tmp_path / "results")
    one, other = (write_report(results, tmp_path / name).parent for name in ("one", "other"))
    names = ["index.html", *(f"tables/{n}.{e}" for n in ("scores", "gains") for e in ("md", "csv"))]
    for name in [*names, "figures/score_by_policy.svg", "figures/score_by_policy.png"]:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_a_report_is_written_over_an_older_one(tmp_path: Path):
    results = save(RECORDS, tmp_path / "results")
    first = write_report(results, tmp_path / "out").read_bytes()
    assert write_report(results, tmp_path / "out").read_bytes() == first


def test_without_another_policy_there_is_nothing_to_compare(tmp_path: Path):
    page = write_report(save([record("A")], tmp_path / "results"), tmp_path / "out")
    assert Page(page).links == ["tables/scores.md", "tables/scores.csv"]
    assert "What the context bought" not in page.read_text()


def test_names_are_text_and_never_markup(tmp_path: Path):
    for number, policy in enumerate(("corpus", "none")):
        odd = record("<b>A&B", number / 4, model="file:<i>", policy=policy)
        write_atomically(tmp_path / "records" / f"{number}.json", odd.model_dump_json())
    page = write_report(tmp_path, tmp_path / "out")
    parsed = Page(page)
    assert parsed.open == [] and "<b>A&B nDCG@10" in parsed.cells
    assert "<b>" not in page.read_text() and "<i>" not in page.read_text()


def test_the_page_names_models_revisions_versions_and_commit(written: Path):
    text = written.read_text()
    for part in ("tests/tiny", "mteb 2.26.24", "0123456789ab", "minilm", "protocol", "paper"):
        assert part in text


def test_no_records_say_what_to_run(tmp_path: Path):
    with pytest.raises(DataError, match=r"holds no results; run `cde-eval mteb --output"):
        write_report(tmp_path / "nothing", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_protocols_are_refused_before_anything_is_written(tmp_path: Path):
    results = save([record("A"), record("A", protocol="mteb")], tmp_path / "results")
    with pytest.raises(ConfigError, match="not comparable"):
        write_report(results, tmp_path / "out")
    assert not (tmp_path / "out").exists()
