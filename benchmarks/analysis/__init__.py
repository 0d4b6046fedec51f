"""The analysis benchmark: what `fim_dynsys.analyze` finds, against known truths, and what it costs."""
