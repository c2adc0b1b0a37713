"""The whole configuration: presets, files, overrides, and every problem at once."""

import dataclasses
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jobs import config as job
from xmcspark.config.configuration import Config, default_config, from_mapping, load
from xmcspark.config.presets import METHODS
from xmcspark.config.reading import keys_of
from xmcspark.config.setting import declaration_of
from xmcspark.config.skeleton import explanation, skeleton
from xmcspark.errors import ConfigError
from xmcspark.matchers.presets import PRESETS
from xmcspark.tree.params import TreeParams


def problems(given=None, *overrides):
    with pytest.raises(ConfigError) as caught:
        from_mapping(given, overrides)
    return caught.value.problems


@pytest.mark.parametrize("method", METHODS)
def test_the_skeleton_loads_back_to_the_defaults_it_shows(method, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(skeleton(method))
    assert load(file) == default_config(method)
    assert yaml.safe_load(skeleton(method)).keys() == {f.name for f in dataclasses.fields(Config)}


@pytest.mark.parametrize("method", METHODS)
def test_the_resolved_json_loads_back_identically(method, tmp_path):
    config = from_mapping(
        {"method": method, "seed": 7, "train": {"tolerance": 1e-5}, "run": {"root": "s3://ü/\x7f"}}
    )
    file = tmp_path / "c.json"
    file.write_text(config.to_json())
    assert load(file) == config
    assert load(file).to_json() == config.to_json()


def test_every_key_has_a_meaning():
    config = Config()
    left = [config, config.text.vectorizers[0]]
    while left:
        part = left.pop()
        for field, _ in keys_of(part):
            value = getattr(part, field.name)
            if dataclasses.is_dataclass(value):
                left.append(value)
            else:
                assert declaration_of(field).meaning.endswith("."), f"{type(part).__name__}.{field.name}"


def test_the_skeleton_asks_for_a_meaning():
    plain = dataclasses.fields(dataclasses.make_dataclass("Plain", [("size", int, 1)]))[0]
    with pytest.raises(TypeError, match="size says nothing about itself"):
        explanation(plain, int)


def test_the_skeleton_explains_trees_and_vectorizers():
    text = " ".join(line.strip().removeprefix("# ") for line in skeleton().splitlines())
    assert "Labels per leaf cluster at most" in text
    assert "Lengths of the grams, in words or characters. (shortest, longest) with 1 <= shortest" in text
    assert "An int >= 1 (documents) or a float from 0.0 to 1.0" in text


def test_presets_differ_from_the_defaults_where_they_say():
    for method, preset in METHODS.items():
        resolved, default = default_config(method).resolved(), Config().resolved()
        for key, value in preset.changes.items():
            part, name = key.split(".")
            assert resolved[part].pop(name) == value
            assert default[part].pop(name) != value
        assert {**resolved, "method": 0} == {**default, "method": 0}


def test_a_file_is_laid_over_the_preset_and_overrides_over_both(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("method: parabel\ntree: {max_leaf: 50}\ntrain:\nensemble: {members: 5}\n")
    config = load(file, ["ensemble.members=7", "text.vectorizers.1.min_df=2", "run.id=2024-01-31"])
    assert (config.tree.branching, config.tree.max_leaf, config.ensemble.members) == (2, 50, 7)
    assert [v.min_df for v in config.text.vectorizers] == [1, 2]
    assert config.run.id == "2024-01-31"
    assert load(file, ["method=bonsai"]).tree.branching == 100


def test_the_seed_is_given_once_and_reaches_every_part():
    config = from_mapping({"seed": 5})
    assert (config.train.seed, config.tree.seed) == (5, 5)
    assert problems({"train": {"seed": 1}}) == ["train.seed: unknown key, did you mean seed?"]


def test_what_is_decided_at_run_time_is_no_key():
    assert "threads" not in Config().resolved()["tree"]
    assert "tree.threads: unknown key" in problems({"tree": {"threads": 2}})[0]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"train": {"treshold": 1}}, "train.treshold: unknown key, did you mean train.threshold?"),
        ({"trian": {}}, "trian: unknown key, did you mean train?"),
        ({"beam": 3}, "beam: unknown key, did you mean predict.beam?"),
        ({"train": {"beam": 3}}, "train.beam: unknown key, did you mean predict.beam?"),
        ({"unidec": {"xyz": 1}}, "unidec.xyz: unknown key; unidec has"),
        (
            {"text": {"vectorizers": [{"min_dff": 1}]}},
            "text.vectorizers[0].min_dff: unknown key, did you mean",
        ),
        ({"train": 5}, "train is 5: expected a mapping of settings"),
        ({"train": [1]}, "train is [1]: expected a mapping of settings"),
        ({"train": {"threshold": -1}}, "train.threshold is -1.0: it must not be negative"),
        ({"train": {"threshold": "0.1"}}, "train.threshold is '0.1': expected a number"),
        ({"predict": {"beam": 10.0}}, "predict.beam is 10.0: expected a whole number; write 10"),
        ({"predict": {"beam": {"a": 1}}}, "predict.beam is {'a': 1}: expected a whole number"),
        ({"method": "xr-liner"}, "method is 'xr-liner': did you mean xr-linear?"),
        ({"method": ["forest"]}, "method is ['forest']: choose one of"),
        ({"seed": True}, "seed is true: expected a whole number"),
        ({"text": {"vectorizers": "word"}}, "text.vectorizers is 'word': expected a list"),
        (
            {"text": {"vectorizers": ["word"]}},
            "text.vectorizers[0] is 'word': expected a mapping of settings",
        ),
        ({"text": {"vectorizers": []}}, "text.vectorizers is []: expected a list of 1 to 255 entries"),
        ({"tree": {"branching": 1}}, "tree.branching is 1: it must be at least 2"),
        ({"tree": {"shape": [4], "balanced": False}}, "tree.shape is [4] but balanced is false"),
        (
            {"text": {"vectorizers": [{"min_df": 0}]}},
            "text.vectorizers[0].min_df is 0: expected an int >= 1 (documents) or a float from 0.0 to 1.0",
        ),
        (
            {"text": {"vectorizers": [{"ngram_range": [2, 1]}]}},
            "text.vectorizers[0].ngram_range is [2, 1]: expected (shortest, longest)",
        ),
        ({"input": {"logs": "a", "train": "b"}}, "input.logs and input.train are both given"),
        ({"input": {"test": "b"}}, "input.test is given without input.train"),
        ({"run": {"id": "../x"}}, "run.id is '../x': a run id is the name of a folder"),
        ({"run": {"id": "a", "base": "a"}}, "run.id and base are both 'a'"),
        ({"predict": {"transform": "identity"}}, "predict.combine=product with transform=identity"),
        ({"method": "dismec", "ensemble": {"members": 2}}, "ensemble.members is 2 but tree.shape is []"),
        (
            {"method": "dismec", "train": {"negatives": "man"}},
            "train.negatives is 'man' but tree.shape is []",
        ),
        ("xr-linear", "the configuration is 'xr-linear': expected a mapping"),
        ([1], "the configuration is [1]: expected a mapping"),
    ],
)
def test_one_mistake_gives_one_clear_problem(given, problem):
    found = problems(given)
    assert len(found) == 1, found
    assert found[0].startswith(problem)


