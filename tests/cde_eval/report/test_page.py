from __future__ import annotations

import csv
import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

import cde_eval.report.page as page_module
from cde_core.errors import ConfigError, DataError
from cde_eval.report import data_sets, figures, leaderboard, published, tables
from cde_eval.report.exhibits import Exhibit, Made, Results
from cde_eval.report.page import PUBLISHED, write_report
from cde_eval.report.tables import gain_table, score_table
from tests.cde_eval.report.saved import save
from tests.cde_eval.tiny_records import record

RECORDS = [
    record("A", 0.5, draw=0, draws=2),
    record("A", 0.7, draw=1, draws=2),
    record("A", 0.3, policy="none"),
    record("B", 0.4),
    record("B", 0.45, policy="none"),
    record("A", 0.35, policy="none", model="minilm"),
]


class Page(HTMLParser):
    """What a page links to and shows, its table cells, and whether its tags close."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.ids: list[str] = []
        self.cells: list[str] = []
        self.open: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self.ids += [named["id"] or ""] if "id" in named else []
        if tag == "img":
            self.images.append(named)
        if tag not in ("meta", "img", "br", "link", "wbr"):
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


MINE = tuple(
    exhibit
    for module in (figures, tables, leaderboard, published, data_sets)
    for exhibit in module.EXHIBITS
)


@pytest.fixture(scope="module", autouse=True)
def exhibits_of_scores() -> Iterator[None]:
    """The page is the same for all exhibits, so it is tested with those that need no probe."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "all_exhibits", lambda: MINE)
        yield


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report(save(RECORDS, folder / "results"), folder / "out")


def files(out: Path) -> dict[str, bytes]:
    found = sorted(path for path in out.rglob("*") if path.is_file())
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in found}


def test_every_table_and_figure_is_a_file_in_two_forms(written: Path):
    found = files(written.parent)
    for name in ("scores", "gains", "table_1", "table_2", "table_5", "table_6", "table_7"):
        assert f"tables/{name}.md" in found and f"tables/{name}.csv" in found
    assert found["figures/score_by_policy.png"].startswith(b"\x89PNG")
    assert b"<svg" in found["figures/score_by_policy.svg"]
    assert {"index.html", "leaderboard.html"} < set(found)


@pytest.mark.parametrize("name", ["index.html", "leaderboard.html"])
def test_every_link_and_image_of_a_page_is_there(written: Path, name: str):
    page = Page(written.parent / name)
    assert page.open == [] and len(set(page.ids)) == len(page.ids)
    for link in page.links:
        if link.startswith("#"):
            assert link[1:] in page.ids, link
        else:
            assert link == "data:," or (written.parent / link).is_file(), link


def test_images_wait_until_they_are_seen_and_say_what_they_are(written: Path):
    (image,) = Page(written).images
    assert image["loading"] == "lazy" and image["alt"] == "What each context does to each score"
    assert int(image["width"] or 0) > int(image["height"] or 0) > 0


def test_the_page_fetches_nothing(written: Path):
    for page in written.parent.glob("*.html"):
        text = page.read_text()
        assert not any(link.startswith(("http", "//", "/")) for link in Page(page).links)
        assert "<script src" not in text and "@import" not in text and "url(" not in text


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


def test_the_same_results_give_the_same_bytes(written: Path, tmp_path: Path):
    again = write_report(save(RECORDS, tmp_path / "results"), tmp_path / "out").parent
    assert files(again) == files(written.parent)
    write_report(tmp_path / "results", again)  # over the older one
    assert files(again) == files(written.parent)


def test_names_are_text_and_never_markup(tmp_path: Path):
    odd = [
        record("<b>A&B", score, model="file:<i>", policy=policy)
        for score, policy in ((0.0, "corpus"), (0.25, "none"))
    ]
    results = save([one.model_copy(update={"task": "x"}) for one in odd], tmp_path / "results")
    for path, one in zip(sorted((results / "records").rglob("*.json")), odd, strict=True):
        path.write_text(one.model_dump_json())
    page = write_report(results, tmp_path / "out")
    parsed = Page(page)
    assert parsed.open == [] and "<b>A&B nDCG@10" in parsed.cells
    assert "<b>A" not in page.read_text() and "<i>" not in page.read_text()


def test_the_page_names_models_revisions_versions_and_commit(written: Path):
    text = written.read_text()
    for part in ("tests/tiny", "mteb 2.26.24", "0123456789ab", "minilm", "protocol", "paper"):
        assert part in text


