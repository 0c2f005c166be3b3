import gzip
import json
import os
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cde_core.errors import ConfigError, DataError
from cde_core.train.data.pairs import Pair, write_pairs
from cde_core.train.data.source_kinds import PLUGINS, FileSource
from cde_core.train.data.sources import Prepared, prepare_pairs

ROWS: list[dict[str, Any]] = [
    {"query": "a", "document": "b", "negatives": ["c"], "domain": "x"},
    {"query": "ü 🍬", "document": "line\nline", "domain": "y"},
    {"query": "e", "document": "f", "negatives": [], "domain": "x"},
]
PAIRS = [
    Pair("a", "b", ("c",), "x"),
    Pair("ü 🍬", "line\nline", (), "y"),
    Pair("e", "f", (), "x"),
]


def write_rows(file: Path, rows: list[Any]) -> str:
    """Write rows in the format that the file's name says; texts go into JSON lines as they are."""
    if file.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    else:
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        content = "".join(f"{line}\n" for line in lines).encode()
        file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
    return str(file)


@pytest.fixture
def prepare(tmp_path: Path) -> Callable[..., Prepared]:
    def prepare(*names: str, **options: Any) -> Prepared:
        return prepare_pairs(names, cache=tmp_path / "cache", **options)

    return prepare


# Formats and layouts


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.parquet"])
def test_every_format_gives_the_same_pairs(prepare, tmp_path: Path, name: str):
    prepared = prepare(write_rows(tmp_path / name, ROWS))
    assert list(prepared.pairs) == PAIRS
    assert prepared.pairs.digest == write_pairs(PAIRS, tmp_path / "direct").digest
    assert prepared.bad_rows == 0


@pytest.mark.parametrize("suffix", ["jsonl.gz", "parquet"])
def test_a_layout_of_the_hub_is_read_from_a_local_copy(prepare, tmp_path: Path, suffix: str):
    rows = [{"query": "a", "pos": ["b", "c"], "neg": ["d"], "prompt": "p", "type": "t"}]
    file = write_rows(tmp_path / f"fever-00000-of-00012.{suffix}", rows)
    assert list(prepare(file).pairs) == [Pair("a", "b", ("d",), "fever")]
    rows = [{"query": "a", "document": "b", "negative": ["d"], "dataset": "nli", "other": 1.5}]
    file = write_rows(tmp_path / f"train-00000-of-00012-0123456789abcdef.{suffix}", rows)
    assert list(prepare(file).pairs) == [Pair("a", "b", ("d",), "nli")]


def test_a_row_without_a_domain_has_that_of_its_file(prepare, tmp_path: Path):
    file = write_rows(tmp_path / "my.pairs.jsonl.gz", [{"query": "a", "document": "b"}])
    assert prepare(file).pairs.domains == ("my.pairs",)


def test_a_folder_is_all_its_files_in_order_and_a_split_changes_nothing(prepare, tmp_path: Path):
    folder = tmp_path / "data"
    (folder / "b").mkdir(parents=True)
    write_rows(folder / "a.jsonl", ROWS[:1])
    write_rows(folder / "b" / "c.parquet", ROWS[1:2])
    write_rows(folder / "d.jsonl.gz", ROWS[2:])
    (folder / "README.md").write_text("not a row")
    whole = write_rows(tmp_path / "whole.jsonl", ROWS)
    assert list(prepare(str(folder)).pairs) == PAIRS
    assert prepare(str(folder)).pairs.digest == prepare(whole).pairs.digest
    parts = [str(folder / "a.jsonl"), str(folder / "b"), str(folder / "d.jsonl.gz")]
    assert prepare(*parts).pairs.digest == prepare(whole).pairs.digest


def test_written_pairs_are_a_source(prepare, tmp_path: Path):
    written = write_pairs(PAIRS, tmp_path / "written")
    assert list(prepare(str(written.folder)).pairs) == PAIRS


def test_a_byte_order_mark_and_blank_lines_are_nothing(prepare, tmp_path: Path):
    file = write_rows(tmp_path / "x.jsonl", ["\ufeff" + json.dumps(ROWS[0]), "", " \t", ROWS[2]])
    assert list(prepare(file).pairs) == [PAIRS[0], PAIRS[2]]