def test_all_mistakes_are_reported_at_once(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("train: {loss: l9, bias: -1, max_weight: 2}\npredict: {top_k: none}\nx: 1\nseed: -1")
    with pytest.raises(ConfigError) as caught:
        load(
            file,
            [
                "tree.branching=1",
                "oops",
                "=1",
                "train.loss.x=1",
                "text.vectorizers.9.norm=l1",
                "run.id=[",
                "a.b.c=1",
            ],
        )
    text = "\n".join(caught.value.problems)
    named = "train.loss train.bias train.max_weight predict.top_k x: seed tree.branching oops =1 train.loss.x"
    for part in f"{named} text.vectorizers.9 run.id a:".split():
        assert part in text
    assert len(caught.value.problems) == 13


def test_an_unreadable_file_is_a_problem_like_any_other(tmp_path):
    (tmp_path / "latin.yaml").write_bytes(b"run: {root: \xe9}")
    for name, message in (
        ("missing.yaml", "no such file"),
        ("latin.yaml", "not UTF-8"),
        (".", "cannot be read"),
    ):
        with pytest.raises(ConfigError, match=message):
            load(tmp_path / name)
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert load(tmp_path / "empty.yaml") == Config()


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
SECTIONS = {name: sorted(part) for name, part in Config().resolved().items() if isinstance(part, dict)}
keys = st.sampled_from([(section, key) for section, names in SECTIONS.items() for key in names])


@given(plain | st.dictionaries(st.sampled_from(sorted(Config().resolved())), plain))
def test_any_mapping_is_loaded_or_refused_with_reasons(given):
    loads_or_explains(given)


@given(keys, plain)
def test_any_value_of_any_key_is_loaded_or_refused_with_reasons(key, value):
    loads_or_explains({key[0]: {key[1]: value}})


def loads_or_explains(given):
    try:
        config = from_mapping(given)
    except ConfigError:
        return
    assert from_mapping(json.loads(config.to_json())) == config


def test_the_job_prints_a_skeleton_or_the_resolved_configuration(capsys, tmp_path):
    assert job.main(["--skeleton", "bonsai"]) == 0
    file = tmp_path / "c.yaml"
    file.write_text(capsys.readouterr().out)
    assert job.main(["--config", str(file), "--set", "seed=3"]) == 0
    assert json.loads(capsys.readouterr().out) == from_mapping({"method": "bonsai", "seed": 3}).resolved()


def test_the_job_exits_2_with_every_problem_on_stderr(capsys):
    assert job.main(["--set", "sed=3", "--set", "train.bias=x"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 2
    assert job.main(["--skeleton", "parable"]) == 2
    assert "did you mean parabel?" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--skeleton", "bonsai", "--set", "seed=1"], ["--conf", "x"]])
def test_wrong_arguments_of_the_job_exit_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        job.main(arguments)
    assert stopped.value.code == 2


def test_the_library_and_the_configuration_know_the_same_methods():
    without_preset = {"mach", "xr-transformer", "x-transformer", "unidec"}  # no tree, or more than one
    assert METHODS.keys() == PRESETS.keys() | without_preset
    for name, preset in PRESETS.items():
        config = default_config(name)
        assert config.train.alone == preset.train
        assert config.predict.scoring == preset.scoring
        assert _has_values_of(config.tree, preset.tree or TreeParams(shape=()))
        assert config.ensemble.members == preset.trees


def _has_values_of(section, library):
    """A section may have more settings than the library's part, such as how work is cut."""
    return all(
        getattr(section, field.name) == getattr(library, field.name) for field in dataclasses.fields(library)
    )
