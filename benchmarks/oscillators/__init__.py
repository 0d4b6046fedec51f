"""Two noisy oscillators observed briefly: forecasting Van der Pol, imputing FitzHugh-Nagumo."""
