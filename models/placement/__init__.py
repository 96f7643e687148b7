"""Placement: seats for the workers of a hybrid-parallel job, with certificates."""
