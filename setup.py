"""Maps the folders at the repository's root to the subpackages of ``fabric_plan``; all else is in pyproject.toml."""

from setuptools import find_packages, setup

ROOTS = ("planner", "models", "cli")

packages = ["fabric_plan"]
package_dir = {"fabric_plan": "fabric_plan"}
for root in ROOTS:
    for package in [root, *(f"{root}.{name}" for name in find_packages(root))]:
        packages.append(f"fabric_plan.{package}")
        package_dir[f"fabric_plan.{package}"] = package.replace(".", "/")

setup(packages=packages, package_dir=package_dir)
