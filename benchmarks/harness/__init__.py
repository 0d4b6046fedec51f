"""What every benchmark of inferred dynamics shares: trials, rows, the cache and the run."""
