import json

import pytest

from cde_eval.commands.options import Loading
from cde_eval.commands.position_bias import position_bias
from cde_eval.encoders.bm25 import Bm25
from cde_eval.probes.position import asking
from cde_eval.probes.table import read_probe

from .counting_encoder import CountingEncoder, numbered_passages


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")
    loaded = {
        "fifty": CountingEncoder(800, first=50),
        "contextual": CountingEncoder(800, context_size=2),
        "bm25": Bm25(),
    }
    monkeypatch.setattr(asking, "load_kept", lambda name, options: loaded[name])
    data = numbered_passages()
    folder = tmp_path / "numbered"
    folder.mkdir()
    documents = [{"_id": str(row), "text": text} for row, text in enumerate(data.documents)]
    passages = [
        {"id": p.id, "query": p.query, "document": str(p.document), "start": p.start, "end": p.end}
        for p in data.passages
    ]
    for name, rows in (("documents", documents), ("passages", passages)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def _lines(printed):
    return [line.split() for line in printed.splitlines() if line]


def test_one_table_says_what_was_found(folder, tmp_path, capsys):
    position_bias(
        ("fifty",), data=(str(folder),), loading=Loading(device="cpu"), output=tmp_path / "out"
    )
    lines = _lines(capsys.readouterr().out)
    (mrr,) = (line for line in lines if "MRR@100" in line)
    # Moved to the beginning every passage is found first; unread, ranks are 1, 2, 3 and 4.
    unread = f"{(1 + 1 / 2 + 1 / 3 + 1 / 4) / 4:.4f}"
    assert mrr[-7:-2] == [unread, "1.0000", unread, unread, f"{float(unread) - 1:+.4f}"]
    (starts,) = (line for line in lines if line[0] == "positions")
    assert starts[-3:] == ["600", "600", "600"]
    assert len(read_probe(tmp_path / "out", "position-moved")) == 44


def test_what_a_model_cannot_do_is_said_and_the_others_go_on(folder, tmp_path, capsys):
    with pytest.raises(SystemExit):
        position_bias(
            ("bm25", "fifty"), data=(str(folder),), part=("tenths",), output=tmp_path / "out"
        )
    printed = capsys.readouterr()
    assert "cde-eval: bm25 ranks documents" in printed.err
    assert "fifty" in printed.out


def test_another_context_file_of_the_same_name_is_asked_again(folder, tmp_path):
    file = tmp_path / "notes.txt"

    def found():
        position_bias(
            ("contextual",),
            part=("moved",),
            data=(str(folder),),
            context=(f"file:{file}", "none"),
            output=tmp_path / "out",
        )
        return read_probe(tmp_path / "out", "position-moved")

    file.write_text("w0100 w0101\nw0102\n")
    assert len(found()) == len(found()) == 88
    file.write_text("w0300\nw0301\n")
    assert len(found()) == 2 * 88


def test_passages_that_cannot_be_moved_are_said(folder, tmp_path, capsys):
    rows = [json.loads(line) for line in (folder / "passages.jsonl").read_text().splitlines()]
    wide = [{**row, "start": 0} for row in rows]  # each reaches from the beginning to the middle
    (folder / "passages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in wide))
    with pytest.raises(SystemExit):
        position_bias(("fifty",), part=("moved",), data=(str(folder),), output=tmp_path / "out")
    assert "No passage of numbered can be moved" in capsys.readouterr().err


def test_each_context_has_its_row(folder, tmp_path, capsys):
    position_bias(
        ("contextual",),
        part=("moved",),
        data=(str(folder),),
        context=("corpus", "none"),
        draws=2,
        output=tmp_path / "out",
    )
    lines = [line for line in _lines(capsys.readouterr().out) if "nDCG@10" in line]
    assert [line[4] for line in lines] == ["corpus", "none"]
    frame = read_probe(tmp_path / "out", "position-moved")
    assert frame.groupby("context")["draw"].nunique().to_dict() == {"corpus": 2, "none": 1}
