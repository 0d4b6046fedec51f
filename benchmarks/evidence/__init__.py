"""Evidence: pairs of textbook models, each true in turn, compared by nested sampling and by quadrature."""
