"""Recipes: files, overrides, what is kept of them, and what a mistake is answered with."""

import dataclasses
from pathlib import Path

import pytest
import yaml

from cde_core import recipe as recipes
from cde_core.errors import ConfigError
from cde_core.recipe import (
    BatchConfig,
    DataConfig,
    FilterConfig,
    LossConfig,
    ModelConfig,
    Recipe,
    differences,
    digest,
    read_recipe,
    to_yaml,
    with_overrides,
    with_values,
)


@pytest.fixture
def write(tmp_path):
    """Write a YAML file and return its path."""

    def writing(text: str, name: str = "small.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return writing


def mistake(path: Path) -> str:
    """The one line that a file is answered with, without the folder's name."""
    with pytest.raises(ConfigError) as error:
        read_recipe(path)
    message = str(error.value)
    assert "\n" not in message
    return message.replace(f"{path.parent}/", "")


def test_a_recipe_says_only_what_differs_from_the_defaults(write):
    found = read_recipe(write("steps: 40\nbatches: {size: 64}\n"))
    assert found == Recipe(name="small", steps=40, batches=BatchConfig(size=64))


def test_numbers_that_yaml_takes_for_text_are_numbers_where_one_is_wanted(write):
    text = "optimiser: {learning_rate: 3e-5, betas: [8e-1, 0.99]}\nfilter: {threshold: 9e-1}"
    assert yaml.safe_load("3e-5") == "3e-5"  # the trap
    found = read_recipe(write(text))
    assert found.optimiser.learning_rate == 0.00003 and found.optimiser.betas == (0.8, 0.99)
    assert found.filter.threshold == 0.9


def test_a_whole_number_does_where_a_number_is_wanted(write):
    assert read_recipe(write("loss: {temperature: 1}")).loss.temperature == 1


def test_a_variant_replaces_lists_and_single_values_and_merges_sections(write):
    write("data: {sources: [a, b], prefixes: {x: [q, d]}}\nbatches: {size: 64}\nseed: 3\nabout: A")
    variant = write(
        "extends: small.yaml\ndata: {sources: [c], prefixes: {y: [r, e]}}\n"
        "batches: {packing: random}",
        "variant.yaml",
    )
    found = read_recipe(variant)
    assert found.data.sources == ("c",)
    assert found.data.prefixes == {"x": ("q", "d"), "y": ("r", "e")}
    assert (found.batches.size, found.batches.packing, found.seed) == (64, "random", 3)
    assert (found.name, found.about) == ("variant", "")  # a variant is not what it extends


def test_extends_goes_on_and_is_relative_to_its_own_file(write):
    write("steps: 1\nseed: 1\nepochs: 5")
    write("extends: ../small.yaml\nsteps: 2\nseed: 2", "deep/middle.yaml")
    last = write("extends: deep/middle.yaml\nsteps: 3", "last.yaml")
    found = read_recipe(last)
    assert (found.steps, found.seed, found.epochs) == (3, 2, 5)


def test_a_recipe_that_extends_itself_is_refused(write):
    write("extends: b.yaml", "a.yaml")
    path = write("extends: a.yaml", "b.yaml")
    assert mistake(path) == "b.yaml extends itself: b.yaml → a.yaml → b.yaml. Remove one `extends`."


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("seed: 1\nsteps: 2\nseed: 3", "small.yaml sets seed twice, in lines 1 and 3; keep one"),
        ("batches:\n  size: 1\n  size: 1", "small.yaml sets size twice, in lines 2 and 3; keep"),
        ("data:\n  sources: [{a: 1, a: 2}]", "small.yaml sets a twice, in lines 2 and 2; keep"),
    ],
)
def test_what_is_set_twice_is_refused(write, text, answer):
    assert mistake(write(text)).startswith(answer)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("batches: {sice: 3}", "there is no setting batches.sice. Did you mean 'batches.size'?"),
        ("batch: {size: 3}", "there is no setting batch. Did you mean 'batches'?"),
        (
            "learning_rate: 3",
            "there is no setting learning_rate. Did you mean 'optimiser.learning_rate'?",
        ),
        ("zzz: 3", "there is no setting zzz."),
        ('steps: "12"', 'steps is "12", but wants a whole number.'),
        ("steps: 1.5", "steps is 1.5, but wants a whole number."),
        ("batches: {size: true}", "batches.size is true, but wants a whole number."),
        ("batches: 3", "batches is 3, but wants a mapping of settings."),
        ("batches:", "batches is null, but wants a mapping of settings."),
        ("tensorboard: 1", "tensorboard is 1, but wants true or false."),
        ("name: 3", "name is 3, but wants text."),
        ("output: 3", "output is 3, but wants text."),
        ("data: {sources: docs}", 'data.sources is "docs", but wants a list.'),
        (
            "optimiser: {learning_rate: fast}",
            'optimiser.learning_rate is "fast", but wants a number.',
        ),
        ("optimiser: {betas: [0.9]}", "optimiser.betas is [0.9], but wants a longer list."),
        ("data: {prefixes: {x: [q, 3]}}", "data.prefixes.x.1 is 3, but wants text."),
        (
            "batches: {packing: nearst}",
            "batches.packing is \"nearst\"; it can be 'random' or 'nearest'. "
            "Did you mean 'nearest'?",
        ),
        (
            "loss: {temperature: 0}",
            "loss.temperature is 0.0; it must be a number above 0, such as 0.02.",
        ),
        ("model: {layers: -1}", "model.layers is -1; the least that works is 0."),
        ("extends: 3", "extends is 3, but wants the name of a file."),
    ],
)
def test_a_mistake_is_answered_with_its_file_its_name_and_what_is_right(write, text, answer):
    assert mistake(write(text)) == f"small.yaml: {answer}"


