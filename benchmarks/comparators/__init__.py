"""Every installed model on the oscillators and on a third of ODEBench, with its time per fit."""
