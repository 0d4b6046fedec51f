"""pysindy's own tests of its class, with our models in its place."""
