"""Planned loads beside measured seconds."""

import dataclasses

import pytest
from report_sample import sample_units

from xmcspark.report.data import UnitLoad
from xmcspark.report.training_load import training_load


def unit(number, load, seconds, nodes=5, wave=0):
    return UnitLoad(0, number, number, nodes, 100, wave, 10, 100, load, seconds)


def test_seconds_as_planned_are_balanced_as_planned():
    units = [line._replace(seconds=line.predicted_load / 1e9) for line in sample_units()]
    load = training_load(units, 4)
    assert load.measured_balance == pytest.approx(load.planned_balance, rel=1e-6)
    assert load.typical_error == pytest.approx(1)
    assert sum(share.planned for share in load.shares) == pytest.approx(1)
    assert sum(share.measured for share in load.shares) == pytest.approx(1)


def test_a_unit_that_took_much_longer_makes_its_slot_the_busiest():
    units = [unit(0, 1e10, 10.0), unit(1, 1e10, 30.0)]
    load = training_load(units, 2)
    assert load.planned_balance == pytest.approx(1)
    assert load.measured_balance == pytest.approx(1.5)
    assert load.shares[0].unit.sub_tree == 1


def test_a_heavy_node_is_cut_between_tasks_as_it_was_in_training():
    """One slot would need all the time for it: the schedule cuts single nodes, and so must the measured balance."""
    whole, cut = (training_load([unit(0, 8e10, 80.0, nodes=n), unit(1, 1e10, 10.0)], 2) for n in (5, 1))
    assert whole.measured_balance == pytest.approx(160 / 90)
    assert cut.measured_balance < 1.4


def test_without_time_there_is_nothing_to_compare():
    assert training_load([], 2) is None
    assert training_load([unit(0, 1e9, 0.0)], 2) is None
    one = training_load([unit(0, 1e9, 1.0)], None)
    assert dataclasses.astuple(one)[2:] == (1, 1.0, 1.0)
