"""CSR matrices and their product."""
