"""Parameter estimation for known equations: experiments, sensitivities, objectives, starts, profiles."""
