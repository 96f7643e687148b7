"""Problem and plan files: strict JSON with a schema, read with paths in errors, written whole or not at all.

Fractions are integers or strings "p/q"; a strategy is its name; a fabric is its catalog name, or a plain graph where it
has none. Files that end in .gz are compressed. A plan carries a digest of its content, so that a certificate which was
edited after the planner wrote it is told from one that was not.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import re
import sys
import tempfile
import zlib
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from fabric_plan.planner.catalog import CATALOG, build
from fabric_plan.planner.errors import FabricPlanError, InvalidInput, InvalidPlan
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.formats import graph_json
from fabric_plan.planner.parallelism import Strategy
from fabric_plan.planner.plan import PlacementPlan, Plan, RoutingPlan
from fabric_plan.planner.problem import Problem

if TYPE_CHECKING:
    from fabric_plan.planner.balance import BalancePlan
    from fabric_plan.planner.schedule import SchedulePlan

    AnyPlan: TypeAlias = PlacementPlan | RoutingPlan | BalancePlan | SchedulePlan

PLAN_SCHEMA = "fabric-plan/plan/1"
PROBLEM_SCHEMA = "fabric-plan/problem/1"
MAX_BYTES = 1 << 30

T = TypeVar("T")

_FRACTION = re.compile(r"-?[0-9]{1,400}(/[1-9][0-9]{0,399})?")


def encode(value: object) -> Any:
    """Return a problem, plan or part of one as plain dicts, lists, numbers and strings."""
    return msgspec.to_builtins(value, enc_hook=_encode_hook)


def decode(value: Any, kind: type[T]) -> T:
    """Return the ``kind`` that plain dicts and lists describe.

    Raises
    ------
    InvalidInput
        Naming the path of what is wrong.
    """
    try:
        return msgspec.convert(value, kind, dec_hook=_decode_hook)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from None


def _encode_hook(value: object) -> Any:
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else str(value)
    if isinstance(value, Strategy):
        return str(value)
    if isinstance(value, Fabric):
        return value.name if value.in_catalog else msgspec.to_builtins(graph_json.to_graph(value))
    if hasattr(value, "to_lists"):
        return value.to_lists()
    raise NotImplementedError(f"{type(value).__name__} cannot be written to a file")


def _decode_hook(kind: type, value: Any) -> Any:
    if kind is Fraction:
        if isinstance(value, int) and not isinstance(value, bool):
            return Fraction(value)
        if isinstance(value, str) and _FRACTION.fullmatch(value):
            return Fraction(value)
        raise ValueError(f'expected a whole number or a fraction as in "3/2", got {value!r}')
    if kind is Strategy:
        if not isinstance(value, str):
            raise ValueError(f"expected a strategy as in MP3-DP3-PP2, got {value!r}")
        return Strategy.parse(value)
    if kind is Fabric:
        if isinstance(value, str):
            return build(value)
        try:
            return graph_json.from_graph(msgspec.convert(value, graph_json.GraphFile))
        except msgspec.ValidationError as error:
            raise ValueError(f"not a graph: {error}") from None  # a plain error, so that its path is told
    if hasattr(kind, "from_lists"):
        return kind.from_lists(value)
    raise NotImplementedError(kind)


def read_bytes(path: Path | str, limit: int = MAX_BYTES) -> bytes:
    """Return a file's content, decompressed where its name ends in .gz; ``-`` is standard input.

    Raises
    ------
    InvalidInput
        When it cannot be read or is larger than ``limit`` bytes.
    """
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(limit + 1)
        elif str(path).endswith(".gz"):
            with gzip.open(path, "rb") as stream:
                data = stream.read(limit + 1)
        else:
            with Path(path).open("rb") as stream:
                data = stream.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"{path}: cannot be read: {reason}") from None
    if len(data) > limit:
        raise InvalidInput(f"{path}: larger than {limit // 2**20} MiB, which no such file should be")
    return data


def write_atomically(path: Path | str, data: bytes) -> None:
    """Write a file whole or not at all, compressed where its name ends in .gz; ``-`` is standard output.

    Raises
    ------
    InvalidInput
        When it cannot be written; nothing is left behind then.
    """
    if str(path) == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    path = Path(path)
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    try:
        if path.exists() and not path.is_file():
            if path.is_dir():
                raise IsADirectoryError(None, "it is a directory")
            path.write_bytes(data)  # a device or a pipe cannot be replaced
            return
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
            Path(temporary).chmod(mode)
            Path(temporary).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be written: {error.strerror or error}") from None


def load_fabric(name: str) -> Fabric:
    """Return the fabric of a catalog name, or of a plain graph file.

    Raises
    ------
    InvalidInput
        When it is neither, with the nearest known name.
    """
    looks_like_file = name == "-" or "/" in name or name.endswith((".json", ".json.gz"))
    if looks_like_file or (Path(name).is_file() and name.partition(":")[0].lower() not in CATALOG):
        return graph_json.read_graph(Path(name))
    return build(name)


def check_writable(path: Path | str) -> None:
    """Raise InvalidInput now if :func:`write_atomically` could not write ``path`` later."""
    if str(path) == "-":
        return
    path = Path(path)
    parent = path.parent
    if path.is_dir():
        raise InvalidInput(f"{path}: cannot be written: it is a directory")
    if not parent.is_dir():
        raise InvalidInput(f"{path}: cannot be written: there is no directory {parent}")
    if path.exists() and not path.is_file():
        return
    try:
        # Permissions alone do not tell: a read-only or special file system refuses even root.
        handle, probe = tempfile.mkstemp(dir=parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be written: {error.strerror or error}") from None
    os.close(handle)
    Path(probe).unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def digest(document: dict[str, Any]) -> str:
    """Return the digest of a plan document, over everything but the digest itself."""
    content = {key: value for key, value in document.items() if key != "digest"}
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:32]


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return a plan as the content of a plan file."""
    document = {"schema": PLAN_SCHEMA, "family": plan.family, **encode(plan)}
    return {**document, "digest": digest(document)}


