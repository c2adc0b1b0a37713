"""Training: every choice of heads learns, a killed run ends as if it had not been killed, a dual encoder is extended
without made instances."""

from dataclasses import replace

import needs_torch  # noqa: F401
import numpy as np
import pytest
import torch
from small_set import LABELS, WORDS, texts_and_targets
from tiny_model import open_tiny
from unidec_set import QUICK, SMALL, small_heads, unidec_set

from xmcspark.errors import ConfigError, InputError
from xmcspark.neural.embedder import Embedder
from xmcspark.neural.processes import Processes
from xmcspark.neural.tokens import TokenStore
from xmcspark.neural.training_step import TrainingStep
from xmcspark.neural.unidec.first_vectors import first_vectors
from xmcspark.neural.unidec.task import UnidecTask
from xmcspark.neural.unidec.text_model import train_unidec
from xmcspark.neural.unidec.train import UnidecTraining
from xmcspark.sparse.csr import as_csr
from xmcspark.sparse.rows import take_rows

FEW = replace(QUICK, epochs=2.0, checkpoint_every=4)


def training(folder, data, settings=SMALL, encoder_settings=FEW, **more):
    return UnidecTraining(
        data, encoder_settings, settings, seed=0, folder=folder, identity={"of": "test"}, **more
    )


def weights_of(model):
    found = {
        name: weight.detach().numpy().copy() for name, weight in model.encoder.model.state_dict().items()
    }
    for number, head in enumerate(model.heads.modules):
        found |= {f"head {number} {name}": w.detach().numpy().copy() for name, w in head.state_dict().items()}
    return found | {"table": np.array(model.table)}


@pytest.fixture
def data(tmp_path, tiny_encoder):
    return unidec_set(tmp_path / "data", tiny_encoder)


@pytest.mark.parametrize("heads", [("dual", "classifier"), ("dual",), ("classifier",)])
def test_instances_that_were_held_out_find_their_labels(heads, data, tiny_encoder, tmp_path):
    held_out = np.arange(len(data)) % 4 == 0
    settings = replace(SMALL, heads=heads, refresh_epochs=5)
    found = []
    for epochs in (0.0, 20.0 if heads == ("classifier",) else 8.0):
        how = replace(QUICK, epochs=epochs, validation=0.25)
        _, (report,) = training(tmp_path / str(epochs), data, settings, how, held_out=held_out).run(
            tiny_encoder
        )
        found.append(report.tuned.validation)
    assert found[1] >= max(0.6, found[0] + 0.1)
    assert all(sizes.average_positives > 2 for sizes in report.pools.values())
    assert tuple(report.pools) == heads


def full_memory(*_):
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory")


class KilledError(Exception):
    pass


@pytest.mark.parametrize(
    ("checkpoint_every", "dies_at", "goes_on_at"),
    [
        (4, 7, 4),  # after a refresh and before the next checkpoint: steps are repeated, the refresh is not
        (16, 31, 16),  # three refreshes after the checkpoint
        (1000, 31, None),  # before there is any checkpoint
    ],
)
def test_a_killed_run_ends_as_if_it_had_not_been_killed(
    data, tiny_folder, tmp_path, monkeypatch, checkpoint_every, dies_at, goes_on_at
):
    how = replace(FEW, dropout=0.1, epochs=5.5, checkpoint_every=checkpoint_every)
    whole, _ = training(tmp_path / "whole", data, encoder_settings=how).run(
        open_tiny(tiny_folder, dropout=0.1)
    )
    batch = UnidecTask.batch

    def dying(task, step):
        if step == dies_at:
            raise KilledError
        return batch(task, step)

    monkeypatch.setattr(UnidecTask, "batch", dying)
    with pytest.raises(KilledError):
        training(tmp_path / "killed", data, encoder_settings=how).run(open_tiny(tiny_folder, dropout=0.1))
    monkeypatch.setattr(UnidecTask, "batch", batch)
    resumed, reports = training(tmp_path / "killed", data, encoder_settings=how).run(
        open_tiny(tiny_folder, dropout=0.1)
    )
    assert reports[0].tuned.resumed_at == goes_on_at
    found, expected = weights_of(resumed), weights_of(whole)
    for name, weight in expected.items():
        np.testing.assert_array_equal(found[name], weight, err_msg=name)


def test_refreshes_that_no_checkpoint_needs_are_forgotten(data, tiny_encoder, tmp_path):
    training(tmp_path, data, encoder_settings=replace(FEW, epochs=5.5)).run(tiny_encoder)
    left = [place.name for place in (tmp_path / "process-0").glob("unidec-refresh-*")]
    assert left == ["unidec-refresh-5"]


