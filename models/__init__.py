"""The models of each family, their baselines and bounds: the only place that talks to solvers."""

if __name__ == "models":
    raise ImportError("import this folder as fabric_plan.models: install the project first (make setup)")
