"""Every objective's value and gradients: against a sum by hand, and against sentence-transformers.

Vectors are random and not of length one, so nothing that should be scaled can be forgotten.
"""

import math
import warnings
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from cde_core.train.objectives.classification import Classification
from cde_core.train.objectives.columns import columns
from cde_core.train.objectives.contrastive import Contrastive
from cde_core.train.objectives.cosent import Cosent, cosent
from cde_core.train.objectives.distillation import Distillation
from cde_core.train.objectives.matryoshka import Matryoshka
from cde_core.train.objectives.objective import Judged, Part

B, H = 5, 8


def vectors(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(rows, H, generator=generator)).requires_grad_()


def part_of(queries=B, negatives=0, *, ignored=None, **judged):
    whose = columns(queries, negatives)
    known = Judged.nothing(queries, len(whose.owners))
    for name, values in judged.items():
        getattr(known, name)[:] = torch.as_tensor(values)
    return Part(whose, known, queries, lambda: ignored)


def value_and_gradients(loss, *leaves):
    return loss.item(), torch.autograd.grad(loss, leaves)


def assert_same(ours, theirs):
    assert ours[0] == pytest.approx(theirs[0], rel=1e-5)
    for one, other in zip(ours[1], theirs[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


class Given(nn.Module):
    """What sentence-transformers takes for a model: it gives back the vectors it is given."""

    device = torch.device("cpu")
    model_card_data = SimpleNamespace(add_tags=lambda *_: None)

    def forward(self, features, **_):
        return {"sentence_embedding": features["sentence_embedding"]}

    def get_embedding_dimension(self):
        return H


def given(*sides):
    return [{"sentence_embedding": side} for side in sides]


def theirs(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    return getattr(losses, name)


# CoSENT

SCORES = (4.0, 0.5, 2.5, 0.5, 3.0)


def test_cosent_is_the_sum_over_pairs_that_the_scores_put_in_order():
    # Scores 2 > 1 > 0 and cosines 0.1, 0.5, 0.3, at temperature 1: the first pair shall beat both
    # others and the second the third: exp(0.4) + exp(0.2) + exp(-0.2), of which one is right.
    loss, ordered = cosent(torch.tensor([0.1, 0.5, 0.3]), torch.tensor([2.0, 1, 0]), temperature=1)
    assert loss.item() == pytest.approx(
        math.log(1 + math.exp(0.4) + math.exp(0.2) + math.exp(-0.2))
    )
    assert ordered == pytest.approx(1 / 3)


def test_cosent_equals_the_other_library_in_value_and_gradients():
    queries, documents = vectors(B, 0), vectors(B, 1)
    found = Cosent(0.05)(queries, documents, part_of(scores=SCORES))
    loss = theirs("CoSENTLoss")(None, scale=20.0).compute_loss_from_embeddings(
        [queries, documents], torch.tensor(SCORES)
    )
    assert_same(
        value_and_gradients(found.loss, queries, documents),
        value_and_gradients(loss, queries, documents),
    )


def test_equal_scores_compare_nothing():
    found = Cosent(0.05)(vectors(B, 0), vectors(B, 1), part_of(scores=[1.0] * B))
    assert found.loss.item() == 0 and math.isnan(found.measures["ordered"])


# Classification

LABELS = (0, 2, 1, 1, 0)


def test_classification_equals_the_other_library_in_value_and_gradients():
    queries, documents = vectors(B, 0), vectors(B, 1)
    ours = Classification(H, 3, seed=4)
    other = theirs("SoftmaxLoss")(Given(), H, num_labels=3)
    other.classifier.load_state_dict(ours.layer.state_dict())
    found = ours(queries, documents, part_of(labels=LABELS))
    loss = other(given(queries, documents), torch.tensor(LABELS))
    assert_same(
        value_and_gradients(found.loss, queries, documents, *ours.layer.parameters()),
        value_and_gradients(loss, queries, documents, *other.classifier.parameters()),
    )


def test_classification_by_hand():
    # u = 1, v = 3, so the features are (1, 3, 2); a layer of logits u + v = 4 and |u - v| = 2.
    ours = Classification(1, 2)
    with torch.no_grad():
        ours.layer.weight.copy_(torch.tensor([[1.0, 1, 0], [0, 0, 1]]))
        ours.layer.bias.zero_()
    found = ours(torch.tensor([[1.0]]), torch.tensor([[3.0]]), part_of(1, labels=[1]))
    assert found.loss.item() == pytest.approx(math.log(math.exp(4) + math.exp(2)) - 2)
    assert found.measures == {"accuracy": 0}


def test_the_layer_s_first_weights_are_the_seed_s_and_draw_nothing_from_others():
    before = torch.get_rng_state()
    one, same, other = (Classification(H, 3, seed=seed).layer.weight for seed in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


# Distillation

TEACHER = torch.linspace(-2, 3, B * 3)[torch.randperm(B * 3, generator=torch.manual_seed(3))]


def by_hand(queries, documents, teacher, temperature, teacher_temperature):
    """KL(p ‖ q), summed in plain numbers: answer b, then its negatives B + 2b and B + 2b + 1."""
    total = 0.0
    for b in range(B):
        own = [b, B + 2 * b, B + 2 * b + 1]
        cosines = [torch.cosine_similarity(queries[b], documents[c], dim=0).item() for c in own]
        p = [math.exp(teacher[c].item() / teacher_temperature) for c in own]
        q = [math.exp(cosine / temperature) for cosine in cosines]
        p, q = [x / sum(p) for x in p], [x / sum(q) for x in q]
        total += sum(x * math.log(x / y) for x, y in zip(p, q, strict=True))
    return total / B


def test_distillation_is_the_divergence_by_hand_plus_so_much_of_the_contrastive_loss():
    queries, documents = vectors(B, 0), vectors(B * 3, 1)
    part = part_of(negatives=2, teacher=TEACHER)
    contrastive = Contrastive(0.1)(queries, documents, part).loss.item()
    expected = by_hand(queries, documents, TEACHER, 0.1, 2.0)
    found = Distillation(0.1, contrastive_weight=0.3, teacher_temperature=2.0)(
        queries, documents, part
    )
    assert found.loss.item() == pytest.approx(expected + 0.3 * contrastive, rel=1e-5)
    assert found.measures["divergence"] == pytest.approx(expected, rel=1e-5)


def test_the_divergence_equals_the_other_library_in_value_and_gradients():
    from sentence_transformers.util import pairwise_cos_sim

    queries, documents = vectors(B, 0), vectors(B * 3, 1)
    found = Distillation(0.1, contrastive_weight=0, teacher_temperature=2.0)(
        queries, documents, part_of(negatives=2, teacher=TEACHER)
    )
    other = theirs("DistillKLDivLoss")(
        None, similarity_fct=pairwise_cos_sim, student_temperature=0.1, teacher_temperature=2.0
    )
    sides = [queries, documents[:B], documents[B::2], documents[B + 1 :: 2]]
    scores = torch.stack((TEACHER[:B], TEACHER[B::2], TEACHER[B + 1 :: 2]), dim=1)
    loss = other.compute_loss_from_embeddings(sides, scores) / 0.1**2
    assert_same(
        value_and_gradients(found.loss, queries, documents),
        value_and_gradients(loss, queries, documents),
    )


def test_what_a_query_did_not_bring_is_in_the_contrastive_part_alone():
    queries, documents = vectors(B, 0), vectors(B * 3, 1)
    part = part_of(negatives=2, teacher=TEACHER)
    first = Part(part.columns.of(torch.tensor([0])), part.judged, B, lambda: None)
    found = Distillation(0.1, contrastive_weight=0)(queries[:1], documents, first)
    (gradient,) = torch.autograd.grad(found.loss, documents)
    assert gradient.abs().sum(dim=1).nonzero().flatten().tolist() == [0, B, B + 1]


# Contrastive and Matryoshka


def test_contrastive_equals_the_other_library_in_value_and_gradients():
    queries, documents = vectors(B, 0), vectors(B * 2, 1)
    found = Contrastive(0.05)(queries, documents, part_of(negatives=1))
    other = theirs("MultipleNegativesRankingLoss")(Given(), scale=20.0)
    loss = other(given(queries, documents[:B], documents[B:]), torch.empty(0))
    assert_same(
        value_and_gradients(found.loss, queries, documents),
        value_and_gradients(loss, queries, documents),
    )


DIMENSIONS, WEIGHTS = (8, 4, 2), (1.0, 0.5, 2.0)


@pytest.mark.parametrize("inner", ["contrastive", "cosent", "distillation"])
def test_matryoshka_is_a_weighted_sum_over_first_dimensions(inner):
    build = {
        "contrastive": lambda _: Contrastive(0.1),
        "cosent": lambda _: Cosent(0.1),
        "distillation": lambda _: Distillation(0.1),
    }[inner]
    queries, documents = vectors(B, 0), vectors(B * 3, 1)
    part = part_of(negatives=2, scores=SCORES, teacher=TEACHER)
    ours = Matryoshka(build, DIMENSIONS, WEIGHTS)
    parts = [
        weight * build(kept)(queries[:, :kept], documents[:, :kept], part).loss
        for kept, weight in zip(DIMENSIONS, WEIGHTS, strict=True)
    ]
    found = ours(queries, documents, part)
    assert_same(
        value_and_gradients(found.loss, queries, documents),
        value_and_gradients(sum(parts), queries, documents),
    )
    assert found.measures["loss_4"] == pytest.approx(parts[1].item() / 0.5, rel=1e-5)
    assert ours.joint == build(0).joint


def test_matryoshka_equals_the_other_library_in_value_and_gradients():
    queries, documents = vectors(B, 0), vectors(B, 1)
    found = Matryoshka(lambda _: Contrastive(0.05), DIMENSIONS, WEIGHTS)(
        queries, documents, part_of()
    )
    model = Given()
    inner = theirs("MultipleNegativesRankingLoss")(model, scale=20.0)
    other = theirs("MatryoshkaLoss")(model, inner, list(DIMENSIONS), list(WEIGHTS))
    loss = other(given(queries, documents), torch.empty(0))
    assert_same(
        value_and_gradients(found.loss, queries, documents),
        value_and_gradients(loss, queries, documents),
    )


def test_matryoshka_gives_each_number_of_dimensions_a_layer_of_its_own():
    ours = Matryoshka(lambda kept: Classification(kept, 3), DIMENSIONS)
    shapes = {tuple(parameter.shape) for parameter in ours.parameters() if parameter.ndim == 2}
    assert shapes == {(3, 3 * kept) for kept in DIMENSIONS}
    found = ours(vectors(B, 0), vectors(B, 1), part_of(labels=LABELS))
    assert found.loss.item() == pytest.approx(
        sum(found.measures[f"loss_{kept}"] for kept in DIMENSIONS)
    )


# Parts


@pytest.mark.parametrize(
    "objective",
    [Contrastive(0.1), Classification(H, 3), Distillation(0.1)],
    ids=["contrastive", "classification", "distillation"],
)
def test_parts_of_a_batch_add_up_to_its_loss_and_measures(objective):
    queries, documents = vectors(B, 0), vectors(B * 3, 1)
    ignored = torch.zeros(B, B * 3, dtype=torch.bool)
    ignored[0, 1] = ignored[3, 2] = True
    whole = part_of(negatives=2, labels=LABELS, teacher=TEACHER, ignored=ignored)
    found = objective(queries, documents, whole)
    loss, measures = 0.0, dict.fromkeys(found.measures, 0.0)
    for rows in (torch.tensor([0, 1]), torch.tensor([2, 3, 4])):
        known = Judged(whole.judged.scores[rows], whole.judged.labels[rows], whole.judged.teacher)
        part = Part(whole.columns.of(rows), known, B, lambda rows=rows: ignored[rows])
        some = objective(queries[rows], documents, part)
        loss += some.loss.item()
        measures = {name: measures[name] + value for name, value in some.measures.items()}
    assert loss == pytest.approx(found.loss.item(), rel=1e-5)
    assert measures == pytest.approx(dict(found.measures), rel=1e-5)


def test_no_objective_makes_gradients_that_are_no_numbers():
    for seed, objective in product(range(2), (Cosent(0.01), Distillation(0.01))):
        queries, documents = vectors(B, seed), vectors(B * 2, seed + 5)
        part = part_of(negatives=1, scores=SCORES, teacher=torch.linspace(-90, 90, 2 * B))
        gradients = torch.autograd.grad(
            objective(queries, documents, part).loss, (queries, documents)
        )
        assert all(torch.isfinite(gradient).all() for gradient in gradients)