def test_a_dual_encoder_is_extended_by_the_classifier_and_made_instances(
    data, tiny_encoder, tmp_path, monkeypatch
):
    data = replace(data, made=np.arange(len(data)) >= 64)
    seen = {}
    batch = UnidecTask.batch

    def noted(task, step):
        rows = batch(task, step)
        seen.setdefault(task.name, set()).update(rows.tolist())
        return rows

    monkeypatch.setattr(UnidecTask, "batch", noted)
    model, reports = training(tmp_path, data, replace(SMALL, extend=0.5)).run(tiny_encoder)
    assert [report.task for report in reports] == ["dual", "unidec"]
    assert [report.tuned.steps for report in reports] == [4, 6]
    assert seen["dual"] == set(range(64))
    assert seen["unidec"] == set(range(96))
    assert model.table is not None


def test_labels_are_counted_of_instances_that_are_trained_on_and_observed(tmp_path, tiny_encoder):
    made = np.arange(96) >= 80
    data = unidec_set(tmp_path / "data", tiny_encoder, made=made)
    held_out = data.held_out(0.3, 0)
    graph = training(tmp_path, data, replace(SMALL, glas=0.1), held_out=held_out).graph
    seen = (data.Y.to_scipy().toarray()[~held_out & ~made] > 0).sum(axis=0)
    np.testing.assert_array_equal(graph.own, seen[graph.labels])


def test_the_classifier_starts_from_label_texts_or_at_random(data, tiny_encoder, tmp_path):
    nothing = replace(QUICK, epochs=0.0)
    starts = {}
    for from_text in (True, False):
        settings = replace(SMALL, start_from_text=from_text)
        model, _ = training(tmp_path / str(from_text), data, settings, nothing).run(tiny_encoder)
        starts[from_text] = np.array(model.table)
    lengths = np.linalg.norm(starts[True], axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-5)
    assert np.abs(starts[True] - starts[False]).max() > 0.1
    assert 0.5 < np.linalg.norm(starts[False], axis=1).mean() < 1.5


def test_what_was_begun_with_other_settings_is_not_gone_on_with(data, tiny_encoder, tmp_path):
    training(tmp_path, data).run(tiny_encoder)
    with pytest.raises(InputError, match="unidec"):
        training(tmp_path, data, replace(SMALL, positives=1)).run(tiny_encoder)


def test_the_library_goes_on_with_the_same_texts_labels_and_settings_alone(tiny_folder, tmp_path):
    texts, Y = texts_and_targets(40)
    e = replace(FEW, model=str(tiny_folder), max_length=16, epochs=1.0)
    train_unidec(texts, Y, e, SMALL, folder=tmp_path, label_texts=WORDS[:LABELS])
    for changed, name in (
        ({"texts": [*texts[1:], texts[0]]}, "instances"),
        ({"Y": take_rows(Y, np.arange(len(texts))[::-1])}, "instances"),
        ({"encoder_settings": replace(e, learning_rate=1e-5)}, "encoder"),
        ({"seed": 1}, "seed"),
    ):
        given = {"texts": texts, "Y": Y, "encoder_settings": e, "settings": SMALL} | changed
        with pytest.raises(InputError, match=rf"was begun with other settings or instances \({name}\)"):
            train_unidec(**given, folder=tmp_path, label_texts=WORDS[:LABELS])
    elsewhere = replace(e, embed_batch=8, checkpoint_every=1)
    train_unidec(texts, Y, elsewhere, SMALL, folder=tmp_path, label_texts=WORDS[:LABELS])


def test_first_vectors_are_made_once(data, tiny_encoder, tmp_path, monkeypatch):
    head = small_heads().classifier
    how = {"embedder": Embedder(), "seed": 0}
    made = np.array(first_vectors(tmp_path, data, head, tiny_encoder, **how))
    monkeypatch.setattr(Embedder, "embedded", None)
    np.testing.assert_array_equal(first_vectors(tmp_path, data, head, tiny_encoder, **how), made)


def test_what_one_process_lacks_is_made_by_all():
    class Pair(Processes):
        def gather(self, array):
            return [array, ~array]

    assert Processes().all_have(True)
    assert not Pair().all_have(True)
    assert not Pair().all_have(False)


def test_a_lack_of_memory_comes_with_advice(data, tiny_encoder, tmp_path, monkeypatch):
    for place, name in ((UnidecTask, "_dual_loss"), (torch.Tensor, "backward")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, full_memory)
            with pytest.raises(
                InputError,
                match=r"16 queries and a pool of \d+ labels \(dual\) and a pool of \d+ labels \(classifier\) .* set "
                r"unidec\.recompute to",
            ):
                training(tmp_path, data).run(tiny_encoder)
            with pytest.raises(
                InputError,
                match=r"set unidec\.texts_at_once below 64, which .* goes on .*; or start again with a "
                r"unidec\.batch_size below 16 or a unidec\.pool_size below \d+\.?",
            ):
                training(tmp_path, data, replace(SMALL, recompute=True)).run(tiny_encoder)
            patch.setattr(type(tiny_encoder), "forward", full_memory)
            with pytest.raises(InputError, match=r"set encoder\.embed_batch to"):
                training(tmp_path / "anew", data).run(tiny_encoder)


