"""The tables that stages meet in: their columns, what each column means, and the order of their rows. Everything
that must agree on a table (writers, SQL views, contract tests) reads it here."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import StructField, StructType, _parse_datatype_string


@dataclass(frozen=True)
class Column:
    name: str
    type: str  # Spark SQL
    comment: str


@dataclass(frozen=True)
class Table:
    """A declared table. Rows that agree in `order` are the same row: it is the key as well."""

    name: str
    comment: str
    columns: tuple[Column, ...]
    order: tuple[str, ...]
    partitioned_by: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def schema(self) -> StructType:
        return StructType(
            [
                StructField(
                    column.name, _parse_datatype_string(column.type), True, {"comment": column.comment}
                )
                for column in self.columns
            ]
        )


def _table(
    name: str, comment: str, order: str, columns: str, partitioned_by: tuple[str, ...] = ()
) -> tuple[str, Table]:
    """From one line a column: name, type, comment, divided by two or more spaces or a bar."""
    parsed = []
    for line in columns.strip().splitlines():
        column, kind, meaning = (part.strip() for part in line.split("|", 2))
        parsed.append(Column(column, kind, meaning))
    return name, Table(name, comment, tuple(parsed), tuple(order.split()), partitioned_by)


TABLES: dict[str, Table] = dict(
    (
        _table(
            "instances",
            "What is learned from, and what is evaluated on: texts and the labels they should get.",
            "split id",
            """
            id        | string       | key of the instance, unique in its split
            split     | string       | train or test
            origin    | string       | where it comes from: logs, corpus, or the augmentation that made it
            text      | string       | the text
            labels    | array<int>   | its labels, increasing
            relevance | array<float> | of each of its labels, above 0
            row_hash  | bigint       | of text, labels and relevance: changes when any of them does
            """,
            ("split",),
        ),
        _table(
            "labels",
            "Every label ever seen in this line of runs. Ids are never given to another label.",
            "id",
            """
            id         | int     | the label's number
            key        | string  | its key in the logs or the corpus
            text       | string  | its text; null if it has none
            active     | boolean | whether this run trains and predicts it
            positives  | bigint  | training instances that have it
            first_seen | date    | first date in the logs; null for ready corpora
            last_seen  | date    | last date in the logs; null for ready corpora
            """,
        ),
        _table(
            "exclude",
            "Labels that must never be predicted for an instance.",
            "id",
            """
            id     | string     | the instance
            labels | array<int> | never predicted for it, increasing
            """,
        ),
        _table(
            "cooccurrence",
            "Which labels instances have together: rows of G = YᵀY (paper 5, eq. 1.5).",
            "label",
            """
            label       | int           | the label j
            neighbours  | array<int>    | labels that instances have together with it, itself included, increasing
            counts      | array<bigint> | G_ij: training instances that have both
            probability | array<float>  | G_ij / G_jj: how likely an instance that has this label has the other
            """,
        ),
        _table(
            "augmented",
            "Training instances that were made, not observed: texts of labels with soft targets, or mixtures.",
            "split id",
            """
            id           | string       | key of the instance, unlike any of an observed one
            split        | string       | train
            origin       | string       | what made it: gandalf, self, glas, mixup, label-mixup
            label        | int          | the label whose text it is; null for mixtures
            text         | string       | the text
            labels       | array<int>   | its labels, increasing
            targets      | array<float> | how true each of them is, above 0 and at most 1
            relevance    | array<float> | of each of its labels, above 0
            partner_text | string       | a second text that is mixed in, feature by feature; null for none
            mix          | float        | the share of the first text in a mixture; null for none
            row_hash     | bigint       | of text, labels, targets, relevance and mixture: changes when any of them does
            """,
            ("split",),
        ),
        _table(
            "vocabulary",
            "The features of texts.",
            "feature",
            """
            feature    | int     | the feature's number, the column of X
            vectorizer | string  | name of the vectorizer it belongs to
            gram       | string  | the words or characters
            df         | bigint  | training instances that hold it, when it was learned
            idf        | float   | its weight, frozen for a generation
            active     | boolean | whether this run uses it
            """,
        ),
        _table(
            "features",
            "Texts as sparse rows of X, with what training needs beside them so that nothing is joined.",
            "split id",
            """
            id        | string       | the instance
            split     | string       | train or test
            indices   | array<int>   | features, increasing
            values    | array<float> | their values
            labels    | array<int>   | as in instances
            targets   | array<float> | how true each label is, as in augmented; null where each is 1
            relevance | array<float> | as in instances
            row_key   | bigint       | xxhash64 of the id: rows are trained in the order of row_key, row_hash
            row_hash  | bigint       | as in instances
            """,
            ("split",),
        ),
        _table(
            "embeddings",
            "As features, with the embedding of the text beside the sparse row; empty for methods without an encoder.",
            "split id",
            """
            id        | string       | the instance
            split     | string       | train or test
            indices   | array<int>   | features, increasing
            values    | array<float> | their values
            labels    | array<int>   | as in instances
            targets   | array<float> | how true each label is, as in augmented; null where each is 1
            relevance | array<float> | as in instances
            row_key   | bigint       | xxhash64 of the id: rows are trained in the order of row_key, row_hash
            row_hash  | bigint       | as in instances
            embedding | array<float> | of the text, of length 1: the last columns of X
            """,
            ("split",),
        ),
        _table(
            "label_features",
            "Z: what each label looks like (PIFA, paper 1, eq. 1).",
            "label",
            """
            label   | int          | the label
            indices | array<int>   | features, increasing
            values  | array<float> | their values; the row has length 1
            """,
        ),
        _table(
            "tree_nodes",
            "The clusters of the label tree. A path is as wide as its level, so a prefix selects a sub-tree.",
            "member node",
            """
            member         | int          | which tree of the ensemble
            node           | int          | number of the node, the root first, level by level
            parent         | int          | its parent; -1 for the root
            level          | int          | 0 for the root
            path           | string       | numbers of the children on the way from the root
            sub_tree       | int          | the unit it is trained in; see sub_tree_load
            n_children     | int          | nodes or labels right below it
            n_labels       | int          | labels below it
            n_rows         | bigint       | training instances with a label below it; for the root all
            nnz            | bigint       | features of those instances, counted with repeats
            centre_indices | array<int>   | features of its centre, increasing (the largest ones)
            centre_values  | array<float> | their values
            input_hash     | bigint       | of its rows and their targets, in any order: equal means nothing to retrain
            """,
        ),
        _table(
            "tree_labels",
            "Where each label sits in the tree.",
            "member label",
            """
            member   | int    | which tree of the ensemble
            label    | int    | the label
            node     | int    | its leaf cluster
            path     | string | path of that cluster
            sub_tree | int    | the unit that cluster is trained in
            position | int    | place among all labels, left to right
            """,
        ),
        _table(
            "matchers",
            "The model: one linear matcher for each child of each node, or each bucket of each repetition of MACH.",
            "member node child",
            """
            member     | int          | which tree of the ensemble; after the trees, which repetition of MACH
            sub_tree   | int          | the unit it was trained in; 0 for buckets
            node       | int          | the node whose child it scores; 0 for buckets
            child      | int          | the child: a label if is_label, else a node, or a bucket of a repetition
            is_label   | boolean      | whether the child is a label; never for buckets
            bias       | float        | constant part of the score
            features   | array<int>   | features with a weight, increasing; columns, with mach.hashed_features
            weights    | array<float> | their weights
            positives  | bigint       | training instances with a label below the child; null for buckets
            trained_in | string       | the run that trained it
            """,
        ),
        _table(
            "sub_tree_load",
            "What each training unit, or a level of it (train.negatives: man), was expected to cost and did cost.",
            "member sub_tree node",
            """
            member          | int    | which tree of the ensemble; after the trees, which repetition of MACH
            sub_tree        | int    | the unit: a sub-tree, or one node above the sub-trees
            node            | int    | its top node, or the first of its nodes of a level
            nodes           | int    | nodes trained in it
            matchers        | bigint | matchers trained in it
            wave            | int    | the wave that trained it
            task            | int    | the task of that wave
            rows            | bigint | training instances in it
            nnz             | bigint | their features
            predicted_bytes | bigint | memory it was expected to need
            peak_bytes      | bigint | peak resident memory of the process that trained it
            predicted_load  | double | its expected share of the training work, in the unit of all loads
            seconds         | double | CPU seconds it took
            """,
        ),
        _table(
            "predictions",
            "The best labels of each evaluated instance, best first.",
            "split id",
            """
            id     | string       | the instance
            labels | array<int>   | best first
            scores | array<float> | of those labels, decreasing
            split  | string       | train or test
            method | string       | the method that predicted
            """,
        ),
        _table(
            "metrics",
            "Quality of the predictions.",
            "method split metric k bin",
            """
            method | string | the method that predicted
            split  | string | the instances it is over
            metric | string | P, R, nDCG, PSP, PSnDCG, wR, coverage, macro-F1, micro-F1
            k      | int    | predictions counted per instance
            bin    | string | label-frequency bin; all for all labels
            value  | double | the metric
            low    | double | lower end of its 95% interval
            high   | double | upper end
            n      | bigint | instances, labels or positives it is over
            """,
        ),
        _table(
            "instance_errors",
            "What was missed for each evaluated instance, and what was said before the first right label.",
            "split id",
            """
            id        | string     | the instance
            split     | string     | train or test
            method    | string     | the method that predicted
            actual    | int        | its true labels, without those excluded for it
            hits      | int        | of those among the first k predictions, k the largest of evaluate.ks
            first_hit | int        | rank of the first right one, 1 is the best; null if none is among the first k
            score     | float      | of its first prediction; null without predictions
            missed    | array<int> | true labels that are not among the first k, increasing
            wrong     | array<int> | predictions before the first right one, or all k if none is right, best first
            """,
        ),
        _table(
            "label_errors",
            "How often each label was true, predicted and both among evaluated instances; labels that were neither "
            "are left out.",
            "split label k",
            """
            label          | int           | the label
            split          | string        | train or test
            method         | string        | the method that predicted
            k              | int           | predictions counted per instance
            positives      | bigint        | training instances that have it
            actual         | bigint        | evaluated instances that have it
            predicted      | bigint        | instances for which it is among the first k predictions
            hits           | bigint        | of those, instances that have it
            precision      | double        | hits / predicted; null if never predicted
            recall         | double        | hits / actual; null if never true
            confused_with  | array<int>    | at the largest k: what was said most often where it was missed, best first
            confused_times | array<bigint> | instances in which each of those was
            """,
        ),
        _table(
            "interactions",
            "What people did, day by day; shared by all runs of a root.",
            "dt query label_key",
            """
            query       | string | what was typed
            label_key   | string | the item
            impressions | bigint | times shown
            clicks      | bigint | times clicked
            purchases   | bigint | times bought
            label_text  | string | the item's text in the logs of that day; null if they have none
            dt          | date   | the day
            """,
            ("dt",),
        ),
        _table(
            "quarantine",
            "Records of the logs that could not be used.",
            "dt file line reason",
            """
            reason  | string | what is wrong with it
            file    | string | where it was read
            record  | string | the record, cut to 2000 characters
            line    | bigint | a number that tells records of one file apart: hash of the record
            records | bigint | times that record is in the file
            dt      | date   | the day it was read for; null if unknown
            """,
            ("dt",),
        ),
    )
)
