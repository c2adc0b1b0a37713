"""Views over the tables of a run that put names to numbers: which feature a weight belongs to, what a predicted label
is called, which clusters a label is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class View:
    name: str
    needs: tuple[str, ...]  # tables
    columns: dict[str, str]  # name: meaning
    query: str  # `{first_hashed}`: the first member whose features are hashed, see `filled`

    def filled(self, trained: dict[str, Any]) -> str:
        """The query for a run, by what its stage train noted."""
        sketch = trained.get("mach", {})
        hashed = int(sketch["first_member"]) if sketch.get("hashed_features") else _NO_MEMBER
        return self.query.format(first_hashed=hashed)


_NO_MEMBER = 2**31 - 1

VIEWS = (
    View(
        "matcher_weights",
        ("matchers", "vocabulary"),
        {
            "member": "which tree of the ensemble; after the trees, which repetition of MACH",
            "node": "the node whose child the matcher scores; 0 in a repetition",
            "child": "the child: a label if is_label, else a node, or a bucket of a repetition",
            "gram": "the words or characters that the weight is for; embedding[j] for a coordinate of embeddings; null "
            "in repetitions with mach.hashed_features, where many grams share a weight",
            "weight": "what a text that has them adds to the score",
            "is_label": "whether the child is a label; never in a repetition",
            "feature": "number of the gram in vocabulary; coordinates are numbered after it; with hashed features, the "
            "column that they are hashed into",
            "vectorizer": "name of the vectorizer it belongs to; null for coordinates and hashed features",
        },
        """
        SELECT m.member, m.node, m.child,
               if(m.hashed, NULL, coalesce(v.gram, concat('embedding[', m.feature - e.first, ']'))) AS gram,
               m.weight, m.is_label, m.feature, v.vectorizer
        FROM (SELECT member, node, child, is_label, member >= {first_hashed} AS hashed,
                     inline(arrays_zip(features, weights)) AS (feature, weight)
              FROM matchers) m
        LEFT JOIN vocabulary v ON v.feature = m.feature AND NOT m.hashed
        CROSS JOIN (SELECT max(feature) + 1 AS first FROM vocabulary) e
        """,
    ),
    View(
        "predictions_named",
        ("predictions", "labels"),
        {
            "id": "the instance",
            "rank": "1 is the best",
            "key": "key of the label",
            "text": "text of the label",
            "score": "its score",
            "label": "number of the label",
            "split": "train or test",
        },
        """
        SELECT p.id, p.at + 1 AS rank, l.key, l.text, p.one.scores AS score, l.id AS label, p.split
        FROM (SELECT id, split, posexplode(arrays_zip(labels, scores)) AS (at, one) FROM predictions) p
        JOIN labels l ON l.id = p.one.labels
        """,
    ),
    View(
        "label_path",
        ("tree_labels", "tree_nodes", "labels"),
        {
            "member": "which tree of the ensemble",
            "label": "the label",
            "level": "0 is the root",
            "node": "the cluster that holds the label on this level",
            "path": "path of the cluster",
            "n_labels": "labels in the cluster",
            "key": "key of the label",
            "text": "text of the label",
        },
        """
        SELECT t.member, t.label, n.level, n.node, n.path, n.n_labels, l.key, l.text
        FROM (SELECT member, label, explode(transform(
                  sequence(0, if(path = '', 0, size(split(path, '[.]')))),
                  level -> array_join(slice(split(path, '[.]'), 1, level), '.'))) AS path
              FROM tree_labels) t
        JOIN tree_nodes n ON n.member = t.member AND n.path = t.path
        JOIN labels l ON l.id = t.label
        """,
    ),
)
