"""The Lorenz records of the Common Task Framework for Science: forecasts, reconstructions, statistics."""
