"""Every stage and every table keep to the contract that skipping, manifests and SQL rely on."""

import dataclasses
from pathlib import Path

import pytest

from xmcspark.config.configuration import Config, default_config
from xmcspark.config.presets import METHODS
from xmcspark.flow_spark import STAGES
from xmcspark.store.tables import TABLES

ROOT = Path(__file__).resolve().parents[1]
SHARED = {"interactions", "quarantine"}  # of all runs of a root: written by ingest outside of any run
by_stage = pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
by_table = pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)


@by_stage
def test_the_settings_a_stage_declares_exist(stage):
    settings = Config().resolved()
    for key in stage.config_keys:
        value = settings
        for step in key.split("."):
            assert step in value, f"{stage.name} declares {key}"
            value = value[step]


@by_stage
def test_a_stage_reads_only_what_stages_before_it_write(stage):
    before = STAGES[: STAGES.index(stage)]
    assert set(stage.reads) <= {name for earlier in before for name in earlier.writes}


@by_stage
def test_what_a_stage_writes_is_a_declared_table_or_a_folder(stage):
    assert all(name in TABLES or name.endswith("/") for name in stage.writes)
    assert stage.version >= 1


@by_stage
def test_a_stage_is_a_job_of_its_own(stage):
    assert (ROOT / "jobs" / f"{stage.name}.py").is_file()
    assert f'"{stage.name}|spark|' in (ROOT / "spark-submit.sh").read_text()


@by_table
def test_a_table_is_written_by_one_stage(table):
    writers = [stage.name for stage in STAGES if table.name in stage.writes]
    assert len(writers) == (0 if table.name in SHARED else 1)


@by_table
def test_a_table_says_what_it_is_and_has_a_key(table):
    assert table.comment
    assert all(column.comment for column in table.columns)
    assert set(table.order) <= set(table.names)
    assert set(table.partitioned_by) <= set(table.names)
    assert len(set(table.names)) == len(table.names)


def test_no_setting_is_without_effect():
    """Every section of the configuration is declared by a stage, or decides where and how, not what."""
    methods = [default_config(method) for method in METHODS]
    declared = {
        key.split(".")[0] for stage in STAGES for config in methods for key in stage.deciding_keys(config)
    }
    elsewhere = {"method", "run", "sample"}  # a preset; places and names; what the sample logs hold
    assert {field.name for field in dataclasses.fields(Config)} - declared - elsewhere == set()
