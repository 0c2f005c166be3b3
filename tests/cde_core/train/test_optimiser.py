import pytest
import torch
from torch import nn
from transformers import get_linear_schedule_with_warmup

from cde_core.errors import ConfigError, ModelError
from cde_core.train.optimiser import (
    clip_gradients,
    learning_rate_at,
    make_optimiser,
    memory_of,
    parameter_groups,
    restore_memory,
    set_learning_rate,
)


def named_groups(model, groups):
    """For every parameter that is trained, its learning rate and weight decay."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        names[id(parameter)]: (group["lr"], group["weight_decay"])
        for group in groups
        for parameter in group["params"]
    }


def groups_of(model, **settings):
    defaults = {"learning_rate": 1e-5, "new_learning_rate": 1e-3, "weight_decay": 0.1}
    return parameter_groups(model, **{**defaults, **settings})


@pytest.fixture
def model(contextual):
    return contextual(
        "bert", context_attention="prefix", context_bias_init=-4.0, null_context=True
    ).train()


# Groups


def test_backbones_and_new_parts_learn_at_their_own_rates(model):
    found = named_groups(model, groups_of(model))
    assert found["backbone.words.weight"] == (1e-5, 0.1)
    assert found["first_stage.backbone.words.weight"] == (1e-5, 0.1)
    assert found["first_stage.head.0.weight"] == (1e-3, 0.1)
    assert found["output_projection.2.weight"] == (1e-3, 0.1)
    assert {rate for rate, _ in named_groups(model, groups_of(model, new_learning_rate=0)).values()} == {1e-5}  # fmt: skip # noqa: E501


def test_biases_norms_and_single_vectors_do_not_decay(model):
    found = named_groups(model, groups_of(model))
    for name in ("null_embedding", "context_bias", "output_projection.0.bias"):
        assert found[name][1] == 0
    norms = [
        f"{place}.{name}"
        for place, module in model.named_modules()
        if isinstance(module, nn.LayerNorm)
        for name, _ in module.named_parameters()
    ]
    assert norms and {found[name][1] for name in norms} == {0}


def test_every_parameter_is_in_one_group_once(model):
    groups = groups_of(model)
    parameters = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(parameters) == sorted(map(id, model.parameters()))


def test_frozen_parts_stand_still(model):
    groups = groups_of(model, freeze=("first_stage.backbone", "backbone.layers.0"))
    trained = set(named_groups(model, groups))
    for name, parameter in model.named_parameters():
        frozen = name.startswith(("first_stage.backbone.", "backbone.layers.0."))
        assert parameter.requires_grad is not frozen
        assert (name in trained) is not frozen


def test_a_frozen_part_is_not_every_part_that_starts_with_its_name():
    layers = nn.Module()
    layers.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(11)])
    groups_of(layers, freeze=("layers.1",))
    assert not layers.layers[1].weight.requires_grad
    assert layers.layers[10].weight.requires_grad


@pytest.mark.parametrize(
    ("asked", "offered"),
    [("first_stage.backbon", "'first_stage.backbone'"), ("decoder", "backbone, prompt_projection")],
)
def test_a_part_that_is_not_there_is_answered_with_those_that_are(model, asked, offered):
    with pytest.raises(ConfigError, match=offered) as error:
        groups_of(model, freeze=(asked,))
    assert "\n" not in str(error.value)


def test_freezing_everything_leaves_nothing_to_be_trained():
    with pytest.raises(ConfigError, match="nothing to be trained"):
        groups_of(nn.Sequential(nn.Linear(2, 2)), freeze=("0",))


def test_a_step_equals_adamw_done_by_hand():
    # First step: the moments are the gradient's own, so the weight moves by the learning rate
    # against the gradient's sign, after it shrank by learning rate × decay: 2 - 2·0.1·0.5 - 0.1.
    model = nn.Linear(1, 1)
    nn.init.constant_(model.weight, 2.0)
    optimiser = make_optimiser(model, learning_rate=0.1, weight_decay=0.5, epsilon=0)
    (3 * model.weight.sum() + 5 * model.bias.sum()).backward()
    before = model.bias.item()
    optimiser.step()
    assert model.weight.item() == pytest.approx(1.8)
    assert model.bias.item() == pytest.approx(before - 0.1)


def test_an_optimiser_goes_on_with_the_memory_of_another():
    torch.manual_seed(0)
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    other.load_state_dict(one.state_dict())

    def step(model, optimiser, scale):
        optimiser.zero_grad()
        (scale * model(torch.ones(4, 3))).square().sum().backward()
        optimiser.step()

    first, second = (make_optimiser(model, learning_rate=0.1) for model in (one, other))
    step(one, first, 1.0)
    other.load_state_dict(one.state_dict())
    restore_memory(second, other, memory_of(first, one), where="here")
    step(one, first, 2.0)
    step(other, second, 2.0)
    assert torch.equal(one.weight, other.weight) and torch.equal(one.bias, other.bias)


def test_memory_of_what_is_not_trained_is_refused():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    whole = make_optimiser(model, learning_rate=0.1)
    model(torch.ones(1, 2)).sum().backward()
    whole.step()
    memory = memory_of(whole, model)
    part = make_optimiser(model, learning_rate=0.1, freeze=("1",))
    with pytest.raises(ModelError, match=r"here holds .* 1\.weight, which is not trained"):
        restore_memory(part, model, memory, where="here")


# Schedule


def test_the_learning_rate_rises_to_one_and_falls_to_zero():
    rates = [learning_rate_at(step, steps=10, warmup=4) for step in range(11)]
    rise, fall = [1 / 4, 2 / 4, 3 / 4, 1], [6 / 6, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0]
    assert rates == pytest.approx(rise + fall)


def test_the_fall_equals_that_of_transformers():
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = get_linear_schedule_with_warmup(optimiser, 7, 50)
    for step in range(50):
        if step >= 7:
            ours = learning_rate_at(step, steps=50, warmup=7)
            assert ours == pytest.approx(theirs.get_last_lr()[0])
        optimiser.step()
        theirs.step()


def test_a_constant_schedule_stays_at_one():
    rates = [learning_rate_at(step, steps=9, warmup=2, schedule="constant") for step in range(12)]
    assert rates == [0.5] + [1.0] * 11


@pytest.mark.parametrize("warmup", [8, 1000])
@pytest.mark.parametrize("schedule", ["linear", "constant"])
def test_a_warm_up_as_long_as_the_run_takes_half_of_it(warmup, schedule):
    for step in range(8):
        short = learning_rate_at(step, steps=8, warmup=4, schedule=schedule)
        assert learning_rate_at(step, steps=8, warmup=warmup, schedule=schedule) == short


def test_every_factor_is_between_zero_and_one_and_no_step_of_a_run_is_lost():
    for steps in range(1, 12):
        for warmup in range(15):
            rates = [learning_rate_at(step, steps=steps, warmup=warmup) for step in range(steps)]
            assert all(0 < rate <= 1 for rate in rates) and max(rates) == 1
            assert learning_rate_at(steps, steps=steps, warmup=warmup) == 0


def test_a_cosine_equals_that_of_pytorch_and_ends_where_it_is_told():
    parameter = torch.nn.Parameter(torch.zeros(1))
    theirs = torch.optim.SGD([parameter], lr=2e-2)
    annealing = torch.optim.lr_scheduler.CosineAnnealingLR(theirs, T_max=40, eta_min=1e-5)
    for step in range(40):
        factor = learning_rate_at(
            step + 10, steps=50, warmup=10, schedule="cosine", lowest=1e-5 / 2e-2
        )
        assert 2e-2 * factor == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-9)
        theirs.step()
        annealing.step()
    assert learning_rate_at(50, steps=50, schedule="cosine", lowest=0.25) == 0.25
    assert learning_rate_at(25, steps=50, lowest=0.5) == 0.75


def test_an_unknown_schedule_is_answered_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"linear, cosine, constant.*Did you mean 'linear'"):
        learning_rate_at(0, steps=3, schedule="liner")  # type: ignore[arg-type]


def test_each_group_keeps_to_its_own_rate_however_often_it_is_set(model):
    optimiser = make_optimiser(model, learning_rate=1e-2, new_learning_rate=1.0)
    for factor in (0.5, 0.25, 1.0, 0.1):
        set_learning_rate(optimiser, factor)
        rates = {group["lr"] for group in optimiser.param_groups}
        assert rates == {factor * 1e-2, factor * 1.0}


# Clipping


def test_gradients_are_clipped_together_and_their_norm_before_is_told():
    one, other = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    one.grad, other.grad = torch.tensor([3.0]), torch.tensor([4.0])
    assert clip_gradients([one, other, nn.Parameter(torch.zeros(1))], 1.0) == pytest.approx(5)
    assert (one.grad.item(), other.grad.item()) == pytest.approx((0.6, 0.8), abs=1e-5)


def test_small_gradients_and_a_limit_of_zero_change_nothing():
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([3.0, 4.0])
    for most in (5.1, 0.0):
        assert clip_gradients(iter([parameter]), most) == pytest.approx(5)
        assert parameter.grad.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("broken", [float("inf"), float("nan")])
def test_a_norm_that_is_no_number_is_told_as_it_is(broken):
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([1.0, broken])
    assert clip_gradients([parameter], 1.0) == pytest.approx(broken, nan_ok=True)
