"""The simulator: it judges plans, and shares no code with the models that make them."""
