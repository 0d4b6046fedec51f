"""An interactive explorer: portrait, time series and diagram of a field in one HTML file; see `page`."""
