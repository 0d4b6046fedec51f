"""What each stage of a search gains and costs."""