def test_real_pairs_are_read_whole(prepare, shared_data: Path):
    file = shared_data / "pairs" / "reddit_title_body.jsonl.gz"
    if not file.is_file():
        pytest.skip("the real pairs are not here")
    told: list[int] = []
    pairs = prepare(str(file), progress=told.append).pairs
    assert (len(pairs), len(pairs.domains)) == (61_328, 164) and sum(told) == 61_328
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        last = json.loads(list(lines)[-1])
    assert pairs[-1] == Pair(last["query"], last["document"], (), last["domain"])


# Bad rows


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ('{"query": "a", "document": "b"', "this is not JSON .*at character 31"),
        ("[1, 2]", "this is a list"),
        ('{"query": "a"}', "a pair needs the columns query and document"),
        ('{"query": "a", "document": 3}', "document must be a text, not 3"),
        ('{"query": "  ", "document": "b"}', "query is empty"),
        ('{"query": "a", "document": "\\ud83c"}', "document is no valid Unicode"),
        ("[" * 100_000, "this is not JSON"),
    ],
)
def test_a_bad_row_is_told_by_its_line_even_in_gzip(prepare, tmp_path: Path, bad: str, why: str):
    rows = [ROWS[0], "", bad, ROWS[2], bad]
    file = write_rows(tmp_path / "x.jsonl.gz", rows)
    with pytest.raises(DataError, match=rf"x\.jsonl\.gz, line 3: {why}.*--skip-bad-rows"):
        prepare(file)
    prepared = prepare(file, skip_bad_rows=True)
    assert list(prepared.pairs) == [PAIRS[0], PAIRS[2]]
    assert prepared.bad_rows == 2
    assert [example.split(": ")[0] for example in prepared.sources[0].examples] == [
        f"{file}, line 3",
        f"{file}, line 5",
    ]
    assert prepare(file, skip_bad_rows=True).bad_rows == 2  # remembered with the pairs


def test_bytes_that_are_not_utf_8_are_a_bad_row(prepare, tmp_path: Path):
    file = tmp_path / "x.jsonl"
    file.write_bytes(json.dumps(ROWS[0]).encode() + b'\n{"query": "\xff"}\n')
    with pytest.raises(DataError, match=r"line 2: this is not UTF-8 .*at byte 12"):
        prepare(str(file))


def test_a_bad_row_of_parquet_is_told_by_its_row(prepare, tmp_path: Path):
    rows = [{"query": str(i), "document": "" if i == 1_500 else "d"} for i in range(2_000)]
    file = write_rows(tmp_path / "x.parquet", rows)
    with pytest.raises(DataError, match=r"x\.parquet, row 1501: document is empty"):
        prepare(file)
    file = write_rows(tmp_path / "y.parquet", [{"title": "a", "text": "b"}])
    with pytest.raises(DataError, match=r"row 1: .* but this row has title, text"):
        prepare(file)


def test_a_file_that_ends_half_way_is_an_error_whatever_is_skipped(prepare, tmp_path: Path):
    for name in ("x.jsonl.gz", "x.parquet"):
        file = Path(write_rows(tmp_path / name, ROWS * 100))
        file.write_bytes(file.read_bytes()[:-10])
        with pytest.raises(DataError, match=r"cannot be read beyond .*download it again"):
            prepare(str(file), skip_bad_rows=True)
    (tmp_path / "plain.jsonl.gz").write_text(json.dumps(ROWS[0]))
    with pytest.raises(DataError, match="cannot be read beyond line 0"):
        prepare(str(tmp_path / "plain.jsonl.gz"))


# Choosing


def test_domains_are_kept_or_left_out_by_name(prepare, tmp_path: Path):
    file = write_rows(tmp_path / "x.jsonl", ROWS)
    only = prepare(file, only_domains=["y"])
    assert list(only.pairs) == [PAIRS[1]] and only.sources[0].left_out == 2
    assert list(prepare(file, exclude_domains=("y",)).pairs) == [PAIRS[0], PAIRS[2]]


