import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

import cde_core
from cde_core.errors import ModelError, TrainingError
from cde_core.model import checkpoint
from cde_core.model.contextual import ContextualEncoder
from cde_core.train.checkpoints import newest_checkpoint, save_checkpoint
from cde_core.train.optimiser import make_optimiser

REPOSITORY = Path(__file__).resolve().parents[3]
FILES = (
    "config.json",
    "model.safetensors",
    "optimiser.safetensors",
    "state.json",
    "tokenizer.json",
)


class Run:
    """A tiny model in training; its batches depend on nothing but the step's number."""

    def __init__(self, encoder, *, freeze=("first_stage.backbone",)):
        self.encoder = encoder("nomic", context_attention="prefix", null_context=True)
        self.optimiser = make_optimiser(self.encoder.model, learning_rate=1e-2, freeze=freeze)
        self.step = 0

    def train(self, steps):
        model = self.encoder.model.train()
        assert isinstance(model, ContextualEncoder)
        for _ in range(steps):
            generator = torch.Generator().manual_seed(self.step)
            ids = torch.randint(4, 60, (4, 6), generator=generator)
            context = model.prepare(model.read_context(ids[:3]))
            self.optimiser.zero_grad()
            model(ids, None, context).square().mean().backward()
            self.optimiser.step()
            self.step += 1
        return self

    def save(self, folder, *, keep=9, **extra):
        return save_checkpoint(
            folder,
            self.encoder,
            self.optimiser,
            step=self.step,
            recipe_digest="abc",
            extra=extra,
            keep=keep,
        )

    def state(self):
        """Every number that decides how training goes on."""
        moments = self.optimiser.state_dict()["state"]
        return {
            **self.encoder.model.state_dict(),
            **{f"{n}/{what}": t for n, kept in moments.items() for what, t in kept.items()},
        }


def same(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture
def run(encoder):
    return lambda **settings: Run(encoder, **settings)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "out" / "checkpoints"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def newest(folder):
    """The newest checkpoint, and what was said about others."""
    said: list[str] = []
    return newest_checkpoint(folder, warn=said.append), said


def flip_a_byte(file):
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)


# Exactness


def test_a_restored_run_goes_on_bit_for_bit(run, folder):
    straight = run().train(3)
    straight.save(folder)
    straight.train(4)

    resumed = run().train(1)  # whatever it was before is gone
    checkpoint, said = newest(folder)
    assert checkpoint is not None and not said
    checkpoint.restore(resumed.encoder, resumed.optimiser)
    resumed.step = checkpoint.step
    resumed.train(4)
    assert same(resumed.state(), straight.state())


def test_restoring_keeps_the_tensors_that_the_optimiser_refers_to(run, folder):
    straight = run().train(2)
    straight.save(folder)
    other = run()
    before = {name: p.data_ptr() for name, p in other.encoder.model.named_parameters()}
    newest(folder)[0].restore(other.encoder, other.optimiser)
    after = {name: p.data_ptr() for name, p in other.encoder.model.named_parameters()}
    assert before == after
    assert same(other.state(), straight.state())


def test_what_an_encoder_had_prepared_is_forgotten_when_it_is_restored(run, folder):
    one, other = run().train(2), run()
    one.save(folder)
    for each in (one, other):
        each.encoder.model.eval()
    old = other.encoder.encode(["the cat"])
    newest(folder)[0].restore(other.encoder, other.optimiser)
    new = other.encoder.encode(["the cat"])
    np.testing.assert_array_equal(new, one.encoder.encode(["the cat"]))
    assert not np.array_equal(old, new)


def test_parameters_that_were_never_moved_have_no_state_before_and_after(run, folder):
    before = run()  # not one step
    before.save(folder)
    assert not load_file(folder / "step-0000000" / "optimiser.safetensors")
    after = run().train(2)
    newest(folder)[0].restore(after.encoder, after.optimiser)
    assert not after.optimiser.state_dict()["state"]
    assert same(after.state(), before.state())


def test_learning_rates_are_the_recipes_and_not_the_checkpoints(run, folder):
    run().train(1).save(folder)
    other = run()
    for group in other.optimiser.param_groups:
        group["lr"] = 0.5
    newest(folder)[0].restore(other.encoder, other.optimiser)
    assert {group["lr"] for group in other.optimiser.param_groups} == {0.5}