def write_plan(plan: Plan, path: Path | str) -> None:
    """Write a plan file (see :func:`write_atomically`)."""
    write_atomically(path, dump(plan_document(plan)))


def dump(document: dict[str, Any]) -> bytes:
    """Return a document as JSON, one top-level entry a line: short to read, quick to compare."""
    rows = [msgspec.json.encode(key) + b": " + msgspec.json.encode(value) for key, value in document.items()]
    return b"{\n" + b",\n".join(rows) + b"\n}\n"


def read_plan(path: Path | str) -> tuple[AnyPlan, list[str]]:
    """Read a plan file and return (plan, faults of the file itself, such as a digest that does not match).

    Raises
    ------
    InvalidPlan
        One line: the file, the path of the field that is wrong, and what was expected.
    """
    return parse_plan(read_bytes(path), str(path))


def parse_plan(data: bytes, where: str) -> tuple[AnyPlan, list[str]]:
    """Read a plan from bytes; ``where`` names them in errors. See :func:`read_plan`."""
    document = _document(data, where, PLAN_SCHEMA)
    family = document.pop("family", None)
    if family not in ("placement", "routing", "balance", "schedule"):
        raise InvalidPlan(f"{where}: family {family!r}: expected placement, routing, balance or schedule")
    stated = document.pop("digest", None)
    if not isinstance(stated, str):
        raise InvalidPlan(f"{where}: $.digest: missing; every plan file carries one")
    try:
        plan = decode(document, _plan_type(family))
    except FabricPlanError as error:
        raise InvalidPlan(f"{where}: {error}") from None
    whole = {"schema": PLAN_SCHEMA, "family": family, **document}
    faults = []
    if digest(whole) != stated:
        faults.append(
            "digest: the content was altered after the plan was written, so its bound and baselines cannot be trusted"
        )
    return plan, faults


def _plan_type(family: str) -> type[AnyPlan]:
    if family in ("placement", "routing"):
        return PlacementPlan if family == "placement" else RoutingPlan
    # These bring arrays along, which the others do without.
    if family == "balance":
        from fabric_plan.planner.balance import BalancePlan

        return BalancePlan
    from fabric_plan.planner.schedule import SchedulePlan

    return SchedulePlan


def write_problem(problem: Problem, path: Path | str) -> None:
    """Write a problem file."""
    write_atomically(path, dump({"schema": PROBLEM_SCHEMA, "family": problem.family, **encode(problem)}))


def parse_problem(data: bytes, where: str) -> Problem:
    """Read a problem of any family from bytes; ``where`` names them in errors."""
    from fabric_plan.planner.balance import BalanceProblem
    from fabric_plan.planner.problem import PlacementProblem, RoutingProblem, ScheduleProblem

    kinds: dict[str, type[Problem]] = {
        kind.family: kind for kind in (PlacementProblem, RoutingProblem, BalanceProblem, ScheduleProblem)
    }
    document = _document(data, where, PROBLEM_SCHEMA)
    family = document.pop("family", None)
    if not isinstance(family, str) or family not in kinds:
        raise InvalidInput(f"{where}: family {family!r}: expected {', '.join(kinds)}")
    try:
        return decode(document, kinds[family])
    except FabricPlanError as error:
        raise InvalidInput(f"{where}: {error}") from None


def _document(data: bytes, where: str, schema: str) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidPlan(f"{where}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidPlan(f"{where}: expected an object with the schema {schema!r}")
    found = document.pop("schema", None)
    if found != schema:
        raise InvalidPlan(f"{where}: $.schema: expected {schema!r}, found {found!r}")
    return document