def test_a_mistake_in_an_extended_file_names_that_file(write):
    write("loss: {temperature: hot}")
    assert mistake(write("extends: small.yaml", "variant.yaml")).startswith("small.yaml: loss.")
    write("batches: {sice: 3}")
    assert mistake(write("extends: small.yaml", "variant.yaml")).startswith("small.yaml: there")


@pytest.mark.parametrize("text", ["- a list", "", "a: [", "3: 4", "\x00"])
def test_a_file_that_is_no_mapping_is_one_line(write, text):
    assert mistake(write(text)).startswith("small.yaml ")


def test_a_file_that_is_not_there_is_named_with_the_nearest(write):
    path = write("steps: 3").with_name("smal.yaml")
    assert mistake(path) == "There is no file smal.yaml. Did you mean 'small.yaml'?"


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (lambda: BatchConfig(size=1), "batches.size is 1; the least that works is 2."),
        (lambda: BatchConfig(hard_negatives=-1), "batches.hard_negatives is -1; the least"),
        (lambda: LossConfig(temperature=float("nan")), "loss.temperature is nan; it must be"),
        (lambda: ModelConfig(dropout=1), "model.dropout is 1; it must be at least 0 and below 1"),
        (lambda: ModelConfig(null_context=False), "model.sequence_dropout is 0.005, which needs"),
        (lambda: FilterConfig(margin=0.1, threshold=0.9), "filter.margin and filter.threshold"),
        (lambda: DataConfig(only_domains=("a",), exclude_domains=("a",)), "data.only_domains and"),
        (lambda: Recipe(device="gpu"), "device is 'gpu'; it can be auto, cpu, cuda, cuda:1 or mps"),
        (
            lambda: Recipe(batches=BatchConfig(tokens_at_once=32)),
            "batches.tokens_at_once is 32, but one text may have 64 tokens; "
            "the least that works is 64.",
        ),
    ],
)
def test_values_that_cannot_work_are_refused_before_work_starts(make, answer):
    with pytest.raises(ConfigError) as error:
        make()
    assert str(error.value).startswith(answer)


def test_a_biencoder_ignores_what_is_about_context():
    assert ModelConfig(kind="biencoder", null_context=False, sequence_dropout=0.1).layers == 0


def test_the_command_line_overrides_single_fields():
    before = Recipe(name="small", steps=3, data=DataConfig(sources=("docs",)))
    args = "--steps 40 --batches.size 64 --output out --data.sources a b --filter.threshold 0.9"
    found = with_overrides(before, [*args.split(), "--model.no-prefixes"], "cde-train small.yaml")
    assert (found.steps, found.batches.size, found.output) == (40, 64, Path("out"))
    assert (found.data.sources, found.filter.threshold) == (("a", "b"), 0.9)
    assert not found.model.prefixes and found.name == "small"
    assert with_overrides(before, [], "cde-train small.yaml") == before


def test_skip_bad_rows_needs_no_section():
    assert with_overrides(Recipe(), ["--skip-bad-rows"], "cde-train x").data.skip_bad_rows


def test_an_override_that_cannot_work_is_refused_like_a_recipe():
    with pytest.raises(ConfigError, match=r"batches.size is 0; the least that works is 2"):
        with_overrides(Recipe(), ["--batches.size", "0"], "cde-train x")


