"""The candidate search of many contexts at once, as tensors: twins of files of `fim_dynsys.regression`."""