def test_a_checkpoint_is_a_model_that_can_be_evaluated(run, folder):
    trained = run().train(2)
    path = trained.save(folder)
    assert path == folder / "step-0000002" and tuple(names(path)) == FILES
    trained.encoder.model.eval()
    loaded = cde_core.load(path)
    np.testing.assert_array_equal(
        loaded.encode(["the king", "bread"]), trained.encoder.encode(["the king", "bread"])
    )


def test_everything_said_to_a_checkpoint_comes_back(run, folder):
    run().train(2).save(folder, epoch=3, name="Ödland", seen={"pairs": 0.1 + 0.2})
    checkpoint, _ = newest(folder)
    assert (checkpoint.step, checkpoint.recipe_digest) == (2, "abc")
    assert checkpoint.extra == {"epoch": 3, "name": "Ödland", "seen": {"pairs": 0.1 + 0.2}}


def test_a_checkpoint_of_another_model_or_optimiser_is_refused(run, encoder, folder):
    run(freeze=()).train(1).save(folder)
    checkpoint, _ = newest(folder)
    frozen = run()
    with pytest.raises(ModelError, match=r"first_stage\.backbone.*is not trained now"):
        checkpoint.restore(frozen.encoder, frozen.optimiser)
    for other in (encoder("bert"), encoder("nomic", soft_prompts=5, null_context=True)):
        before = {name: tensor.clone() for name, tensor in other.model.state_dict().items()}
        with pytest.raises(ModelError) as error:
            checkpoint.restore(other, make_optimiser(other.model, learning_rate=1e-2))
        assert "\n" not in str(error.value)
        assert same(before, other.model.state_dict())


# Damage


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["flipped", "truncated", "empty", "gone"])
def test_a_damaged_checkpoint_is_said_and_the_one_before_is_used(run, folder, name, how):
    training = run().train(1)
    training.save(folder)
    file = training.train(1).save(folder) / name
    if how == "flipped":
        flip_a_byte(file)
    elif how == "truncated":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif how == "empty":
        file.write_bytes(b"")
    else:
        file.unlink()
    checkpoint, (said,) = newest(folder)
    assert checkpoint.step == 1
    assert str(file) in said and "using step-0000001 instead" in said and "\n" not in said


def test_a_number_changed_in_the_state_is_noticed(run, folder):
    file = run().train(1).save(folder) / "state.json"
    file.write_text(file.read_text().replace('"step": 1', '"step": 7'))
    checkpoint, (said,) = newest(folder)
    assert checkpoint is None and "state.json is damaged" in said


def test_where_all_are_damaged_each_is_said_and_none_is_used(run, folder):
    training = run()
    for _ in range(2):
        flip_a_byte(training.train(1).save(folder) / "model.safetensors")
    checkpoint, said = newest(folder)
    assert checkpoint is None
    assert [line.count("\n") for line in said] == [0, 0]
    assert "step-0000002" in said[0] and "step-0000001" in said[1]
    assert all("none is used" in line for line in said)


def test_a_format_of_another_day_is_said(run, folder, monkeypatch):
    monkeypatch.setattr("cde_core.train.checkpoints.FORMAT", "cde_core training checkpoint 2")
    run().train(1).save(folder)
    monkeypatch.undo()
    checkpoint, (said,) = newest(folder)
    assert checkpoint is None and "checkpoint 2" in said


def test_without_a_folder_there_is_no_checkpoint_and_nothing_to_say(tmp_path):
    assert newest(tmp_path / "nowhere") == (None, [])


# Kills


def test_a_run_killed_before_the_rename_leaves_the_checkpoint_before(run, folder, monkeypatch):
    training = run().train(1)
    training.save(folder)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("cde_core.train.checkpoints._put_in_place", killed)
        with pytest.raises(KeyboardInterrupt):
            training.train(1).save(folder)
    assert names(folder) == ["step-0000001", "step-0000002.unfinished"]
    checkpoint, said = newest(folder)
    assert checkpoint.step == 1 and not said

    training.train(1).save(folder)
    assert names(folder) == ["step-0000001", "step-0000003"]