def test_help_explains_every_field_and_shows_what_the_recipe_says(capsys):
    with pytest.raises(SystemExit) as stop:
        with_overrides(Recipe(steps=123), ["--help"], "cde-train small.yaml")
    shown = capsys.readouterr().out
    assert stop.value.code == 0 and "123" in shown and "usage: cde-train small.yaml" in shown
    for name in ("--steps", "--data.sources", "--optimiser.learning-rate", "--evaluation.by"):
        assert name in shown


def test_values_by_dotted_names_are_checked_like_a_file():
    found = with_values(Recipe(seed=3), {"batches.size": 64, "steps": 2}, where="a sweep")
    assert (found.batches.size, found.steps, found.seed) == (64, 2, 3)
    with pytest.raises(ConfigError, match=r"^a sweep: there is no setting batches.sice. Did"):
        with_values(Recipe(), {"batches.sice": 64}, where="a sweep")
    with pytest.raises(ConfigError, match=r'^a sweep: batches.size is "x", but wants a whole'):
        with_values(Recipe(), {"batches.size": "x"}, where="a sweep")


def test_what_is_saved_is_read_as_the_same_recipe(tmp_path):
    before = Recipe(
        name="größe: 1",
        about="two\nlines",
        output=Path("some/where"),
        data=DataConfig(sources=("a",), prefixes={"*": ("q: ", "")}),
        filter=FilterConfig(threshold=0.1 + 0.2),
    )
    path = tmp_path / "recipe.yaml"
    path.write_text(to_yaml(before), encoding="utf-8")
    assert read_recipe(path) == before
    path.write_text(to_yaml(Recipe()), encoding="utf-8")
    assert read_recipe(path) == Recipe()


def test_the_digest_knows_what_decides_the_weights():
    base = Recipe()
    indifferent = (
        "--output x --name y --about z --device cpu --checkpoints.every 7 --evaluation.every 7 "
        "--tensorboard"
    ).split()
    assert digest(with_overrides(base, indifferent, "")) == digest(base)
    for changed in (["--seed", "1"], ["--steps", "9"], ["--batches.size", "64"], ["--epochs", "2"],
                    ["--data.prefixes", "*", "a", "b"], ["--precision", "float32"]):  # fmt: skip
        assert digest(with_overrides(base, changed, "")) != digest(base)


def test_every_field_is_in_the_digest_or_named_as_indifferent():
    names = {field.name for field in dataclasses.fields(Recipe)}
    assert {*recipes.INDIFFERENT} < names
    assert names - {*recipes.INDIFFERENT} == {
        *("seed", "epochs", "steps", "precision"),
        *("data", "model", "clusters", "batches", "filter", "negatives", "loss", "optimiser"),
        *("task", "spans"),
    }


def test_fields_that_came_later_leave_the_digests_of_older_runs_as_they_were():
    older = "aac9d4b30432c7cfa0537ea1c0a1e1fa"  # of the version before recipes.ADDED
    assert digest(Recipe()) == older
    for changed in (["--task", "span-corruption"], ["--spans.share", "0.3"],
                    ["--model.pooling", "max"], ["--model.scratch.hidden", "8"],
                    ["--model.characters-per-token", "0"]):  # fmt: skip
        assert (
            digest(with_overrides(Recipe(model=ModelConfig(kind="biencoder")), changed, ""))
            != older
        )


def test_differences_are_named_one_by_one():
    there = Recipe(name="a", output=Path("x"), data=DataConfig(prefixes={"x": ("q", "d")}))
    here = Recipe(
        name="b", batches=BatchConfig(size=512), data=DataConfig(sources=("docs",)), seed=1
    )
    assert differences(there, here) == [
        "seed: 0 there, 1 here",
        'data.sources: [] there, ["docs"] here',
        'data.prefixes.x: ["q", "d"] there, nothing here',
        "batches.size: 256 there, 512 here",
    ]


def test_two_recipes_differ_exactly_where_their_digests_do():
    a, b = Recipe(), Recipe(output=Path("x"), device="cpu")
    assert differences(a, b) == [] and digest(a) == digest(b)


def test_every_setting_is_explained_where_it_stands():
    import ast

    import cde_core.recipe_config as config

    files = [Path(config.__file__), *Path(config.__file__).parent.glob("settings/*.py")]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    kinds = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    assert len(kinds) == 13
    for kind in kinds:
        for field, after in zip(kind.body, kind.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign):
                assert isinstance(after, ast.Expr), f"{kind.name}.{ast.unparse(field.target)}"
