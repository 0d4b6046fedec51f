"""A page one can touch: portrait, time series and diagram of a field in one HTML file; see `page`."""
