"""Schedules of collectives: the standard algorithms, and what bounds them."""
