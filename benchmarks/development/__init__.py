"""The development benchmark: textbook systems on which tunable choices are made, scored as ODEBench is."""
