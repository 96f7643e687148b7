"""Routing of flows through FRED switches: the joint word model, and the colouring protocols that it is measured against."""
