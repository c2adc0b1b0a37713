"""The bench of augmentation goes on where it was stopped."""

import json

import pytest

from bench import augmentation
from xmcspark.corpus.dataset import write_dataset
from xmcspark.corpus.synthetic import generate

FOUND = dict.fromkeys((*augmentation._SHOWN, "rows made", "cpu_s"), 0.5)


@pytest.fixture
def measured(monkeypatch):
    """Variants that were measured; the fourth measurement is interrupted."""
    seen = []

    def measure(task, config, changes, threads):
        seen.append(changes)
        if len(seen) == 4:
            raise KeyboardInterrupt
        return FOUND

    monkeypatch.setattr(augmentation, "measured", measure)
    return seen


def test_what_was_measured_before_an_interruption_is_kept(measured, tmp_path, capsys):
    write_dataset(generate(30, 5, seed=1), tmp_path / "small")
    file = tmp_path / "found.json"
    command = ["--data", str(tmp_path / "small"), "--json", str(file), "--resume"]
    with pytest.raises(KeyboardInterrupt):
        augmentation.main(command)
    names = list(augmentation.VARIANTS)
    assert list(json.loads(file.read_text())["data"]["small"]) == names[:3]
    assert augmentation.main(command) == 0
    assert len(measured) == len(names) + 1  # only the interrupted one was begun twice
    assert list(json.loads(file.read_text())["data"]["small"]) == names
    assert capsys.readouterr().out.count("50.00") == len(names) * len(augmentation._SHOWN)


def test_nothing_is_resumed_without_a_file(capsys):
    with pytest.raises(SystemExit):
        augmentation.main(["--data", "any", "--resume"])
    assert "--resume needs --json OUT" in capsys.readouterr().err
