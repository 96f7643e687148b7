"""MSCCL algorithms as programs of threads, with what their runtimes check, limit, and do not check.

Sources: the parsers and interpreters of microsoft/msccl, the msccl-executor and RCCL, as the ground truth of this project lists their rules. A step waits for
``flag[depid] >= deps`` on its own GPU; flags are written by steps with hasdep=1 only, with the step's number in the document, so waiting for a step
that does not publish waits for the next one that does, or for ever.
"""

from __future__ import annotations

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.msccl_xml import TYPES, Algorithm, GpuElement, TbElement
from fabric_plan.planner.threads.findings import Findings
from fabric_plan.planner.threads.msccl_header import DEPTHS, Header
from fabric_plan.planner.threads.program import NONE, Buffer, Program, Thread

SEND, RECV, SRC, DST, TARGET = 1, 2, 4, 8, 16
"""What a type does: sends, receives, reads its source, writes its target, reads its target too."""

EFFECTS = {
    "s": SEND | SRC, "r": RECV | DST, "rcs": RECV | DST | SEND, "rrs": RECV | SRC | SEND, "rrc": RECV | SRC | DST,
    "rrcs": RECV | SRC | DST | SEND, "cpy": SRC | DST, "re": SRC | DST | TARGET, "res_add": SRC | DST | TARGET, "nop": 0,
}  # fmt: skip

FUSED = 16


