"""Processes share a batch without gaps, and one alone needs no path of its own."""

import numpy as np
import pytest
import torch

from cde_core.errors import ConfigError
from cde_core.recipe import BatchConfig, Recipe
from cde_core.train.distributed import World
from cde_core.train.loop import finish_run


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_shares_are_neighbours_and_together_everything(size):
    shares = [World(rank=rank, size=size).share(11) for rank in range(size)]
    assert np.concatenate(shares).tolist() == list(range(11))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_one_process_is_its_own_total():
    world, values = World(), torch.tensor([1.0, 2.0])
    assert world.total(values) is values and values.tolist() == [1.0, 2.0]
    world.wait()
    world.leave()


def test_a_parameter_that_nobody_used_has_a_gradient_of_zeros_unless_it_is_frozen():
    used, unused, frozen = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
    frozen.requires_grad_(False)
    (3 * used).sum().backward()
    World().total_gradients([used, unused, frozen])
    assert used.grad.tolist() == [3.0, 3.0]
    assert unused.grad.tolist() == [0.0, 0.0]
    assert frozen.grad is None


def test_only_the_first_process_leads():
    assert World(rank=0, size=2).leads and not World(rank=1, size=2).leads


def test_more_processes_than_pairs_are_refused_before_a_folder_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(World, "join", lambda device: World(rank=2, size=3))
    monkeypatch.setattr(World, "leave", lambda world: None)
    recipe = Recipe(output=tmp_path / "run", batches=BatchConfig(size=2))
    with pytest.raises(ConfigError, match=r"batches\.size is 2, but 3 processes .* set it to 3"):
        finish_run(recipe, lambda *_: pytest.fail("the run began"))
    assert not (tmp_path / "run").exists()


def test_joining_alone_takes_the_device_that_is_asked_for(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert World.join("cpu") == World()
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="device is 'cuda:0', which cannot be used here"):
            World.join("cuda")
