"""The settings of the torch stage: the encoder and how it is fine-tuned (section encoder), and what X-Transformer and
XR-Transformer fine-tune it on. Needs no torch: configurations are read without it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from xmcspark.config.setting import check_settings, setting
from xmcspark.matchers.settings import INPUTS, TrainSettings

POOLINGS = ("cls", "mean")
PRECISIONS = ("fp32", "bf16", "fp16")
DEVICES = ("auto", "cpu", "cuda")
INDEXERS = ("pifa-tfidf", "pifa-neural", "text-emb")
# Of the encoder: where and how torch works, not what it learns. How a step is cut counts as what it adds up to.
LAYOUT_KEYS = (
    *("enabled", "device", "checkpoint_every", "checkpoint_minutes", "embed_batch"),
    *("batch_size", "accumulate", "processes"),
)
# Of X-Transformer: what its rankers read and how clusters are found has nothing to do with the encoder.
FINE_TUNING_KEYS = ("indexer", "clusters", "recluster", "bootstrap")
# Of section train: what matchers that are solved while fine-tuning follow. They have rows and costs of their own.
_OF_RANKERS = ("negatives", "man_beam", "cost_sensitive", "alpha", "seed")
SOLVING_KEYS = tuple(field.name for field in fields(TrainSettings) if field.name not in _OF_RANKERS)


@dataclass(frozen=True)
class EncoderSettings:
    """A pre-trained transformer that turns texts into vectors of length 1, and how it is fine-tuned."""

    enabled: bool = setting(
        False, "Whether texts have embeddings beside TF-IDF; set by the methods that have an encoder."
    )
    model: str = setting(
        "sentence-transformers/all-MiniLM-L6-v2",
        "Folder of a transformer (config.json, model.safetensors, tokenizer), or its name on the hub, which must be in "
        "the hub's local cache where there is no network.",
    )
    pooling: str = setting(
        "mean",
        "What of the last layer stands for a text: cls, the state of the tokenizer's CLS token, wherever it puts it; "
        "mean, of all tokens.",
        source="paper 3, section 3.3: cls",
        choices=POOLINGS,
    )
    train_words: bool = setting(
        True,
        "Whether the vectors of words are trained as well, or only what lies above them: most words are rare, and "
        "vectors that only some of the training texts move no longer fit the others.",
    )
    max_length: int = setting(
        128, "Tokens of a text that are read, special ones included.", source="papers 3 and 4", minimum=4
    )
    dropout: float = setting(
        0.1, "Share of values left out while training.", source="paper 4, A.3", minimum=0, maximum=0.9
    )
    epochs: float = setting(
        3.0,
        "Passes over the training instances, all levels together; 0 leaves the encoder as it is.",
        minimum=0,
        maximum=1000,
    )
    batch_size: int = setting(
        32, "Instances of one forward pass of one process.", source="paper 4, A.3", minimum=1
    )
    accumulate: int = setting(
        1, "Forward passes whose gradients make one step.", source="paper 3: 4", minimum=1
    )
    learning_rate: float = setting(
        1e-4, "Largest step of the transformer.", source="paper 4, table 7", above=0
    )
    head_learning_rate: float = setting(
        1e-3,
        "Largest step of what lies on top of it; UniDEC has its own (unidec.head_learning_rate).",
        above=0,
    )
    weight_decay: float = setting(0.01, "Of the transformer's weights (AdamW).", minimum=0)
    warmup: float = setting(
        0.1,
        "Share of the steps in which the rate rises; then it falls to 0, in a line, or as a cosine (UniDEC).",
        source="paper 3: linear warm-up",
        minimum=0,
        maximum=1,
    )
    clip: float = setting(
        1.0, "Largest norm of the gradient of all but the rows of heads; 0 = no limit.", minimum=0
    )
    precision: str = setting(
        "fp32",
        "Of matrix products while training, and in embeddings that only training sees: fp32; bf16 and fp16 where the "
        "device has them. Embeddings that rankers and searches read are always in fp32.",
        source="paper 3, section 3.3: fp32",
        choices=PRECISIONS,
    )
    device: str = setting(
        "auto",
        "Where torch fine-tunes; auto is cuda if there is one, on executors if Spark gives tasks GPUs. Stages embed "
        "texts on the GPU that Spark gives a task, else on the CPU.",
        choices=DEVICES,
    )
    processes: int = setting(
        1,
        "Processes that fine-tune together, placed on executors by TorchDistributor; 1 fine-tunes on the driver.",
        minimum=1,
    )
    validation: float = setting(
        0.0,
        "Share of the training instances that the encoder is checked on instead of trained; 0 checks nothing.",
        minimum=0,
        maximum=0.5,
    )
    evaluate_every: int = setting(0, "Steps between checks; 0 checks at the end of a level.", minimum=0)
    patience: int = setting(
        0,
        "Checks in a row without a gain after which a level ends, with its best weights; 0 never.",
        minimum=0,
    )
    checkpoint_every: int = setting(
        200, "Steps between checkpoints, from which a killed run goes on.", minimum=1
    )
    checkpoint_minutes: float = setting(
        10.0, "Minutes after which there is a checkpoint in any case, where steps are slow.", above=0
    )
    embed_batch: int = setting(64, "Texts of one forward pass where nothing is trained.", minimum=1)

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        if not self.model:
            return ["model is empty: name a folder with a transformer, or its name on the hub"]
        if self.patience and not self.validation:
            return [
                f"patience is {self.patience} but validation is 0: without held-out instances there is no gain to "
                "wait for; set validation, such as 0.05"
            ]
        return []

    def decisive(self) -> dict[str, Any]:
        """The values that decide what is learned, but for the model to start from and how many instances a step has."""
        left_out = ("model", *LAYOUT_KEYS)
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in left_out}


@dataclass(frozen=True)
class XrTransformerSettings:
    """Fine-tuning level by level down a preliminary tree (paper 4); tree and train are those of the refined tree."""

    enabled: bool = setting(False, "Whether the encoder is fine-tuned so; set by method: xr-transformer.")
    branching: int = setting(
        16, "Children of a node of the preliminary tree.", source="paper 4, table 7", minimum=2
    )
    max_leaf: int = setting(
        16, "Labels of a leaf of the preliminary tree.", source="paper 4, table 7", minimum=2
    )
    shape: tuple[int, ...] | None = setting(
        None,
        "Nodes on each level of the preliminary tree, such as [128, 2048]; null follows from branching and max_leaf.",
        source="paper 4, table 7",
    )
    fewest_nodes: int = setting(
        16,
        "Nodes of its first level at least: levels with fewer are left out, because a few outputs teach an encoder to "
        "tell a few things apart and to forget all else.",
        source="paper 4, table 7: 16 to 512",
        minimum=1,
    )
    down_to: str = setting(
        "labels",
        "Where fine-tuning ends: at labels, or at the clusters above them.",
        source="paper 4, table 7: clusters for the three largest datasets",
        choices=("labels", "clusters"),
    )
    shares: tuple[float, ...] | None = setting(
        None, "Share of encoder.epochs that each level gets, root first; null: the same for each."
    )
    parents: int = setting(
        10, "k: predicted parents whose children an instance trains on.", source="paper 4, eq. 7", minimum=1
    )
    shortlist: str = setting(
        "matchers",
        "What predicts parents: matchers, solved anew on TF-IDF and embeddings after each level; head, what was "
        "fine-tuned.",
        source="paper 4, algorithm 1",
        choices=("matchers", "head"),
    )
    bootstrap: bool = setting(
        True,
        "Start the head of each level from weights that the solver finds on the embeddings so far.",
        source="paper 4, eq. 11",
    )
    bootstrap_root: bool = setting(
        True, "So also the head of the first level.", source="paper 4 starts it from nothing"
    )
    bootstrap_cost: float = setting(
        100.0,
        "Cp and Cn of these solutions: large, since fine-tuning has no pull to 0.",
        source="PECOS",
        above=0,
    )
    cost_sensitive: bool = setting(
        True, "Weigh positives by how many labels are below them.", source="paper 4, eq. 6 and 9"
    )
    alpha: float = setting(
        1.0,
        "Weight of negatives when cost_sensitive.",
        source="paper 4, table 7: 0.125 to 2 by dataset",
        above=0,
    )
    glas: float = setting(
        0.0,
        "Weight of R_GLaS on the level of labels: vectors of labels should be as alike as these occur together.",
        source="paper 5, eq. 1.8",
        minimum=0,
    )
    head_decay: float = setting(
        0.0, "λ: pull of the head's weights towards 0.", source="paper 4, eq. 9", minimum=0
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        problems = []
        if self.shape is not None and (
            not self.shape or any(b <= a for a, b in zip((1, *self.shape), self.shape, strict=False))
        ):
            problems.append(
                f"shape is {list(self.shape)}: each level needs more nodes than the one above, at least 2"
            )
        if self.shares is not None and (not self.shares or any(share <= 0 for share in self.shares)):
            problems.append(f"shares is {list(self.shares)}: each must be above 0")
        return problems


@dataclass(frozen=True)
class XTransformerSettings:
    """Fine-tuning on clusters of labels, and rankers within them (paper 3)."""

    enabled: bool = setting(False, "Whether the encoder is fine-tuned so; set by method: x-transformer.")
    indexer: str = setting(
        "pifa-tfidf",
        "What labels are clustered by: the TF-IDF of their instances, the embeddings of these, or of their own texts.",
        source="paper 3, section 3.2",
        choices=INDEXERS,
    )
    clusters: int | None = setting(
        None,
        "K: clusters of labels, a power of 2; null is the one that gives about 64 labels each.",
        source="paper 3, table 2: 64 for 4k labels, 8192 for 500k",
        minimum=2,
    )
    recluster: bool = setting(
        False,
        "Cluster again by the fine-tuned embeddings of instances, and fine-tune the matcher on those clusters.",
        source="paper 3, section 3.3",
    )
    bootstrap: bool = setting(
        True,
        "Start the matcher's head from weights that the solver finds on the embeddings so far.",
        source="paper 4, eq. 11; paper 3 starts it from nothing",
    )
    matching: str = setting(
        "neural",
        "What finds clusters: neural, the fine-tuned matcher; linear, matchers on what the rankers read.",
        source="paper 3, eq. 1; table 3, φ_fnt ⊕ φ_tfidf + Parabel",
        choices=("neural", "linear"),
    )
    ranker_input: str = setting(
        "tfidf+neural", "What rankers read of a text.", source="paper 3, table 5", choices=INPUTS
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def contradictions(self) -> list[str]:
        if self.clusters is not None and self.clusters & (self.clusters - 1):
            return [f"clusters is {self.clusters}: the tree of clusters is binary, use a power of 2"]
        return []