class Lowering:
    """Makes the program of an algorithm in one placement; findings of what is wrong are added.

    Structure that makes no sense to any runtime (numbers that repeat, GPUs that are missing) raises instead.
    """

    def __init__(self, algorithm: Algorithm, head: Header, findings: Findings, *, in_place: bool) -> None:
        self.algorithm, self.head, self.findings, self.in_place = algorithm, head, findings, in_place
        self.program = Program(ranks=head.collective.ranks, names=TYPES, depth=DEPTHS[head.protocol])
        self.buffers: dict[tuple[int, int], Buffer] = {}
        self._connections: dict[tuple[int, int, int], int] = {}

    def lower(self) -> Program:
        """Return the program."""
        gpus = self._gpus()
        for gpu in gpus:
            self._buffers(gpu)
        senders: dict[int, TbElement] = {}
        receivers: dict[int, TbElement] = {}
        self._first: dict[tuple[int, int], int] = {}
        self._op_of: dict[int, int] = {}
        for gpu in gpus:
            for tb in gpu.blocks:
                self._block(gpu, tb, senders, receivers)
        self._dependencies(gpus)
        self._ends(senders, receivers)
        return self.program

    def _gpus(self) -> list[GpuElement]:
        ranks = self.head.collective.ranks
        found: dict[int, GpuElement] = {}
        for gpu in self.algorithm.gpus:
            if gpu.id in found:
                raise InvalidInput(f"line {gpu.line}: gpu {gpu.id} comes twice")
            if not 0 <= gpu.id < ranks:
                raise InvalidInput(f"line {gpu.line}: gpu {gpu.id}: ngpus is {ranks}")
            found[gpu.id] = gpu
            seen = set()
            for tb in gpu.blocks:
                if tb.id in seen:
                    raise InvalidInput(f"line {tb.line}: thread block {tb.id} of gpu {gpu.id} comes twice")
                seen.add(tb.id)
            if seen != set(range(len(seen))):
                raise InvalidInput(
                    f"line {gpu.line}: thread blocks of gpu {gpu.id}: expected numbers 0 to {len(seen) - 1}"
                )
        missing = [rank for rank in range(ranks) if rank not in found]
        if missing:
            raise InvalidInput(f"gpu {missing[0]} is missing: ngpus is {ranks}")
        return [found[rank] for rank in range(ranks)]

    def _buffers(self, gpu: GpuElement) -> None:
        rank, collective = gpu.id, self.head.collective
        size_i, size_o = collective.sizes(rank)
        if collective.name == "custom":
            size_i, size_o = gpu.chunks[0], gpu.chunks[1]
        for declared, real, name in ((gpu.chunks[0], size_i, "i_chunks"), (gpu.chunks[1], size_o, "o_chunks")):
            if declared > real:
                self.findings.add(
                    "warning",
                    "chunks",
                    f"gpu {rank} declares {name}={declared}; {self.head.pieces} pieces make {real}",
                    line=gpu.line,
                )
        program = self.program
        alias = collective.alias(rank) if self.in_place else None
        if alias is None:
            i, o = program.buffer(rank, "i", size_i), program.buffer(rank, "o", size_o)
        elif alias[0] == "i":
            o = program.buffer(rank, "o", size_o)
            i = program.buffer(rank, "i", size_i, over=o, shift=alias[1])
        else:
            i = program.buffer(rank, "i", size_i)
            o = program.buffer(rank, "o", size_o, over=i, shift=alias[1])
        s = program.buffer(rank, "s", max(0, gpu.chunks[2]))
        for index, buffer in enumerate((i, o, s)):
            self.buffers[rank, index] = buffer

    def _connection(self, source: int, target: int, channel: int) -> int:
        key = source, target, channel
        if key not in self._connections:
            self._connections[key] = len(self._connections)
            self.program.connections.append(key)
        return self._connections[key]

    def _block(
        self, gpu: GpuElement, tb: TbElement, senders: dict[int, TbElement], receivers: dict[int, TbElement]
    ) -> None:
        program, findings = self.program, self.findings
        rank, ranks = gpu.id, program.ranks
        where = f"g{rank}/t{tb.id}"
        if not 0 <= tb.chan < self.head.channels:
            findings.add(
                "error", "channel", f"{where}: chan={tb.chan}, nchannels is {self.head.channels}", line=tb.line
            )
        send = recv = NONE
        for peer, kind in ((tb.send, "send"), (tb.recv, "recv")):
            if peer == -1:
                continue
            if not 0 <= peer < ranks or peer == rank:
                told = "itself" if peer == rank else f"rank {peer}, there are {ranks}"
                findings.add("error", "peer", f"{where}: {kind}s with {told}", line=tb.line)
                continue
            ends = (rank, peer) if kind == "send" else (peer, rank)
            connection = self._connection(*ends, tb.chan)
            table = senders if kind == "send" else receivers
            if connection in table:
                other = table[connection]
                findings.add(
                    "error",
                    "connection",
                    f"connection {ends[0]}->{ends[1]} channel {tb.chan} is owned by thread blocks {other.id} and {tb.id} of rank {rank}, "
                    f"both {kind}",
                    line=tb.line,
                )
            table.setdefault(connection, tb)
            if kind == "send":
                send = connection
            else:
                recv = connection
        thread = len(program.threads)
        program.threads.append(Thread(rank, tb.id, tb.send, tb.recv, tb.chan, tb.line, len(program), len(program)))
        self._steps(thread, tb, send, recv)
        program.threads[thread].end = len(program)

    def _steps(self, thread: int, tb: TbElement, send: int, recv: int) -> None:
        program, algorithm, findings = self.program, self.algorithm, self.findings
        rank = program.threads[thread].rank
        effects = [EFFECTS[name] for name in TYPES]
        nop, re = TYPES.index("nop"), TYPES.index("re")
        fused = 1
        for k in range(tb.first, tb.end):
            number, kind = k - tb.first, algorithm.type[k]
            line = algorithm.lines[k]
            if algorithm.s[k] != number:
                raise InvalidInput(
                    f"line {line}: step s={algorithm.s[k]}: expected {number}, steps are numbered in order"
                )
            if kind == nop:
                continue
            effect, count = effects[kind], algorithm.cnt[k]
            if count < 1:
                findings.add(
                    "error", "count", f"g{rank}/t{tb.id}/s{number}: cnt={count}: expected at least 1", line=line
                )
                count = 1
            if kind == re and k > tb.first and algorithm.type[k - 1] == re:
                alike = (
                    algorithm.dstbuf[k] == algorithm.dstbuf[k - 1]
                    and algorithm.dstoff[k] == algorithm.dstoff[k - 1]
                    and algorithm.srcbuf[k] == algorithm.srcbuf[k - 1]
                    and algorithm.depid[k] < 0
                    and not algorithm.hasdep[k - 1]
                    and fused < FUSED
                )
                fused = fused + 1 if alike else 1
                if alike and algorithm.cnt[k] != algorithm.cnt[k - 1]:
                    findings.add(
                        "error",
                        "fused-count",
                        f"g{rank}/t{tb.id}/s{number}: re is fused with the one before, whose cnt is {algorithm.cnt[k - 1]}; "
                        f"the runtime takes {algorithm.cnt[k]} for both",
                        line=line,
                    )
            else:
                fused = 1
            source = target = NONE
            if effect & SRC:
                source = self._range(rank, tb, number, "reads", algorithm.srcbuf[k], algorithm.srcoff[k], count, line)
            if effect & DST:
                target = self._range(rank, tb, number, "writes", algorithm.dstbuf[k], algorithm.dstoff[k], count, line)
            if effect & SEND and send < 0:
                findings.add(
                    "error",
                    "no-peer",
                    f"g{rank}/t{tb.id}/s{number} ({TYPES[kind]}) sends, its thread block has no peer to send to",
                    line=line,
                )
            if effect & RECV and recv < 0:
                findings.add(
                    "error",
                    "no-peer",
                    f"g{rank}/t{tb.id}/s{number} ({TYPES[kind]}) receives, its thread block has no peer to receive from",
                    line=line,
                )
            self._op_of[k] = len(program)
            program.thread.append(thread)
            program.number.append(number)
            program.line.append(line)
            program.name.append(kind)
            program.source.append(source)
            program.target.append(target)
            program.reads_target.append(1 if effect & TARGET else 0)
            program.count.append(count)
            program.receive.append(recv if effect & RECV else NONE)
            program.send.append(send if effect & SEND else NONE)

    def _range(
        self, rank: int, tb: TbElement, number: int, verb: str, buffer: int, offset: int, count: int, line: int
    ) -> int:
        """Return the first location of a range; a finding and location 0 where it does not lie in its buffer."""
        if buffer < 0:
            self.findings.add(
                "error", "buffer", f"g{rank}/t{tb.id}/s{number} {verb} a buffer that is none of i, o, s", line=line
            )
            return NONE
        one = self.buffers[rank, buffer]
        if offset < 0 or offset + count > one.size:
            self.findings.add(
                "error",
                "bounds",
                f"g{rank}/t{tb.id}/s{number} {verb} {one.name}[{offset}:{offset + count}], the buffer has {one.size} chunks",
                line=line,
            )
            return NONE
        return one.first + offset

    def _dependencies(self, gpus: list[GpuElement]) -> None:
        """Turn depid and deps into operations to wait for; nops hand theirs on to the next real step."""
        algorithm, program, findings = self.algorithm, self.program, self.findings
        nop = TYPES.index("nop")
        op = 0
        for gpu in gpus:
            for tb in gpu.blocks:
                pending: list[int] = []
                chained = False
                # Runtimes drop nops at the end, and with them what they wait for.
                last = max((k for k in range(tb.first, tb.end) if algorithm.type[k] != nop), default=-1)
                for k in range(tb.first, tb.end):
                    depid, deps, line, number = algorithm.depid[k], algorithm.deps[k], algorithm.lines[k], k - tb.first
                    waits = NONE
                    if depid > 127:
                        findings.add(
                            "error",
                            "depid",
                            f"g{gpu.id}/t{tb.id}/s{number}: depid={depid} does not fit a signed byte",
                            line=line,
                        )
                    if depid >= 0 and k <= last:
                        waits = self._publisher(gpu, tb, number, depid, deps, line)
                    if algorithm.type[k] == nop:
                        chained = True
                        if depid < 0:
                            findings.add(
                                "warning",
                                "nop",
                                f"g{gpu.id}/t{tb.id}/s{number}: a nop that waits for nothing",
                                line=line,
                            )
                        elif waits >= 0:
                            pending.append(waits)
                        if algorithm.hasdep[k]:
                            findings.add(
                                "warning", "nop", f"g{gpu.id}/t{tb.id}/s{number}: a nop publishes nothing", line=line
                            )
                        continue
                    if chained and depid < 0:
                        findings.add(
                            "error",
                            "nop-chain",
                            f"g{gpu.id}/t{tb.id}/s{number} ends a chain of nops and has no dependency of its own: loaders refuse it",
                            line=line,
                        )
                    chained = False
                    assert self._op_of[k] == op
                    for target in pending:
                        program.wait.append(target)
                    pending = []
                    if waits >= 0:
                        program.wait.append(waits)
                    program.wait_start.append(len(program.wait))
                    op += 1
                if chained:
                    findings.add(
                        "warning",
                        "nop",
                        f"g{gpu.id}/t{tb.id}/s{tb.end - tb.first - 1}: a nop at the end makes nobody wait: runtimes drop it",
                        line=algorithm.lines[tb.end - 1],
                    )

    def _publisher(self, gpu: GpuElement, tb: TbElement, number: int, depid: int, deps: int, line: int) -> int:
        """Return the operation whose end lets a step go on; -1 and a finding where there is none."""
        algorithm, findings = self.algorithm, self.findings
        where = f"g{gpu.id}/t{tb.id}/s{number}"
        other = next(
            (one for one in (gpu.blocks[depid : depid + 1] if depid < len(gpu.blocks) else []) if one.id == depid), None
        )
        if other is None:
            other = next((one for one in gpu.blocks if one.id == depid), None)
        if other is None or deps < 0 or deps >= other.end - other.first:
            have = "does not exist" if other is None else f"has {other.end - other.first} steps"
            findings.add(
                "error",
                "dependency",
                f"{where} waits for thread block {depid} step {deps}: thread block {depid} {have}",
                line=line,
            )
            return NONE
        for k in range(other.first + deps, other.end):
            if algorithm.hasdep[k] and k in self._op_of:
                if k != other.first + deps:
                    findings.add(
                        "warning",
                        "hasdep",
                        f"{where} waits for thread block {depid} step {deps}, which does not publish: it goes on after step {k - other.first}",
                        line=line,
                    )
                if other is tb and k >= tb.first + number:
                    findings.add(
                        "error",
                        "deadlock",
                        f"{where} waits for itself or a later step of its own thread block",
                        line=line,
                    )
                    return NONE
                return self._op_of[k]
        findings.add(
            "error",
            "deadlock",
            f"{where} waits for the flag of thread block {depid} step {deps}, which is never published",
            line=line,
        )
        return NONE

    def _ends(self, senders: dict[int, TbElement], receivers: dict[int, TbElement]) -> None:
        """Add connections of which one end is missing."""
        used_send = {one for one in self.program.send if one >= 0}
        used_recv = {one for one in self.program.receive if one >= 0}
        for connection, (source, target, channel) in enumerate(self.program.connections):
            name = f"connection {source}->{target} channel {channel}"
            if connection in used_send and connection not in receivers:
                self.findings.add("error", "no-receiver", f"no receiver for {name}", line=senders[connection].line)
            if connection in used_recv and connection not in senders:
                self.findings.add("error", "no-sender", f"no sender for {name}", line=receivers[connection].line)
