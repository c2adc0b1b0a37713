"""The settings of UniDEC and DePSL (section unidec): heads, losses, pools, refreshes, and how labels are searched.
Needs no torch: configurations are read without it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from xmcspark.config.setting import Rule, check_settings, setting
from xmcspark.errors import ConfigError
from xmcspark.neural.available import require_torch

HEADS = ("dual", "classifier")
LOSSES = ("decoupled-softmax", "supcon", "infonce", "triplet")
REDUCTIONS = ("psl", "pol", "pal")
SPACES = ("both", "dual", "classifier")
WITHOUT_TEXT = ("refuse", "leave-out")
SEARCHES = ("auto", "exact", "approximate")
_FEW_LABELS = 50_000  # below, comparing with all is as fast as an index
SEARCH_KEYS = ("space", "search", "recall")  # how labels are searched, once all is trained
_LAYOUT_KEYS = ("enabled", "texts_at_once", "recompute")  # how a step is cut, not what it learns
# What only one of the heads has; the weight of one against the other decides nothing without either.
_KEYS_OF_HEADS = {
    "dual": ("dual_width", "without_text", "dual_loss", "dual_share", "share"),
    "classifier": (
        "classifier_width",
        "classifier_pool_size",
        "classifier_loss",
        "bce",
        "classifier_share",
        "share",
        "table_learning_rate",
        "start_from_text",
        "glas",
    ),
}
_TAU = 5  # the paper's: what is drawn from does not get narrower with refreshes more often


def _are_heads(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and 0 < len(value) == len(set(map(str, value)))
        and all(head in HEADS for head in value)
    )


@dataclass(frozen=True)
class UnidecSettings:
    """A dual encoder and a classifier, trained together on pools of labels (paper 5, chapter 2)."""

    enabled: bool = setting(False, "Whether the encoder is trained so; set by method: unidec.")
    heads: tuple[str, ...] = setting(
        HEADS,
        "What is trained: dual compares texts with label texts, classifier with a vector of each label; dual alone is "
        "DePSL.",
        source="paper 5, section 2.3",
        rule=Rule(_are_heads, "a list of dual, classifier or both"),
    )
    dual_width: int = setting(
        384,
        "Values of a dual embedding.",
        source="paper 5, table 2.2: 768 for both heads together",
        minimum=1,
    )
    classifier_width: int = setting(
        384, "Values of a label's vector in the classifier.", source="paper 5, table 2.2", minimum=1
    )
    without_text: str = setting(
        "refuse",
        "What becomes of labels without a text, which the dual head has nothing to compare with: refuse stops before "
        "anything is trained, leave-out trains and answers without them.",
        choices=WITHOUT_TEXT,
    )
    head_dropout: float = setting(
        0.1,
        "Share of values left out of g1 and g2 while training.",
        source="paper 5, section 2.4",
        minimum=0,
        maximum=0.9,
    )
    batch_size: int = setting(
        256,
        "|Q_B|: queries of a step, all processes together; encoder.batch_size and accumulate do nothing here.",
        source="paper 5, table 2.3: 221 to 2200",
        minimum=2,
    )
    positives: int = setting(
        3,
        "β: labels that each query brings into the pool, at most. A pool that is filled up has as many of their others "
        "as fit: the classifier's, by its default, nearly always all.",
        source="paper 5, figure 2.2b",
        minimum=1,
    )
    hard_negatives: int = setting(
        6, "η: mined negatives that each query brings.", source="paper 5, section 2.4.3", minimum=0
    )
    refresh_epochs: int = setting(
        5,
        "τ: epochs after which queries are clustered and negatives mined again.",
        source="paper 5, section 2.4",
        minimum=1,
    )
    mined_negatives: int | None = setting(
        None,
        "Nearest labels that a query's η are drawn from; null is η · τ, of a τ of 5 at least. The very nearest are "
        "often right, though nobody has said so.",
        source="paper 5, section 2.4.3: η · τ, τ = 5",
        minimum=1,
    )
    pool_size: int | None = setting(
        None,
        "|L_B|: labels of a pool, filled up with further positives of its queries, then with labels at random, or with "
        "fewer mined negatives; null is as many as come.",
        source="paper 5, table 2.3: 3000 to 4000",
        minimum=2,
    )
    classifier_pool_size: int | None = setting(
        4096,
        "What the classifier's pool is filled up to, as pools of pool_size are: its labels take no forward passes, so "
        "that thousands cost little. It is never smaller than the dual head's; null leaves it that one.",
        source="paper 5, table 2.3: 3000 to 4000",
        minimum=2,
    )
    reduction: str = setting(
        "psl",
        "Which labels of a query are learned: psl, all that are in the pool; pol, one; pal, all there are, with all "
        "labels for the classifier's pool.",
        source="paper 5, section 2.3.1",
        choices=REDUCTIONS,
    )
    dual_loss: str = setting(
        "decoupled-softmax", "Loss of the dual head.", source="paper 5, table 2.4", choices=LOSSES
    )
    classifier_loss: str = setting(
        "decoupled-softmax", "Loss of the classifier.", source="paper 5, table 2.4", choices=LOSSES
    )
    bce: float = setting(
        1.0,
        "Weight of binary cross-entropy beside the classifier's loss; 0 leaves it out: in the paper P@k is lower then "
        "and PSP@k higher; in bench/UNIDEC.md, with few epochs, both were higher.",
        source="paper 5, table 2.4",
        minimum=0,
    )
    dual_share: float = setting(
        0.5,
        "λ_D: weight of queries → labels against labels → queries in the dual loss.",
        source="paper 5, section 2.3.2",
        minimum=0,
        maximum=1,
    )
    classifier_share: float = setting(
        0.5, "λ_C: the same of the classifier.", source="paper 5, section 2.3.3", minimum=0, maximum=1
    )
    share: float = setting(
        0.5,
        "λ: weight of the dual loss against the classifier's, where both are trained.",
        source="paper 5, section 2.3.3",
        above=0,
        maximum=0.999,
    )
    temperature: float = setting(
        0.05, "What similarities are divided by.", source="Gupta et al. 2023 (DEXML)", above=0
    )
    learn_temperature: bool = setting(False, "Whether temperatures are learned, from there.")
    margin: float = setting(0.3, "Of the triplet loss.", source="Dahiya et al. 2023 (NGAME)", minimum=0)
    triplet_negatives: int = setting(
        5, "Hardest negatives of a pool that the triplet loss takes.", source="Dahiya et al. 2023", minimum=1
    )
    head_learning_rate: float = setting(
        2e-4, "Largest step of g1 and g2.", source="paper 5, section 2.4", above=0
    )
    table_learning_rate: float = setting(
        1e-3, "Largest step of the classifier's label vectors.", source="paper 5, section 2.4", above=0
    )
    start_from_text: bool = setting(
        True,
        "Whether the classifier's label vectors start as what g2 makes of the labels' texts; else at random.",
        source="paper 5, sections 1.2 and 1.3.2: w_l = Φ(z_l) + η_l",
    )
    glas: float = setting(
        0.0, "Weight of GLaS's regulariser on the classifier's vectors.", source="paper 5, eq. 1.8", minimum=0
    )
    extend: float = setting(
        0.0,
        "Share of the epochs in which the dual head is trained alone and without made instances; the classifier and "
        "Gandalf's rows then join. 0 trains all from the start.",
        source="paper 5, chapter 1, Gandalf with two-tower approaches",
        minimum=0,
        maximum=0.99,
    )
    texts_at_once: int = setting(64, "Texts of one forward pass; like lengths go together.", minimum=1)
    recompute: bool = setting(
        False,
        "Pass texts forward again in the backward pass: memory of one forward pass, and of a gradient for each word, "
        "instead of a whole pool's, for a third more time.",
        source="Gupta et al. 2023: gradient caching",
    )
    space: str = setting(
        "both",
        "Which embeddings are searched: those of one head, or both, concatenated.",
        source="paper 5, section 2.3.4",
        choices=SPACES,
    )
    search: str = setting(
        "auto",
        "exact compares with all labels; approximate walks a graph of near labels (faiss, HNSW); auto is exact below "
        "50,000 labels.",
        choices=SEARCHES,
    )
    recall: float = setting(
        0.98,
        "Of approximate search, measured when its index is built: share of the true 10 best that it must find.",
        minimum=0.5,
        maximum=1,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        problems = []
        if self.extend and set(self.heads) != set(HEADS):
            problems.append(
                f"extend is {self.extend} but heads is {list(self.heads)}: a dual head is extended by a classifier; "
                "set heads to [dual, classifier], or extend to 0"
            )
        if self.space != "both" and self.space not in self.heads:
            problems.append(
                f"space is {self.space} but heads is {list(self.heads)}: what is not trained cannot be searched; set "
                f"space to both, which is all there is, or add {self.space} to heads"
            )
        if self.reduction == "pal" and self.pool_size is not None:
            problems.append(
                f"pool_size is {self.pool_size} but reduction is pal, whose pools hold all labels of their queries: "
                "leave one out"
            )
        if self.mined_negatives is not None and self.mined_negatives < self.hard_negatives:
            problems.append(
                f"mined_negatives is {self.mined_negatives} and hard_negatives is {self.hard_negatives}: these are "
                "drawn from those, which must be as many at least"
            )
        if self.glas and "classifier" not in self.heads:
            problems.append(
                f"glas is {self.glas} but heads is {list(self.heads)}: it is about the classifier"
            )
        return problems

    def check_labels(self, labels: int) -> None:
        """That so many labels with instances are enough, before anything is trained."""
        if self.hard_negatives >= labels:
            raise ConfigError(
                [
                    f"unidec.hard_negatives is {self.hard_negatives}, but only {labels} labels have instances: a query "
                    f"can have at most {labels - 1} negatives; set it lower"
                ]
            )
        self.require_packages(labels)

    def searches_all(self, labels: int) -> bool:
        """Whether so many labels are all compared, without an index."""
        return self.search == "exact" or (self.search == "auto" and labels < _FEW_LABELS)

    def decisive(self, *, checked: bool) -> dict[str, Any]:
        """The values that decide what is learned (`training_keys`), as JSON has them: what was begun with the same ones
        may be gone on with, after a lack of memory, say, with smaller passes."""
        values = {name: getattr(self, name) for name in self.training_keys(checked)}
        return {**values, "heads": list(self.heads)}

    def training_keys(self, checked: bool) -> tuple[str, ...]:
        """Settings that decide what is learned. What is searched in the end is among them only if the model is
        `checked` by such a search while it is trained; how labels are searched always, because negatives are mined
        so."""
        left_out = {*_LAYOUT_KEYS, *(() if checked else ("space",))}
        for head, keys in _KEYS_OF_HEADS.items():
            left_out |= set() if head in self.heads else set(keys)
        return tuple(field.name for field in fields(self) if field.name not in left_out)

    @property
    def classifier_pool(self) -> int | None:
        """What the classifier's pool is filled up to; None: it is as it comes, or there is none."""
        if "classifier" not in self.heads:
            return None
        return max((size for size in (self.pool_size, self.classifier_pool_size) if size), default=None)

    def require_packages(self, labels: int | None = None) -> None:
        """ConfigError if what is searched approximately needs what is not installed. Without `labels`, how many there
        are, auto is taken to need nothing."""
        if self.search == "approximate" or (labels is not None and not self.searches_all(labels)):
            of = "" if labels is None else f" of {labels:,} labels"
            require_torch(f"unidec.search {self.search}{of} (exact needs nothing more)", "faiss")

    @property
    def mined(self) -> int:
        """Negatives that are kept of each query."""
        if not self.hard_negatives or self.mined_negatives is None:
            return self.hard_negatives * max(self.refresh_epochs, _TAU)
        return self.mined_negatives
