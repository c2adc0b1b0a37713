"""Notes that say something was cut or is odd become sentences; others do not."""

from xmcspark.report.findings import findings


def test_counts_of_nothing_are_no_findings():
    notes = {
        "corpus": {"train_instances": 10, "train_rows_dropped": 0, "labels_active": 3},
        "index": {"pifa_pairs_cut": 0, "labels_without_features": 0, "trees": [{"levels": [1, 3]}]},
        "train": {"capped_nodes": 0, "unfinished_matchers": 0},
        "evaluate": {"test": {"instances": 5, "unpredicted": 0, "excluded": 0}},
        "ingest": {"days": {"2026-01-01": {"records": 5, "quarantined": 0}}},
    }
    assert findings(notes) == []


def test_warnings_come_first_and_say_what_to_do():
    found = findings(
        {
            "corpus": {"train_texts_cut": 1_234},
            "train": {"unfinished_matchers": 2, "capped_nodes": 1},
        }
    )
    assert [(one.stage, one.warning) for one in found] == [
        ("train", True),
        ("corpus", False),
        ("train", False),
    ]
    assert "raise one of them" in found[0].text
    assert found[1].text.startswith("1,234 training texts were cut")


def test_instances_whose_labels_are_not_trained_are_told_apart_from_those_without_labels():
    notes = {"test_rows_read": 60, "test_rows_dropped": 16, "test_rows_without_labels": 2}
    notes |= {"test_rows_with_labels": 58, "test_rows_untrained": 14}
    texts = [one.text for one in findings({"corpus": notes})]
    assert texts[0].startswith("14 of 58 test instances have no label that is trained: metrics leave out")
    assert texts[1].startswith("2 test rows without labels")
    [found] = findings({"corpus": {"train_rows_with_labels": 9, "train_rows_untrained": 1}})
    assert "corpus.min_label_count" in found.text
    assert findings({"corpus": {"train_rows_dropped": 9, "train_rows_untrained": 0}}) == []


def test_records_in_quarantine_are_added_up_over_the_days():
    days = {"a": {"records": 10, "quarantined": 1}, "b": {"records": 5, "quarantined": 2}}
    [found] = findings({"ingest": {"days": days}})
    assert found.text.startswith("3 of 15 log records")


def test_stages_nobody_foresaw_have_their_cuts_and_warnings_shown():
    found = findings(
        {"distil": {"pairs_cut": 7, "share_cut": 0.5, "warnings": ["The teacher is weak."], "on": True}}
    )
    assert [(one.text, one.warning) for one in found] == [
        ("The teacher is weak.", True),
        ("7 pairs cut.", False),
    ]


def test_an_augmentation_that_loses_warns_only_if_it_was_used_all_the_same():
    trial = {"use": False, "why": "P@1 is worse"}
    assert findings({"augment": {"rows": 0, "trial": trial}}) == []
    [found] = findings({"augment": {"rows": 5, "trial": trial}})
    assert found.warning
    assert "P@1 is worse. Set augment.gandalf to auto" in found.text
    assert findings({"augment": {"rows": 5, "trial": trial | {"use": True}}}) == []


def test_instances_that_are_labels_warn_where_they_are_many():
    def texts(found):
        return [one.text for one in findings({"corpus": {"test_instances": 100}, "augment": found})]

    assert texts({"instances_that_are_labels": 1}) == []
    assert "predict.exclude_self" in texts({"instances_that_are_labels": 2})[0]


def test_an_evaluation_that_missed_something_warns():
    texts = [
        one.text
        for one in findings({"evaluate": {"test": {"instances": 9, "unpredicted": 2, "excluded": 3}}})
    ]
    assert "2 of 9 instances of split test have no predictions" in texts[0]
    assert "3 true labels" in texts[1]
    [empty] = findings({"evaluate": {"test": "there are no instances in this split: nothing to evaluate"}})
    assert empty.warning
