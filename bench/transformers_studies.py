"""What bench.transformers measures: the rows of each study, and the directions of the papers that these can judge. On a
whole dataset (headline, unidec), or on a subset with several seeds: of short texts (ablations, unidec-ablations), or of
long ones (unidec-long-texts)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from bench.transformers_steps import Asked
from xmcspark.config.presets import METHODS

SUBSET, SUBSET_LENGTH, LONG, SEEDS = 10_000, 32, 64, (0, 1, 2)
# Of a batch of UniDEC, with and without hard negatives: 157 steps an epoch of the subset.
QUERIES, POOL = 64, 192
SIZES = ((16, 48), (64, 96), (64, 384), (256, 768))  # other batches and pools (paper 5, table 2.3)
WIDE = 4096  # labels of a step for the classifier, where that has a pool of its own
# Every label of the classifier competes in every step; beside a dual head, whose pools are as large as the others.
PICK_ALL: dict[str, Any] = {"reduction": "pal", "pool_size": None, "bce": 0.0}
BOTH_PICK_ALL = {**PICK_ALL, "hard_negatives": 1}
CLUSTERS = (2048, 64)  # of labels, to fine-tune on once: of about 5 labels each, or of 170
ANCHOR = "Parabel"  # what gains are relative to (paper 3, table 6)

Changes = dict[str, Any]  # of the configuration, by dotted key

# Rankers that see the instances of their own cluster only, and scores that are products (PECOS); and the rankers of
# methods with an encoder.
PLAIN: Changes = {"train.negatives": "tfn", "predict.path_weight": 1.0, "predict.beam": 10}
PRODUCTS: Changes = {**PLAIN, "train.negatives": "tfn+man"}
WIDER = {key: METHODS["xr-transformer"].changes[key] for key in PLAIN}


@dataclass(frozen=True)
class Direction:
    """What a paper claims of two rows, by their names."""

    claim: str
    better: str
    other: str
    falls: tuple[str, ...] = ()  # metrics that should be lower, P or PSP; the others should be higher


@dataclass(frozen=True)
class Study:
    """Rows, given settings for all of them, and what is claimed of them."""

    rows: Callable[[Changes], Iterator[Asked]]
    directions: tuple[Direction, ...] = ()


def headline(changes: Changes) -> Iterator[Asked]:
    yield Asked(ANCHOR, "parabel")
    yield Asked("XR-Linear", "xr-linear")
    yield Asked("XR-Linear TFN+MAN", "xr-linear", WIDER)
    frozen = {**changes, "encoder.epochs": 0.0}
    yield Asked("frozen", changes=frozen)
    yield Asked("frozen with plain rankers", changes={**frozen, **PLAIN})
    yield Asked("XR-Transformer", changes=changes)
    yield Asked("XR-Transformer with plain rankers", changes={**changes, **PLAIN}, tuned_by="XR-Transformer")
    x = {"method": "x-transformer", "tuned_by": "X-Transformer"}
    yield Asked("X-Transformer", "x-transformer", changes=changes)
    yield Asked("X-Transformer with products", changes={**changes, **PRODUCTS}, **x)
    yield Asked("X-Transformer with plain rankers", changes={**changes, **PLAIN}, **x)
    yield _on_parabels_tree(changes)
    yield Asked("XR-Linear Gandalf", "xr-linear", gandalf=True)
    yield Asked("XR-Linear TFN+MAN Gandalf", "xr-linear", WIDER, gandalf=True)
    yield Asked("frozen Gandalf", changes=frozen, gandalf=True)
    yield Asked("XR-Transformer Gandalf", changes=changes, gandalf=True)


def ablations(changes: Changes) -> Iterator[Asked]:
    """What is compared is how encoders are fine-tuned: rankers are plain, or those of paper 3."""
    changes = {**changes, "encoder.max_length": SUBSET_LENGTH}

    def xr(name: str, **more: Any) -> Asked:
        own = _with({**changes, **PLAIN}, "xr_transformer", more)
        return Asked(f"XR-Transformer {name}".strip(), changes=own)

    def x(name: str, rankers: Changes = PRODUCTS, tuned_by: str = "", **more: Any) -> Asked:
        own = _with({**changes, **rankers}, "x_transformer", more)
        return Asked(f"X-Transformer {name}".strip(), "x-transformer", own, tuned_by=tuned_by)

    yield from _in_subset(
        [
            Asked(ANCHOR, "parabel"),
            Asked("XR-Linear", "xr-linear"),
            Asked("frozen", changes={**changes, **PLAIN, "encoder.epochs": 0.0}),
            xr(""),
            xr("without costs", cost_sensitive=False),
            xr("cold heads", bootstrap=False),
            xr("shortlists by head", shortlist="head"),
            replace(xr("Gandalf"), gandalf=True),
            x(""),
            x("TFN", PLAIN, "X-Transformer"),
            x("TFN tfidf", PLAIN, "X-Transformer", ranker_input="tfidf"),
            _on_parabels_tree(changes),
            x("pifa-neural", indexer="pifa-neural"),
            x("text-emb", indexer="text-emb"),
            x("reclustered", recluster=True),
            *(xr(f"{size} clusters", shape=[size], down_to="clusters") for size in CLUSTERS),
        ]
    )


def unidec(changes: Changes) -> Iterator[Asked]:
    yield Asked("XR-Linear", "xr-linear")
    yield Asked("XR-Linear TFN+MAN", "xr-linear", WIDER)
    yield Asked("XR-Linear TFN+MAN Gandalf", "xr-linear", WIDER, gandalf=True)
    yield _zero_shot(_unidec("untrained", changes, heads=["dual"], **{"encoder.epochs": 0.0}))
    yield _zero_shot(_unidec("DePSL", changes, heads=["dual"]))
    yield _unidec("classifier", changes, heads=["classifier"], pool_size=WIDE)
    yield _unidec("UniDEC", changes, classifier_pool_size=WIDE)
    yield _unidec("classifier pick all", changes, heads=["classifier"], **PICK_ALL)
    yield _unidec("UniDEC pick all", changes, **BOTH_PICK_ALL)
    yield replace(_unidec("UniDEC Gandalf", changes, extend=0.5), gandalf=True)


def unidec_ablations(changes: Changes) -> Iterator[Asked]:
    changes = _of_subset(changes, SUBSET_LENGTH)
    dual, classifier = ["dual"], ["classifier"]
    yield from _in_subset(
        [
            Asked("XR-Linear", "xr-linear"),
            _zero_shot(_unidec("untrained", changes, heads=dual, **{"encoder.epochs": 0.0})),
            _zero_shot(_unidec("DePSL", changes, heads=dual)),
            _unidec("classifier", changes, heads=classifier),
            _zero_shot(_unidec("UniDEC", changes)),
            _unidec("DePSL SupCon", changes, heads=dual, dual_loss="supcon"),
            _unidec("DePSL without hard negatives", changes, heads=dual, hard_negatives=0),
            _one_direction(changes),
            _unidec("DePSL pick one", changes, heads=dual, reduction="pol"),
            _unidec("classifier wide", changes, heads=classifier, pool_size=WIDE),
            _unidec("classifier wide without BCE", changes, heads=classifier, pool_size=WIDE, bce=0.0),
            _unidec("UniDEC wide", changes, classifier_pool_size=WIDE),
            _unidec("classifier without BCE", changes, heads=classifier, bce=0.0),
            _unidec("classifier pick one", changes, heads=classifier, reduction="pol", bce=0.0),
            _unidec("classifier pick all", changes, heads=classifier, **PICK_ALL),
            _unidec("UniDEC pick all", changes, **BOTH_PICK_ALL),
            # Made instances join when the classifier does, as the paper has it.
            _unidec("UniDEC extended", changes, extend=0.5),
            replace(_unidec("UniDEC Gandalf", changes, extend=0.5), gandalf=True),
        ]
    )
    for queries, labels in SIZES:
        name = f"DePSL {queries} queries and {labels} labels"  # --only takes no commas in names
        own = _unidec(name, changes, heads=dual, batch_size=queries, pool_size=labels)
        yield replace(own, rows=SUBSET)


def unidec_long_texts(changes: Changes) -> Iterator[Asked]:
    changes = _of_subset(changes, LONG)
    yield from _in_subset(
        [
            Asked("XR-Linear", "xr-linear"),
            _unidec("DePSL", changes, heads=["dual"]),
            _one_direction(changes),
        ]
    )


_BOTH_HEADS = (
    Direction("both heads, not the dual one alone (paper 5, table 2.2)", "UniDEC", "DePSL"),
    Direction("both heads, not the classifier alone (paper 5, table 2.2)", "UniDEC", "classifier"),
)
_BOTH_HEADS_PICK_ALL = tuple(
    Direction(f"{claim}, all labels for the classifier (paper 5, table 2.2)", "UniDEC pick all", other)
    for claim, other in (
        ("both heads, not the dual one alone", "DePSL"),
        ("both heads, not the classifier alone", "classifier pick all"),
    )
)
_ALL_LABELS = Direction("all labels for the classifier, beside the dual head", "UniDEC pick all", "UniDEC")

STUDIES = {
    "headline": Study(
        headline,
        (
            *(
                Direction(f"{method}, not {other}", method, other)
                for method in ("XR-Transformer", "X-Transformer")
                for other in ("XR-Linear", "XR-Linear TFN+MAN", "frozen with plain rankers", "frozen")
            ),
            *(
                Direction(
                    f"{method}: rankers that see more and count more, not {other}",
                    method,
                    f"{method} with {other}",
                )
                for method, other in (
                    ("frozen", "plain rankers"),
                    ("XR-Transformer", "plain rankers"),
                    ("X-Transformer", "plain rankers"),
                    ("X-Transformer", "products"),
                )
            ),
            Direction(
                "XR-Linear: rankers that see more and count more, not plain rankers",
                "XR-Linear TFN+MAN",
                "XR-Linear",
            ),
            Direction("Gandalf (paper 5, chapter 1)", "XR-Transformer Gandalf", "XR-Transformer"),
            Direction("fine-tuned with Gandalf, not frozen", "XR-Transformer Gandalf", "frozen"),
            Direction(
                "fine-tuned with Gandalf, not frozen with it", "XR-Transformer Gandalf", "frozen Gandalf"
            ),
        ),
    ),
    "ablations": Study(
        ablations,
        (
            Direction(
                "embeddings beside TF-IDF (paper 3, table 5, ids 0 and 1)",
                "X-Transformer TFN",
                "X-Transformer TFN tfidf",
            ),
            Direction(
                "matcher-aware negatives (paper 3, table 5, ids 1 and 2)",
                "X-Transformer",
                "X-Transformer TFN",
            ),
            Direction("cost-sensitive (paper 4, table 9)", "XR-Transformer", "XR-Transformer without costs"),
            Direction("bootstrapped heads (paper 4, eq. 11)", "XR-Transformer", "XR-Transformer cold heads"),
            Direction(
                "shortlists by matchers (paper 4, algorithm 1)",
                "XR-Transformer",
                "XR-Transformer shortlists by head",
            ),
            Direction("fine-tuned, not frozen (paper 4, table 5)", "XR-Transformer", "frozen"),
            Direction("Gandalf (paper 5, chapter 1)", "XR-Transformer Gandalf", "XR-Transformer"),
            Direction(
                "small clusters (paper 4, figure 2)",
                *(f"XR-Transformer {size} clusters" for size in CLUSTERS),
            ),
        ),
    ),
    "unidec": Study(
        unidec,
        (
            *_BOTH_HEADS,
            *_BOTH_HEADS_PICK_ALL,
            _ALL_LABELS,
            Direction("trained, not as it is", "UniDEC", "untrained"),
        ),
    ),
    "unidec-ablations": Study(
        unidec_ablations,
        (
            *_BOTH_HEADS,
            Direction("decoupled softmax, not SupCon (paper 5, table 2.4)", "DePSL", "DePSL SupCon"),
            Direction(
                "hard negatives in pools of the same size: P up, PSP down (paper 5, table 2.5)",
                "DePSL",
                "DePSL without hard negatives",
                falls=("PSP",),
            ),
            Direction(
                "auxiliary BCE: P up, PSP down (paper 5, table 2.4)",
                "classifier",
                "classifier without BCE",
                falls=("PSP",),
            ),
            Direction(
                "symmetric loss on short texts: P down, PSP up (paper 5, table 2.6)",
                "DePSL",
                "DePSL one direction",
                falls=("P@",),
            ),
            Direction("some labels, not one: dual (paper 5, table 2.3)", "DePSL", "DePSL pick one"),
            Direction(
                "some labels, not one: classifier (paper 5, table 2.3)",
                "classifier without BCE",
                "classifier pick one",
            ),
            Direction(
                "all labels, the upper bound (paper 5, table 2.3)",
                "classifier pick all",
                "classifier without BCE",
            ),
            Direction(
                "4,096 labels for the classifier, not 192 (paper 5, table 2.3)",
                "classifier wide",
                "classifier",
            ),
            Direction(
                "4,096 labels for the classifier, beside a dual head with 192", "UniDEC wide", "UniDEC"
            ),
            Direction(
                "auxiliary BCE in pools of 4,096: P up, PSP down (paper 5, table 2.4)",
                "classifier wide",
                "classifier wide without BCE",
                falls=("PSP",),
            ),
            _ALL_LABELS,
            Direction("Gandalf (paper 5, chapter 1)", "UniDEC Gandalf", "UniDEC extended"),
            Direction("trained, not as it is", "DePSL", "untrained"),
        ),
    ),
    "unidec-long-texts": Study(
        unidec_long_texts,
        (
            Direction(
                "symmetric loss on long texts (paper 5, table 2.6)",
                "DePSL",
                "DePSL one direction",
            ),
        ),
    ),
}


def _on_parabels_tree(changes: Changes) -> Asked:
    """A tree like Parabel's, one as in all rows, on TF-IDF and what X-Transformer's encoder has learned (paper 3, table
    3)."""
    tree = {key: value for key, value in METHODS["parabel"].changes.items() if key != "ensemble.members"}
    return Asked("X-Transformer Parabel", changes={**changes, **PLAIN, **tree}, tuned_by="X-Transformer")


def _with(changes: Changes, of: str, more: Changes) -> Changes:
    return {**changes, **{f"{of}.{key}": value for key, value in more.items()}}


def _unidec(name: str, changes: Changes, **more: Any) -> Asked:
    own = {key if "." in key else f"unidec.{key}": value for key, value in more.items()}
    return Asked(name, "unidec", {**changes, **own})


def _of_subset(changes: Changes, max_length: int) -> Changes:
    """Small batches and pools, for steps enough in an epoch of the subset."""
    pools = {"unidec.pool_size": POOL, "unidec.classifier_pool_size": None}
    return {"unidec.batch_size": QUERIES, **pools, **changes, "encoder.max_length": max_length}


def _one_direction(changes: Changes) -> Asked:
    """Queries to labels alone."""
    return _unidec("DePSL one direction", changes, heads=["dual"], dual_share=1.0)


def _zero_shot(asked: Asked) -> Asked:
    return replace(asked, zero_shot=True)


def _in_subset(wanted: Iterable[Asked]) -> Iterator[Asked]:
    """Each with each seed, on the same rows."""
    wanted = list(wanted)
    for seed in SEEDS:
        for asked in wanted:
            yield replace(asked, seed=seed, rows=SUBSET)
