"""Evidence of given models: likelihoods, priors and ways to integrate them."""
