"""The commands of `fim-dynsys`."""
