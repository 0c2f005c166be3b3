import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cde_core.errors import ConfigError, DataError
from cde_core.train.data.hub_source import HubSource
from cde_core.train.data.pairs import Pair
from cde_core.train.data.revisions import Revisions
from cde_core.train.data.row_layouts import BadRow

Hub = Callable[..., Path]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A hub with one data set, org/tiny: real files, read by the real library, from a folder."""
    import datasets
    import huggingface_hub

    folder, real = tmp_path / "hub", datasets.load_dataset
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder.mkdir()

    def load(name: str, config: str | None = None, **options: Any) -> Any:
        assert name == "org/tiny" and options.pop("revision") in (None, "c0ffee")
        return real(str(folder), config, **options)

    def put(*, sha: str | None = "c0ffee", **files: list[dict[str, Any]]) -> Path:
        for name, rows in files.items():
            file = folder / "data" / f"{name}-00000-of-00001.jsonl"
            file.parent.mkdir(exist_ok=True)
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        if sha:
            about = lambda self, name, **_: SimpleNamespace(sha=sha)  # noqa: E731
            monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", about)
        return folder

    configs = datasets.get_dataset_config_names
    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setattr(
        datasets, "get_dataset_config_names", lambda name, **_: configs(str(folder))
    )
    return put


def read(argument: str, tmp_path: Path) -> list[Pair | BadRow]:
    source = HubSource(argument)
    source.revision(Revisions(tmp_path / "revisions.json"))
    return list(source.read())


FEVER = [{"query": "a", "pos": ["b", "c"], "neg": ["d"], "prompt": "p", "type": "t"}]
SQUAD = [{"query": "e", "pos": ["f"], "neg": [], "prompt": "p", "type": "t"}]


def test_splits_are_domains_where_none_is_called_train(hub: Hub, tmp_path: Path):
    hub(squad=SQUAD, fever=FEVER)
    fever, squad = Pair("a", "b", ("d",), "fever"), Pair("e", "f", (), "squad")
    assert read("org/tiny", tmp_path) == [fever, squad]
    assert read("org/tiny:squad", tmp_path) == [squad]


def test_of_train_and_test_only_train_is_read(hub: Hub, tmp_path: Path):
    row = {"query": "a", "document": "b", "negative": ["c"]}
    hub(train=[row, row | {"query": ""}], test=[row])
    assert read("org/tiny", tmp_path) == [
        Pair("a", "b", ("c",), "tiny"),
        BadRow("hub:org/tiny, tiny, row 2", "query is empty"),
    ]


def test_a_column_that_names_the_domain_goes_before_the_split(hub: Hub, tmp_path: Path):
    hub(train=[{"query": "a", "document": "b", "dataset": "paq"}])
    assert read("org/tiny", tmp_path) == [Pair("a", "b", (), "paq")]


def test_a_part_that_is_not_there_is_refused_with_the_near_ones(hub: Hub, tmp_path: Path):
    hub(squad=SQUAD, fever=FEVER)
    with pytest.raises(ConfigError, match=r"or split 'fevre'. Did you mean 'fever'"):
        read("org/tiny:fevre", tmp_path)


def test_the_revision_is_the_commit_and_is_remembered_offline(hub: Hub, tmp_path: Path):
    revisions = Revisions(tmp_path / "revisions.json")
    assert HubSource("org/tiny:x").revision(revisions) == "hub:org/tiny:x offline"  # HF_HUB_OFFLINE
    with pytest.MonkeyPatch.context() as online:
        about = SimpleNamespace(sha="c0ffee")
        online.setattr("huggingface_hub.HfApi.dataset_info", lambda self, name, **_: about)
        assert HubSource("org/tiny:x").revision(revisions) == "hub:org/tiny:x c0ffee"
    remembered = Revisions(tmp_path / "revisions.json")
    assert HubSource("org/tiny").revision(remembered) == "hub:org/tiny: c0ffee"


def test_a_hub_that_cannot_be_reached_is_said_in_one_line(tmp_path: Path):
    reason = r"hub:org/nowhere cannot be read \(.*name their folder"
    with pytest.raises(DataError, match=reason) as error:
        read("org/nowhere", tmp_path)
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="no data set 'a b' that you may read"):
        read("a b", tmp_path)
