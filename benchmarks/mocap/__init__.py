"""Motion capture: walks and runs of three people, predicted from their first frames."""
