"""Schedules as programs of threads: what runtimes execute, and whether it is right for every interleaving."""