def test_no_results_folder_says_what_to_run(tmp_path: Path):
    with pytest.raises(DataError, match=r"holds no results; run `cde-eval mteb --output"):
        write_report(tmp_path / "nothing", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_protocols_are_refused_before_anything_is_written(tmp_path: Path):
    results = save([record("A"), record("A", protocol="mteb")], tmp_path / "results")
    with pytest.raises(ConfigError, match="not comparable"):
        write_report(results, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# What has not been run


def not_run(page: Path) -> set[str]:
    """Names of the exhibits that the page says were not run yet."""
    sections = page.read_text().split('<section id="')[1:]
    return {part.split('"')[0] for part in sections if "Not run yet." in part}


def test_an_empty_results_folder_gives_a_page_of_commands_and_published_numbers(tmp_path: Path):
    (tmp_path / "results").mkdir()
    page = write_report(tmp_path / "results", tmp_path / "out")
    assert {"scores", "gains", "score_by_policy", "table_1", "table_7"} <= not_run(page)
    text = page.read_text()
    assert "cde-train sweep training/sweeps/docs-ablations.yaml" in text
    assert "16,384" in Page(page).cells and "the published numbers alone" in text
    assert not (tmp_path / "out" / "figures").exists()


def a_table(results: Results, name: str) -> Made | None:
    probe = results.probe(name)
    return None if probe.empty else probe


def a_figure(results: Results, name: str) -> Made | None:
    return None if results.probe(name).empty else Figure(figsize=(2, 1))


def exhibit(name: str, make: str) -> Exhibit:
    maker = {"table": a_table, "figure": a_figure}[make]
    return Exhibit(
        name=f"{name}-{make}", section="geometry", title=name, caption="A caption.", source="",
        command=f"cde-eval {name}", make=lambda results: maker(results, name),
    )  # fmt: skip


def test_deleting_one_result_turns_exactly_its_exhibits_into_not_run_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    mine = [exhibit(*pair) for pair in itertools.product(("one", "two"), ("table", "figure"))]
    monkeypatch.setattr(page_module, "all_exhibits", lambda: mine)
    results, out = tmp_path / "results", tmp_path / "out"
    for name in ("one", "two"):
        folder = results / "probes" / name
        folder.mkdir(parents=True)
        (folder / "m.csv").write_text("x\n1\n")
        (folder / "m.json").write_text("{}")
    page = write_report(results, out, tmp_path)
    assert not_run(page) == set()
    before = files(out)
    (results / "probes" / "one" / "m.csv").unlink()
    assert not_run(write_report(results, out, tmp_path)) == {"one-table", "one-figure"}
    after = files(out)
    gone = {f"{place}/one-{what}.{end}" for place, what, end in (
        ("tables", "table", "md"), ("tables", "table", "csv"),
        ("figures", "figure", "png"), ("figures", "figure", "svg"))}  # fmt: skip
    assert set(before) - set(after) == gone
    assert {name for name in after if after[name] != before[name]} == {"index.html"}


def test_a_table_of_any_kind_of_cells_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    frame = pd.DataFrame({"words": ["a", "b"], "number": [0.123456, None], "count": [12345, 1]})
    one = Exhibit(
        name="any", section="scores", title="Any", caption="Any.", source="", command="cde-eval x",
        make=lambda results: frame, note=lambda results: "And a note.",
    )  # fmt: skip
    monkeypatch.setattr(page_module, "all_exhibits", lambda: [one])
    page = write_report(tmp_path, tmp_path / "out", tmp_path)
    assert Page(page).cells[3:] == ["a", "0.1235", "12,345", "b", "", "1"]
    assert (
        '<p>Any.</p><p class="note">And a note.</p>' in page.read_text()
        and "leaderboard" not in page.read_text()
    )


# In a browser


def browser() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium here")
    return found


def seen(page: Path, profile: Path, script: str = "") -> tuple[str, str]:
    """What a browser makes of a page and of a script behind it, and what its console says."""
    copy = profile.with_suffix(".html")
    copy.write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
    done = subprocess.run(
        [browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
         "--enable-logging=stderr", f"--user-data-dir={profile}", copy.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return done.stdout, "".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.slow
def test_a_click_on_a_heading_sorts_the_table_and_another_turns_it(written: Path, tmp_path: Path):
    script = """
      const table = document.querySelector("#table_6 table"), head = table.tHead.rows[0].cells[2];
      const order = () => [...table.tBodies[0].rows].map(row => row.cells[0].textContent);
      const orders = [0, 1].map(() => { head.querySelector("button").click(); return order(); });
      document.title = JSON.stringify([orders[0][0], orders[1][0], head.ariaSort]);
    """
    dom, console = seen(written, tmp_path / "profile", script)
    assert '<title>["MS MARCO","NFCorpus","ascending"]</title>' in dom
    assert console == ""


@pytest.mark.slow
def test_no_page_is_wider_than_a_phone(written: Path, tmp_path: Path):
    script = """
      const frames = ["index.html", "leaderboard.html"].map(name => {
        const frame = document.createElement("iframe");
        frame.style.width = "360px"; frame.style.border = 0; frame.srcdoc = PAGES[name];
        document.body.append(frame);
        return frame;
      });
      Promise.all(frames.map(frame => new Promise(done => frame.onload = done))).then(() =>
        document.title = JSON.stringify(frames.map(frame =>
          { const root = frame.contentDocument.documentElement;
            return root.clientWidth > 300 && root.scrollWidth <= root.clientWidth; })));
    """
    pages = {page.name: page.read_text() for page in written.parent.glob("*.html")}
    text = json.dumps(pages).replace("</", "<\\/")
    shell = tmp_path / "shell.html"
    shell.write_text("<!doctype html><title></title><body></body>")
    dom, console = seen(shell, tmp_path / "profile", f"const PAGES = {text};{script}")
    assert "<title>[true,true]</title>" in dom
    assert console == ""


def test_published_numbers_come_with_the_source():
    assert (PUBLISHED / "cde_table_1.csv").is_file()
