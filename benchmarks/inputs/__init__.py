"""Systems with inputs: paths under inputs that no model has seen."""
