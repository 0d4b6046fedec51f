"""Systems to learn from: priors, their integration, and what is observed."""
