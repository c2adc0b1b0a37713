"""Trees that an earlier stage has built, such as X-Transformer's clusters, in the place of those that index would."""

from __future__ import annotations

import numpy as np
from pyspark.sql import DataFrame

from xmcspark.sparse.packing import packed
from xmcspark.store.filesystem import joined
from xmcspark.store.side_files import local_copy
from xmcspark.store.stage import Context
from xmcspark.tree.build_spark import BUILT, CENTRES
from xmcspark.tree.label_tree import LabelTree

HEAD = "head"  # of the stage encode: folder of the tree and of the matcher of its first level


def given_trees(context: Context) -> tuple[list[LabelTree], DataFrame]:
    """The tree that the encoder was fine-tuned on, and nodes without centres, as tasks would have built them."""
    tree = LabelTree.load(local_copy(context.fs, joined(context.folder("encode"), HEAD, "tree")))
    rows = []
    for level, count in enumerate(tree.level_sizes[:-1]):
        nothing = np.zeros(count + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
        rows.append((0, 0, CENTRES, packed(np.array([level, 0], np.int64), *nothing)))
    return [tree], context.spark.createDataFrame(rows, BUILT)