def test_a_leftover_of_the_same_step_is_written_anew(run, folder):
    leftover = folder / "step-0000001.unfinished"
    leftover.mkdir(parents=True)
    (leftover / "other.bin").write_bytes(b"half")
    path = run().train(1).save(folder)
    assert tuple(names(path)) == FILES and names(folder) == ["step-0000001"]


def test_a_checkpoint_that_is_being_replaced_serves_until_the_new_one_does(
    run, folder, monkeypatch
):
    training = run().train(1)
    path = training.save(folder, version="old")
    rename = Path.rename

    def killed_in_between(self, target):
        rename(self, target)
        if self == path:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed_in_between)
        with pytest.raises(KeyboardInterrupt):
            training.save(folder, version="new")
    checkpoint, said = newest(folder)
    assert checkpoint.extra == {"version": "old"} and not said

    training.save(folder, version="newer")
    assert names(folder) == ["step-0000001"]
    assert newest(folder)[0].extra == {"version": "newer"}


def test_a_damaged_checkpoint_is_replaced_by_the_run_that_goes_on(run, folder):
    training = run().train(1)
    flip_a_byte(training.save(folder) / "model.safetensors")
    training.save(folder)
    assert newest(folder)[0].step == 1 and names(folder) == ["step-0000001"]


KILLED = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    import torch
    import cde_core
    from cde_core.train.checkpoints import save_checkpoint
    from cde_core.train.optimiser import make_optimiser

    torch.set_num_threads(1)
    encoder = cde_core.load(sys.argv[1], device="cpu")
    optimiser = make_optimiser(encoder.model, learning_rate=0.1)
    for step in range(1, 10_000):
        sum(p.square().sum() for p in encoder.model.parameters()).backward()
        optimiser.step()
        save_checkpoint(Path(sys.argv[2]), encoder, optimiser, step=step, recipe_digest="",
                        extra={}, keep=2)
        print(step, flush=True)
    """
)


def test_whenever_a_run_is_killed_its_last_checkpoints_are_whole(encoder, folder, tmp_path):
    model = cde_core.save(encoder("bert"), tmp_path / "model")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(model), str(folder)],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while int(process.stdout.readline()) < 3:
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    checkpoint, said = newest(folder)
    assert checkpoint is not None and checkpoint.step >= 3 and not said
    state = json.loads((checkpoint.path / "state.json").read_text())
    assert set(state["files"]) == set(FILES) - {"state.json"}


# Keeping


@pytest.mark.parametrize(("keep", "left"), [(1, [4]), (2, [3, 4]), (0, [4]), (9, [1, 2, 3, 4])])
def test_the_newest_are_kept(run, folder, keep, left):
    training = run()
    for _ in range(4):
        training.train(1).save(folder, keep=keep)
    assert names(folder) == [f"step-{step:07d}" for step in left]


def test_the_one_just_written_is_kept_whatever_newer_ones_are_there(run, folder):
    early, late = run().train(1), run().train(5)
    flip_a_byte(late.save(folder) / "model.safetensors")
    early.save(folder, keep=1)
    assert newest(folder)[0].step == 1


def test_other_files_beside_checkpoints_are_left_alone(run, folder):
    folder.mkdir(parents=True)
    (folder / "step-notes.txt").write_text("mine")
    training = run()
    for _ in range(2):
        training.train(1).save(folder, keep=1)
    assert names(folder) == ["step-0000002", "step-notes.txt"]


def test_a_checkpoint_that_cannot_be_written_is_one_line_and_leaves_nothing(run, tmp_path):
    place = tmp_path / "file"
    place.write_text("in the way")
    with pytest.raises(TrainingError, match="step 1 cannot be written") as error:
        run().train(1).save(place / "checkpoints")
    assert "\n" not in str(error.value)
    assert names(tmp_path) == ["file"]


def test_what_stops_a_model_from_being_written_is_said_once(run, folder, monkeypatch):
    def full(*_, **__):
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(TrainingError, match=r"\(No space left on device\); make room") as error:
        run().train(1).save(folder)
    assert str(error.value).count("cannot be written") == 1 and not list(folder.iterdir())