@pytest.mark.parametrize(
    ("changes", "advice", "followed"),
    [
        (
            {"heads": ("classifier",), "classifier_pool_size": 24, "batch_size": 4},
            r"start again with a unidec\.batch_size below 4 or a unidec\.classifier_pool_size below 24",
            {"classifier_pool_size": 16},
        ),
        (
            {"heads": ("classifier",), "classifier_pool_size": 8},
            r"with a unidec\.batch_size below 16 or fewer unidec\.positives and unidec\.hard_negatives",
            {"positives": 1, "hard_negatives": 0},
        ),
        (
            {"heads": ("classifier",)},
            r"start again with a unidec\.batch_size below 16 or a unidec\.pool_size below \d+",
            {"pool_size": 16},
        ),
        (
            {"reduction": "pal"},
            r"start again with a unidec\.batch_size below 16, or with a unidec\.reduction of psl",
            {"reduction": "psl"},
        ),
    ],
)
def test_what_a_lack_of_memory_is_answered_with_is_not_refused(
    data, tiny_encoder, tmp_path, monkeypatch, changes, advice, followed
):
    with monkeypatch.context() as patch:
        patch.setattr(UnidecTask, "_classifier_loss", full_memory)
        with pytest.raises(InputError, match=advice):
            training(tmp_path / "first", data, replace(SMALL, **changes)).run(tiny_encoder)
    smaller = replace(SMALL, **{**changes, **followed})
    *_, report = training(tmp_path / "again", data, smaller).run(tiny_encoder)[1]
    assert report.pools["classifier"].average_labels < 24


