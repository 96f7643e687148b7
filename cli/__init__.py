"""The command line: one module a command, and no logic that a Python user could not call."""

if __name__ == "cli":
    raise ImportError("import this folder as fabric_plan.cli: install the project first (make setup)")
