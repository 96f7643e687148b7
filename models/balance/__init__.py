"""Which links withdraw reachability after failures: flows for what flows can do, CP-SAT for choices that are coupled."""
