"""What ./spark-submit.sh compare gives on to its script."""

from pathlib import Path

import pytest

from jobs import submit
from xmcspark.quality.bootstrap import COMPARED_REPLICATES


def command(*arguments):
    options = submit.parser_of("compare").parse_args(["--set", "run.root=/r", "--run", "new", *arguments])
    return submit.submit_command("compare", submit.configuration_of(options), options, ["--master", "yarn"])


def test_the_options_of_a_comparison_travel_with_the_job():
    found = command("--with", "old", "--common", "--replicates", "99")
    assert Path(found[found.index("--resolved") - 1]).name == "compare.py"
    assert found[found.index("--with") + 1] == "old"
    assert found[found.index("--replicates") + 1] == "99"
    assert "--common" in found
    assert "--common" not in command("--with", "old")
    assert str(COMPARED_REPLICATES) in command("--with", "old")


def test_a_run_of_another_root_is_found_from_any_folder():
    found = command("--with", "elsewhere/old")
    assert found[found.index("--with") + 1] == str(Path.cwd() / "elsewhere" / "old")


def test_a_comparison_needs_another_run(capsys):
    with pytest.raises(SystemExit):
        command()
    assert "--with" in capsys.readouterr().err
