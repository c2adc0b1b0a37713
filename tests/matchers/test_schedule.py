"""Waves and tasks: everything runs once, slots end together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.matchers.schedule import Work, dealt, in_runs, plan_steps, plan_tasks, plan_waves, slot_balance
from xmcspark.tree.units import Unit

SECOND = 10**9


def work(load, number=0, nodes=2, widest=16, member=0):
    return Work(member, Unit(number, number, 1, True, nodes, 32, 100, 1000, 200, widest, load))


skewed = st.integers(0, 2**32).map(
    lambda seed: np.random.default_rng(seed).zipf(1.3, 300).clip(1, 40).astype(np.int64) * SECOND
)


@given(skewed, st.integers(1, 12))
def test_slots_end_together_when_no_unit_is_a_tenth_of_a_slots_share(loads, slots):
    loads = loads[loads * 10 * slots <= loads.sum()]
    if loads.sum() < 20 * slots * SECOND or (loads * 10 * slots > loads.sum()).any():
        return
    works = [work(int(load), number) for number, load in enumerate(loads)]
    waves = [plan_tasks(wave, slots) for wave in plan_waves(works, 4)]
    largest = max(task.load for wave in waves for task in wave)
    balance = slot_balance(waves, slots)
    assert balance <= 1 + slots * largest / sum(w.load for w in works)  # what list scheduling promises
    assert balance <= 1.1


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 9))
def test_dealing_leaves_no_hand_more_than_one_load_above_another(loads, hands):
    to = dealt(loads, hands)
    held = [sum(load for load, hand in zip(loads, to, strict=True) if hand == h) for h in range(hands)]
    assert max(held) - min(held) <= max(loads)


@given(st.lists(st.integers(1, 10**11), min_size=1, max_size=60), st.integers(1, 9), st.integers(1, 8))
def test_each_unit_is_in_one_task_of_one_wave(loads, waves, slots):
    works = [work(load, number, nodes=1, widest=200) for number, load in enumerate(loads)]
    planned = plan_waves(works, waves)
    assert len(planned) == min(waves, len(works))
    seen = {}
    for wave in planned:
        for task in plan_tasks(wave, slots):
            for part in task.works:
                seen.setdefault(part.unit.unit, []).append((part.piece, part.pieces))
    assert sorted(seen) == list(range(len(loads)))
    for pieces in seen.values():
        assert sorted(pieces) == [(i, len(pieces)) for i in range(len(pieces))]


def test_waves_do_not_depend_on_slots_and_ties_go_by_number():
    works = [work(7, number) for number in range(8)]
    assert [[w.unit.unit for w in wave] for wave in plan_waves(works, 4)] == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_steps_share_the_waves_by_their_load_and_have_one_at_least():
    steps = [[work(1, 0)], [work(20, n) for n in range(1, 9)], [work(40, n) for n in range(9, 17)]]
    planned = plan_steps(steps, 6)
    assert [len(waves) for waves in planned] == [1, 2, 4]
    assert [sorted(w.unit.unit for wave in waves for w in wave) for waves in planned] == [
        [w.unit.unit for w in step] for step in steps
    ]


def test_heavy_units_come_first_and_light_ones_share_tasks():
    works = [work(SECOND // 100, number) for number in range(400)] + [work(9 * SECOND, 400)]
    tasks = plan_tasks(works, 2)
    assert [w.unit.unit for w in tasks[0].works] == [400]
    assert 2 <= len(tasks) <= 8
    assert [t.load for t in tasks] == sorted((t.load for t in tasks), reverse=True)


def test_a_node_too_heavy_for_one_slot_is_cut_between_groups_of_children():
    alone = [work(100 * SECOND, 0, nodes=1, widest=32 * 50), work(SECOND, 1)]
    tasks = plan_tasks(alone, 4)
    assert slot_balance([tasks], 4) <= 1.1
    one_group = [work(100 * SECOND, 0, nodes=1, widest=32), work(SECOND, 1)]
    assert {w.pieces for task in plan_tasks(one_group, 4) for w in task.works} == {1}


def test_little_work_makes_few_tasks():
    works = [work(SECOND // 50, number) for number in range(30)]
    assert len(plan_tasks(works, 2)) == 2


def test_runs_hold_neighbours():
    assert in_runs([5, 5, 5, 5], 10) == [0, 0, 1, 1]
    assert in_runs([50, 1, 1], 10) == [0, 1, 1]
    assert in_runs([], 10) == []
