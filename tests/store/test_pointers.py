"""Pointers: the highest number counts, one of two writers wins, unfinished files do not count."""

import threading

import pytest

from xmcspark.errors import ConflictError
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.pointers import create_next, latest, numbers


@pytest.fixture
def place(spark, tmp_path):
    fs = Filesystem(spark)
    return fs, fs.qualified(str(tmp_path / "pointers"))


def test_there_is_no_state_before_the_first_pointer(place):
    assert latest(*place) is None


def test_the_highest_number_counts_even_past_nine(place):
    for number in range(1, 12):
        assert create_next(*place, {"at": number}) == number
    assert latest(*place) == (11, {"at": 11})


def test_a_pointer_survives_any_text(place):
    payload = {"path": 'ä "quoted"\n', "rows": 2**60, "nothing": None}
    create_next(*place, payload)
    assert latest(*place) == (1, payload)


@pytest.mark.parametrize("damaged", ["", '{"at": ', "[1]", "null"])
def test_an_unfinished_pointer_does_not_count_but_its_number_is_taken(place, damaged, caplog):
    fs, folder = place
    create_next(fs, folder, {"at": 1})
    fs.write_text(f"{folder}/2.json", damaged)
    assert latest(fs, folder) == (1, {"at": 1})
    assert "2.json is not readable" in caplog.text
    assert create_next(fs, folder, {"at": 3}) == 3
    assert latest(fs, folder) == (3, {"at": 3})


def test_other_files_are_no_pointers(place):
    fs, folder = place
    for name in ("0.json", "01.json", "x.json", "2.json.tmp", ".3.json.abc", "-4.json"):
        fs.write_text(f"{folder}/{name}", "{}")
    assert numbers(fs, folder) == []
    assert latest(fs, folder) is None


def test_who_takes_over_from_an_old_state_is_told(place):
    create_next(*place, {"at": 1})
    create_next(*place, {"by": "the other"}, after=1)
    with pytest.raises(ConflictError, match=r"2\.json was created by somebody else"):
        create_next(*place, {"by": "me"}, after=1)
    assert latest(*place) == (2, {"by": "the other"})


def test_of_many_writers_of_one_number_exactly_one_wins(place):
    outcomes = []

    def write(writer):
        try:
            create_next(*place, {"writer": writer}, after=0)
            outcomes.append(writer)
        except ConflictError:
            pass

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1
    assert latest(*place) == (1, {"writer": outcomes[0]})
