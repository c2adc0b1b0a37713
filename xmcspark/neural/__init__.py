"""The torch stage: text encoders, fine-tuned level by level down a label tree (XR-Transformer), on clusters of labels
(X-Transformer), or together with label embeddings (UniDEC). Only settings can be imported without torch."""

import os

# Threads of torch that wait by spinning take the cores from whoever has work: on a busy machine a step took ten times
# as long. Read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Of compiled matrix products, one for each shape, oneDNN keeps 1,024: with texts of all lengths these were 800 MB.
# Compiling one anew takes less than half the time of running it. Read when the first one is made.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")
