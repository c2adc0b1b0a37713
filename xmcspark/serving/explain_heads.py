"""Why a text gets a label from UniDEC: how similar the two are by each head. Vectors have no words, so no gram is told:
the terms are the heads' similarities, which add up to the score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmcspark.serving.explain import Step, Term

if TYPE_CHECKING:
    from xmcspark.neural.unidec.search import LabelSearch


def head_step(search: LabelSearch, embedding: np.ndarray, label: int) -> Step:
    """The search as if it were a matcher of the label at a root; InputError if the label is not searched."""
    found = search.similarities(embedding, label)
    terms = [
        Term(name, number, 1.0, similarity, similarity)
        for number, (name, similarity) in enumerate(found.items())
    ]
    return Step(0, 0, label, True, 0.0, terms, sum(found.values()))