def test_a_run_that_diverges_is_told_of_the_rates_it_has(data, tiny_encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(UnidecTask, "loss", lambda *_: torch.tensor(float("nan"), requires_grad=True))
    for heads, rates in (
        (("dual",), r"unidec\.head_learning_rate, raise"),
        (("classifier",), r"unidec\.head_learning_rate or unidec\.table_learning_rate, raise"),
    ):
        with pytest.raises(InputError, match=rf"lower encoder\.learning_rate or {rates}"):
            training(tmp_path / heads[0], data, replace(SMALL, heads=heads)).run(tiny_encoder)


def test_what_is_excluded_is_not_taken_for_an_answer_when_a_model_is_checked(data, tiny_encoder, tmp_path):
    """As if every instance were itself one of the labels: its nearest, and never predicted."""
    held_out = np.arange(len(data)) % 4 == 0
    how = replace(QUICK, epochs=0.0, validation=0.25)
    Y = data.Y.to_scipy().toarray() > 0
    space, found = replace(SMALL, heads=("dual",)), {}
    for name, excluded in (("nothing", None), ("all but its own", ~Y), ("its own", Y)):
        excluded = None if excluded is None else as_csr(excluded.astype(np.float32))
        given = replace(data, excluded=excluded)
        _, (report,) = training(tmp_path / name, given, space, how, held_out=held_out).run(tiny_encoder)
        found[name] = report.tuned.validation
    assert found["all but its own"] == 1
    assert 0 < found["nothing"] < 1
    assert found["its own"] == 0


def test_a_run_goes_on_with_what_the_advice_about_memory_changes(data, tiny_folder, tmp_path, monkeypatch):
    apply = TrainingStep._apply

    def full(step, number):
        if number == 6:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        apply(step, number)

    monkeypatch.setattr(TrainingStep, "_apply", full)
    with pytest.raises(InputError, match=r"set unidec\.recompute to true"):
        training(tmp_path, data).run(open_tiny(tiny_folder))
    monkeypatch.setattr(TrainingStep, "_apply", apply)
    smaller = replace(SMALL, recompute=True, texts_at_once=8)
    _, (report,) = training(tmp_path, data, smaller).run(open_tiny(tiny_folder))
    assert report.tuned.resumed_at == 4


def test_labels_without_text_are_refused_and_the_classifier_is_offered(data, tiny_encoder, tmp_path):
    texts = TokenStore.write(tmp_path / "labels", tiny_encoder, [["cat", ""] * 12])
    with pytest.raises(
        InputError, match=r"12 of 24 labels have no text, such as label 1.*heads to \[classifier\]"
    ):
        training(tmp_path, replace(data, label_tokens=texts)).run(tiny_encoder)
    without = replace(data, label_tokens=None)
    with pytest.raises(InputError, match=r"no texts.*heads to \[classifier\]"):
        training(tmp_path, without).run(tiny_encoder)
    model, _ = training(tmp_path, without, replace(SMALL, heads=("classifier",))).run(tiny_encoder)
    assert model.heads.dual is None


@pytest.mark.parametrize("heads", [("dual",), ("dual", "classifier")])
def test_labels_without_text_may_be_left_out(heads, data, tiny_encoder, tmp_path, caplog):
    few = [word if label % 4 else " " for label, word in enumerate(WORDS[:LABELS])]
    some = replace(data, label_tokens=TokenStore.write(tmp_path / "labels", tiny_encoder, [few]))
    settings = replace(SMALL, heads=heads, without_text="leave-out")
    training_ = training(tmp_path, some, settings)
    model, _ = training_.run(tiny_encoder)
    told = "6 of 24 labels have no text: they are left out, of training and of answers (unidec.without_text)"
    assert training_.warnings == [told]
    assert told in caplog.text
    np.testing.assert_array_equal(model.trained, [label for label in range(LABELS) if label % 4])
    with pytest.raises(ConfigError, match="only 18 labels have instances"):
        training(tmp_path / "again", some, replace(settings, hard_negatives=18)).run(tiny_encoder)
    nothing = replace(
        data, label_tokens=TokenStore.write(tmp_path / "nothing", tiny_encoder, [[""] * LABELS])
    )
    with pytest.raises(InputError, match="24 of 24 labels have no text") as refused:
        training(tmp_path / "without", nothing, settings).run(tiny_encoder)
    assert "leave-out" not in str(refused.value), "it is set already, and does not help"


def test_the_library_does_not_find_labels_that_are_left_out(data, tiny_folder, tmp_path):
    texts, Y = texts_and_targets(96)
    few = [word if label % 4 else "" for label, word in enumerate(WORDS[:LABELS])]
    model = train_unidec(
        texts,
        Y.to_scipy(),
        replace(QUICK, model=str(tiny_folder), max_length=16, epochs=1.0),
        replace(SMALL, without_text="leave-out"),
        folder=tmp_path / "library",
        label_texts=few,
    )
    found = model.predict(texts[:20], top_k=18).labels
    assert (found % 4 != 0).all()
    assert set(found[0]) == {label for label in range(LABELS) if label % 4}


def test_a_text_as_short_as_none_is_a_text(data, tiny_encoder, tmp_path, monkeypatch):
    """As of a tokenizer that puts no special tokens, and something for a text without tokens."""
    monkeypatch.setattr(type(tiny_encoder), "tokenize", lambda _, texts: [[len(text)] for text in texts])
    short = replace(data, label_tokens=TokenStore.write(tmp_path / "short", tiny_encoder, [["cat"] * 24]))
    assert short.checked(SMALL, tiny_encoder, 1.0) == (short, [])
    empty = TokenStore.write(tmp_path / "empty", tiny_encoder, [["cat"] * 20 + [""] * 4])
    with pytest.raises(InputError, match="4 of 24 labels have no text, such as label 20"):
        replace(data, label_tokens=empty).checked(SMALL, tiny_encoder, 1.0)


def test_more_negatives_than_labels_are_refused_and_more_positives_are_warned_about(
    data, tiny_encoder, tmp_path, caplog
):
    with pytest.raises(ConfigError, match=r"hard_negatives is 24, but only 24 labels.*at most 23"):
        training(tmp_path, data, replace(SMALL, hard_negatives=24)).run(tiny_encoder)
    data.checked(replace(SMALL, positives=50), tiny_encoder, 1.0)
    assert "no instance has more than" in caplog.text


@pytest.mark.parametrize(
    ("changes", "epochs", "warning"),
    [
        ({"pool_size": 4, "batch_size": 16}, 1.0, "teach nothing; make pools larger"),
        ({"refresh_epochs": 5}, 3.0, "set unidec.refresh_epochs to 1"),
    ],
)
def test_what_is_not_worth_its_while_is_warned_about(data, changes, epochs, warning):
    (found,) = data.warnings(replace(SMALL, **changes), epochs)
    assert warning in found
    assert data.warnings(replace(SMALL, refresh_epochs=1), epochs) == []


def test_a_classifier_that_has_a_pool_of_its_own_is_not_warned_about_small_pools(data):
    small = {"pool_size": 4, "batch_size": 16}
    alone = replace(SMALL, heads=("classifier",), **small)
    assert "teach nothing" in data.warnings(alone, 1.0)[0]
    assert data.warnings(replace(alone, classifier_pool_size=20), 1.0) == []
    assert data.warnings(replace(alone, classifier_pool_size=5, pool_size=None), 1.0) == []
    assert "teach nothing" in data.warnings(replace(SMALL, classifier_pool_size=20, **small), 1.0)[0]


def test_parts_of_other_sizes_are_refused(data):
    with pytest.raises(InputError, match="96 instances x 24 labels, but there are 3 row weights"):
        replace(data, row_weights=np.ones(3, np.float32))
