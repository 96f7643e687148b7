"""What a problem, a plan and a fabric are. Imports no solver, and nothing from ``fabric_plan.models`` or ``.cli``."""

if __name__ == "planner":
    raise ImportError("import this folder as fabric_plan.planner: install the project first (make setup)")
