"""Several collectives at once over the same links: their trees packed by a linear program, whose dual bounds any schedule."""