def test_a_domain_that_nobody_has_is_refused_with_the_near_ones(prepare, tmp_path: Path):
    rows = [{"query": "a", "document": "b", "domain": name} for name in ("numpy", "scipy")]
    file = write_rows(tmp_path / "x.jsonl", rows)
    for option in ("only_domains", "exclude_domains"):
        with pytest.raises(ConfigError, match=rf"{option} names 'numpi'.* Did you mean 'numpy'"):
            prepare(file, **{option: ["numpi", "scipy"]})
    # One pair is not all, so nobody can say that the name is wrong.
    assert len(prepare(file, exclude_domains=["numpi"], most_per_source=1).pairs) == 1


def test_the_first_of_every_source_are_kept(prepare, tmp_path: Path):
    one, two = write_rows(tmp_path / "1.jsonl", ROWS), write_rows(tmp_path / "2.jsonl", ROWS)
    prepared = prepare(one, two, most_per_source=2)
    assert list(prepared.pairs) == [*PAIRS[:2], *PAIRS[:2]]
    assert not prepared.sources[0].read_to_the_end
    assert list(prepare(one, most_per_source=2, only_domains=["x"]).pairs) == [PAIRS[0], PAIRS[2]]
    assert prepare(one, most_per_source=3).sources[0].read_to_the_end


def test_nothing_left_is_an_error_that_says_why(prepare, tmp_path: Path):
    file = write_rows(tmp_path / "x.jsonl", [*ROWS, "nonsense"])
    with pytest.raises(DataError, match=r"3 are of domains .* 1 rows are bad, such as .*line 4"):
        prepare(file, exclude_domains=["x", "y"], skip_bad_rows=True)
    with pytest.raises(DataError, match="No pairs are left"):
        prepare(write_rows(tmp_path / "empty.jsonl", []))


# Names


def test_a_name_that_is_nothing_is_refused_with_the_near_ones(prepare, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"no source 'hup:x'.* Did you mean 'hub'"):
        prepare("hup:x")
    with pytest.raises(DataError, match=r"no file or folder missing\.jsonl"):
        prepare("missing.jsonl")
    with pytest.raises(DataError, match=r"x\.csv is none of \.jsonl, \.jsonl\.gz, \.parquet"):
        prepare(write_rows(tmp_path / "x.csv", ROWS))
    with pytest.raises(DataError, match=r"holds no \.jsonl"):
        (tmp_path / "nothing").mkdir()
        prepare(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match=r"data\.sources is empty"):
        prepare()


# The cache


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[FileSource]:
    """Every file source that is read from now on."""
    found, read = [], FileSource.read

    def counted(self: FileSource) -> Iterator[Any]:
        found.append(self)
        return read(self)

    monkeypatch.setattr(FileSource, "read", counted)
    return found


def test_the_same_content_is_read_once_wherever_it_stands(prepare, tmp_path: Path, reads):
    file = Path(write_rows(tmp_path / "x.jsonl", ROWS))
    first = prepare(str(file))
    assert prepare(str(file)).pairs.digest == first.pairs.digest and len(reads) == 1

    (tmp_path / "elsewhere").mkdir()
    moved = file.rename(tmp_path / "elsewhere" / "x.jsonl")
    found = prepare(str(moved))
    assert found.pairs.folder == first.pairs.folder and len(reads) == 1
    assert found.sources[0].name == str(moved)

    write_rows(moved, ROWS[:2])
    assert list(prepare(str(moved)).pairs) == PAIRS[:2] and len(reads) == 2
    prepare(str(moved), most_per_source=1)
    prepare(str(moved), only_domains=["x"])
    prepare(str(moved), exclude_domains=["x"])
    prepare(str(moved), skip_bad_rows=True)
    assert len(reads) == 6


def test_a_damaged_cache_is_made_again_and_leftovers_go(prepare, tmp_path: Path, reads):
    file = write_rows(tmp_path / "x.jsonl", ROWS)
    folder = prepare(file).pairs.folder
    leftover = folder.with_name(f"{folder.name}.1234.unfinished")
    leftover.mkdir()
    (folder / "queries.utf8").write_bytes(b"")
    assert list(prepare(file).pairs) == PAIRS and len(reads) == 2
    assert not leftover.exists()
    folder.with_name(f"{folder.name}.json").unlink()
    assert list(prepare(file).pairs) == PAIRS and len(reads) == 3


