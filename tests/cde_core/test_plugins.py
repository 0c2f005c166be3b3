from pathlib import Path

import pytest

from cde_core.errors import ConfigError
from cde_core.plugins import plugin, plugin_names

GROUP = "tiny.plants"


@pytest.fixture
def somebodys_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of somebody else's, installed as pip would: a module and its metadata."""
    (tmp_path / "somebodys_plants.py").write_text("def grow(argument):\n    return argument * 2\n")
    info = tmp_path / "somebodys_plants-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-plants\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{GROUP}]\n"
        "willow = somebodys_plants:grow\n"
        "maple = somebodys_plants:is_not_there\n"
        "birch = somebodys_missing_package:grow\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


def test_an_installed_package_is_found_by_the_name_it_declares(somebodys_package: None):
    assert plugin_names(GROUP) == ("birch", "maple", "willow")
    assert plugin(GROUP, "willow")("ab") == "abab"


def test_an_unknown_name_is_refused_with_the_near_ones(somebodys_package: None):
    with pytest.raises(ConfigError, match=r"'wilow' in the group tiny\.plants\. Did you mean 'wil"):
        plugin(GROUP, "wilow")
    with pytest.raises(ConfigError, match="installed are birch, maple, willow"):
        plugin(GROUP, "oak")


def test_a_group_that_nobody_declares_is_empty():
    assert plugin_names("tiny.stones") == ()
    with pytest.raises(ConfigError, match="none is installed"):
        plugin("tiny.stones", "granite")


@pytest.mark.parametrize("name", ["maple", "birch"])
def test_what_cannot_be_imported_is_said_with_its_place(somebodys_package: None, name: str):
    with pytest.raises(ConfigError, match=rf"'{name}' of tiny\.plants \(somebodys_.*Reinstall"):
        plugin(GROUP, name)
