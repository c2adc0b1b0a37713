"""Linear matchers on a label tree: training, beam search, ensembles."""