def test_a_file_that_changes_while_it_is_read_is_not_kept(prepare, tmp_path: Path):
    file = Path(write_rows(tmp_path / "x.jsonl", ROWS * 1_000))

    def meanwhile(pairs: int) -> None:
        os.utime(file, ns=(1, 1))
        with file.open("a") as content:
            content.write(json.dumps(ROWS[0]) + "\n")

    with pytest.raises(DataError, match="A source changed while it was read"):
        prepare(str(file), progress=meanwhile)
    assert len(prepare(str(file)).pairs) > 3_000


def test_a_cache_that_cannot_be_made_says_what_to_do(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="set CDE_EVAL_CACHE"):
        prepare_pairs([write_rows(tmp_path / "x.jsonl", ROWS)], cache=tmp_path / "file")


# Plug-ins

LETTERS = """
    from cde_core.train.data.pairs import Pair

    asked = []

    class Letters:
        def __init__(self, letters):
            self.letters, self.revision = letters, letters

        @property
        def pairs(self):
            asked.append(self.letters)
            for letter in self.letters:
                yield Pair(letter, letter * 2, (), "letters")
"""


@pytest.fixture
def somebodys_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package of somebody else's, installed as pip would: a module and its metadata."""
    (tmp_path / "somebodys_letters.py").write_text(textwrap.dedent(LETTERS))
    info = tmp_path / "somebodys_letters-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-letters\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{PLUGINS}]\nletters = somebodys_letters:Letters\n")
    monkeypatch.syspath_prepend(tmp_path)
    import somebodys_letters

    somebodys_letters.asked.clear()
    return somebodys_letters


def test_a_plug_in_is_asked_once_for_the_same_revision(prepare, somebodys_source: Any):
    assert [pair.query for pair in prepare("letters:ab").pairs] == ["a", "b"]
    assert next(iter(prepare("letters:ab").pairs)) == Pair("a", "aa", (), "letters")
    assert somebodys_source.asked == ["ab"]
    prepare("letters:abc")
    assert somebodys_source.asked == ["ab", "abc"]


def test_a_plug_in_goes_before_a_folder_of_its_name(
    prepare, somebodys_source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letters").mkdir()
    write_rows(tmp_path / "letters" / "x.jsonl", ROWS)
    assert list(prepare("./letters").pairs) == PAIRS
    assert len(prepare("letters:a").pairs) == 1


# Texts with themselves


def test_every_text_is_paired_with_itself_and_negatives_are_left_out(prepare, tmp_path: Path):
    rows = [*ROWS, {"title": "-", "text": "alone", "domain": "x"}]
    prepared = prepare(write_rows(tmp_path / "rows.jsonl", rows), twice=True)
    found = [(pair.query, pair.document, pair.negatives, pair.domain) for pair in prepared.pairs]
    texts = [("a", "x"), ("b", "x"), ("ü 🍬", "y"), ("line\nline", "y"), ("e", "x"), ("f", "x")]
    assert found == [(text, text, (), domain) for text, domain in [*texts, ("alone", "x")]]
    with pytest.raises(DataError, match=r"line 4: a pair needs .* this row has title, text"):
        prepare(str(tmp_path / "rows.jsonl"))


def test_scores_and_labels_reach_the_pairs_from_every_format(prepare, tmp_path: Path):
    rows = [
        {
            **{"query": "a", "document": "b", "label": None, "score": None},
            **{"negatives": ["c", "d"], "scores": [2.0, 1.0, -1.0]},
        },
        {"query": "e", "document": "f", "label": "yes", "score": 0.5},
    ]
    for name in ("rows.jsonl", "rows.parquet"):
        assert list(prepare(write_rows(tmp_path / name, rows)).pairs) == [
            Pair("a", "b", ("c", "d"), "rows", scores=(2.0, 1.0, -1.0)),
            Pair("e", "f", (), "rows", score=0.5, label="yes"),
        ]
