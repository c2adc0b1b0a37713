"""What a run left out or should be looked at for, from the notes of its stages: which notes mean that, and how to say
it. A stage may also note `warnings`, a list of sentences, which are shown as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Finding(NamedTuple):
    stage: str
    text: str
    warning: bool  # else a limit that did its work


# By stage and note: what so many of them are. Notes that are 0 or absent say nothing.
_CUTS = {
    ("corpus", "texts_cut"): "texts were cut to corpus.max_text_chars",
    ("corpus", "texts_with_replaced_characters"): "texts had characters replaced",
    ("corpus", "texts_not_utf8"): "texts were not valid UTF-8 and were repaired",
    ("corpus", "texts_missing"): "texts were missing and count as empty",
    ("corpus", "rows_without_labels"): "rows without labels were left out",
    ("corpus", "pairs_repeated"): "labels were given twice to a row and count once",
    (
        "corpus",
        "pairs_not_above_0",
    ): "pairs of an instance and a label had no relevance above 0 and were left out",
    ("corpus", "pairs_over_the_limit"): "pairs were cut by corpus.max_labels_per_instance",
    ("corpus", "queries_without_matches"): "queries led to no label and were left out",
    ("corpus", "queries_too_rare"): "queries were rarer than corpus.min_query_count and were left out",
    ("augment", "labels_of_instances_cut"): "labels were left out of co-occurrence by augment.max_labels",
    ("augment", "neighbours_cut"): "neighbours of labels were left out by augment.max_neighbours",
    ("index", "pifa_pairs_cut"): "pairs were left out of label features by pifa.max_instances",
    (
        "index",
        "pifa_labels_cut",
    ): "labels had more than pifa.max_instances instances, and were described by a sample",
    ("index", "pifa_features_cut"): "entries of label features were cut by pifa.max_features",
    ("train", "capped_nodes"): "nodes were trained on a sample of train.max_rows of their rows",
}
_WARNINGS = {
    ("vectorize", "rows_without_features"): (
        "instances have none of the features: their predictions are the same for all of them. Look at their texts, or "
        "lower text.vectorizers' min_df"
    ),
    ("index", "labels_without_features"): "labels have no features: the tree holds them at arbitrary places",
    ("train", "unfinished_matchers"): (
        "matchers stopped after train.max_sweeps, before reaching train.tolerance: raise one of them"
    ),
}
_UNTRAINED = {
    "train": ("training", "they were left out (corpus.min_label_count)"),
    "test": ("test", "metrics leave out these instances, and untrained labels of the others"),
}
_SPLITS = {"train_": "training ", "test_": "test "}
_OVERLAP = 0.01  # of instances, as for the stage's own warning
_CUT_WORDS = ("cut", "capped", "over_the_limit", "truncated")


def findings(notes: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """From the notes of each stage; warnings first, both in the order of the stages."""
    found = [finding for stage, noted in notes.items() for finding in _of_stage(stage, noted)]
    found += _overlapping(notes)
    return sorted(found, key=lambda finding: not finding.warning)


def _of_stage(stage: str, notes: Mapping[str, Any]) -> Iterator[Finding]:
    special = {
        "ingest": _ingested,
        "corpus": _left_out,
        "augment": _forced,
        "index": _sampled,
        "predict": _predicted,
        "evaluate": _evaluated,
    }
    if stage in special:
        yield from special[stage](notes)
    for text in _sentences(notes):
        yield Finding(stage, text, True)
    for name, value in notes.items():
        if not _is_count(value):
            continue
        split, plain = _without_split(name)
        if (stage, plain) in _WARNINGS:
            yield Finding(stage, f"{value:,} {split}{_WARNINGS[stage, plain]}.", True)
        elif (stage, plain) in _CUTS:
            yield Finding(stage, f"{value:,} {split}{_CUTS[stage, plain]}.", False)
        elif any(word in name for word in _CUT_WORDS):
            yield Finding(stage, f"{value:,} {name.replace('_', ' ')}.", False)


def _ingested(notes: Mapping[str, Any]) -> Iterator[Finding]:
    days = list((notes.get("days") or {}).values())
    bad, records = (sum(int(day.get(name) or 0) for day in days) for name in ("quarantined", "records"))
    if bad:
        yield Finding(
            "ingest",
            f"{bad:,} of {records:,} log records could not be used: the table quarantine has each with the reason.",
            False,
        )


def _left_out(notes: Mapping[str, Any]) -> Iterator[Finding]:
    for split, (word, so) in _UNTRAINED.items():
        if gone := notes.get(f"{split}_rows_untrained"):
            rows = notes.get(f"{split}_rows_with_labels", 0)
            yield Finding(
                "corpus", f"{gone:,} of {rows:,} {word} instances have no label that is trained: {so}.", False
            )


def _forced(notes: Mapping[str, Any]) -> Iterator[Finding]:
    trial = notes.get("trial") or {}
    if notes.get("rows") and trial and not trial.get("use"):
        yield Finding(
            "augment",
            f"The augmentation was asked for, but loses on held-out instances: {trial.get('why')}. Set augment.gandalf "
            "to auto.",
            True,
        )


def _overlapping(notes: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Instances that are labels too, where label texts were taught to find themselves."""
    found = notes.get("augment", {}).get("instances_that_are_labels") or 0
    total = notes.get("corpus", {}).get("test_instances") or 0
    if total and found / total > _OVERLAP:
        yield Finding(
            "augment",
            f"{found:,} of {total:,} test instances have the id of a label, and label texts are trained to find "
            "themselves: set predict.exclude_self, or give input.exclude.",
            True,
        )


def _sampled(notes: Mapping[str, Any]) -> Iterator[Finding]:
    if share := notes.get("tree_sample"):
        yield Finding(
            "index",
            f"The upper levels of the tree were built from {100 * share:.3g}% of the labels (tree.sample_labels).",
            False,
        )


def _predicted(notes: Mapping[str, Any]) -> Iterator[Finding]:
    if notes.get("empty"):
        yield Finding("predict", f"{notes['empty']}.", True)


def _evaluated(notes: Mapping[str, Any]) -> Iterator[Finding]:
    for split, of_split in notes.items():
        if isinstance(of_split, str):
            yield Finding("evaluate", f"Split {split}: {of_split}.", True)
        elif isinstance(of_split, dict):
            missing, excluded = of_split.get("unpredicted"), of_split.get("excluded")
            if missing:
                yield Finding(
                    "evaluate",
                    f"{missing:,} of {of_split.get('instances', 0):,} instances of split {split} have no predictions "
                    "and count as misses: run predict again.",
                    True,
                )
            if excluded:
                yield Finding(
                    "evaluate",
                    f"{excluded:,} true labels of split {split} are excluded for their instance and do not count.",
                    False,
                )


def _sentences(notes: Mapping[str, Any]) -> list[str]:
    given = notes.get("warnings") or notes.get("warning") or []
    return [given] if isinstance(given, str) else [str(text) for text in given]


def _without_split(name: str) -> tuple[str, str]:
    for prefix, words in _SPLITS.items():
        if name.startswith(prefix):
            return words, name.removeprefix(prefix)
    return "", name


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
