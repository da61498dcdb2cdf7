"""Steps of the engine: what runs, in chunks, and what each step tells the frontend (vLLM V1's rules)."""

from __future__ import annotations

import random
from collections import deque

from .blocks import BlockPool
from .sequences import Crowd, Output, Pause, Rates, Report, Request, Step


class Scheduler:
    """First come, first served, chunked prefill, prefix caching, preemption of the youngest."""

    def __init__(self, rates: Rates, pool: BlockPool, seed: int = 0) -> None:
        self.rates = rates
        self.pool = pool
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.pause: Pause = ""
        self.asleep = 0
        self.slow_decode = 1.0
        self.slow_prefill = 1.0
        self.flat = False
        self.report = Report()
        self._random = random.Random(seed)
        self._taken = 0
        self._begun: list[Request] = []

    def add(self, request: Request) -> None:
        """A request arrives."""
        request.task = self._taken
        self._taken += 1
        self.waiting.append(request)

    def find(self, request_id: str) -> Request | None:
        """The request of this id, if it is still here."""
        return next((r for r in [*self.running, *self.waiting] if r.id == request_id), None)

    def drop(self, request: Request) -> None:
        """A request ends; its blocks are free."""
        if request in self.running:
            self.running.remove(request)
        elif request in self.waiting:
            self.waiting.remove(request)
        self._release(request)

    def plan(self, now: float) -> Step | None:
        """The next step's work, None when there is nothing to do."""
        if self.asleep or self.pause == "keep":
            return None
        work = self._continue_running()
        if self.pause == "":
            self._admit(work, now)
        if not work:
            return None
        return Step(tuple(work), self._seconds(work))

    def finish(self, step: Step, at: float) -> None:
        """The step is done at `at`: KV is there, and tokens for those whose prompt is complete."""
        counted = 0
        before = len(self.report.outputs)
        for request, count in step.work:
            request.computed += count
            self._publish(request)
            if request.missing == 0:
                output = self._sample(request, at)
                self.report.outputs.append(output)
                counted += output.tokens + (request.prompt if output.first else 0)
        if len(self.report.outputs) > before:
            self.report.iterations.append(counted)
        self._count(step)
        self.report.flops += sum(count for _, count in step.work) * self.rates.flops_per_token
        self.report.steps += 1

    def _count(self, step: Step) -> None:
        """Prefill chunks and decode iterations, which some engines report one by one."""
        prefill = sum(count for request, count in step.work if count > 1 or request.generated <= 1)
        self.report.prefills += prefill > 0
        self.report.prefill_tokens += prefill
        self.report.decodes += any(request.generated > 1 for request, _ in step.work)

    def gauges(self) -> dict[str, float]:
        """How things stand; with `flat` the cache shows nothing, as with models that keep a state instead."""
        pool, block = self.pool, self.rates.block_size
        return {
            "running": len(self.running),
            "decoding": sum(1 for request in self.running if request.generated),
            "longest": max((request.computed for request in self.running), default=0),
            "waiting": len(self.waiting),
            "usage": 0.0 if self.flat else pool.usage,
            "used": 0 if self.flat else pool.used * block,
            "evictable": pool.idle * block,
            "total": pool.usable * block,
        }

    def take_report(self) -> Report:
        """What happened since the last call."""
        report, self.report = self.report, Report()
        return report

    def take_crowd(self) -> Crowd:
        """Who is here, and who has come since the last call."""
        begun, self._begun = self._begun, []
        return Crowd(list(self.running), begun)

    def _continue_running(self) -> list[tuple[Request, int]]:
        work: list[tuple[Request, int]] = []
        budget = self.rates.batch_tokens
        for request in list(self.running):
            if request.held or budget == 0 or request not in self.running:
                continue
            count = min(request.missing, budget)
            if self._make_room(request, count):
                work.append((request, count))
                budget -= count
        return [(request, count) for request, count in work if request in self.running]

    def _admit(self, work: list[tuple[Request, int]], now: float) -> None:
        budget = self.rates.batch_tokens - sum(count for _, count in work)
        while self.waiting and budget > 0 and len(self.running) < self.rates.max_running:
            request = self.waiting[0]
            if self._blocks(request.prompt + request.generated) > self.pool.free:
                return
            self.waiting.popleft()
            request.slot = self._free_slot()
            self.running.append(request)
            self._begun.append(request)
            self._hit_cache(request)
            request.scheduled = request.scheduled or now
            count = min(request.missing, budget)
            self._grow(request, request.computed + count)
            work.append((request, count))
            budget -= count

    def _free_slot(self) -> int:
        taken = {request.slot for request in self.running}
        return next(slot for slot in range(len(taken) + 1) if slot not in taken)

    def _hit_cache(self, request: Request) -> None:
        """Take the cached prefix; at least one token is always computed."""
        whole = (request.prompt - 1) // self.rates.block_size
        keys = request.hashes[: self.pool.cached(request.hashes[:whole])]
        for key in keys:
            self.pool.share(key)
        request.shared = list(keys)
        request.computed = len(keys) * self.rates.block_size
        if not request.preemptions:
            request.cached = request.computed
            self.report.queries += request.prompt
            self.report.hits += request.computed

    def _make_room(self, request: Request, count: int) -> bool:
        """Blocks for `count` more tokens; the youngest go back to the queue when there are too few."""
        tokens = request.computed + count + (self.rates.spec_tokens if request.decoding else 0)
        while self._blocks(tokens) - request.private - len(request.shared) > self.pool.free:
            victim = next((r for r in reversed(self.running) if not r.held), request)
            self._preempt(victim)
            if victim is request:
                return False
        self._grow(request, tokens)
        return True

    def _preempt(self, victim: Request) -> None:
        self.running.remove(victim)
        self._release(victim)
        victim.computed = 0
        victim.preemptions += 1
        self.report.preempted += 1
        self.waiting.appendleft(victim)

    def _grow(self, request: Request, tokens: int) -> None:
        more = self._blocks(tokens) - request.private - len(request.shared)
        if more > 0:
            self.pool.take(more)
            request.private += more

    def _publish(self, request: Request) -> None:
        """Full blocks of the prompt get their hashes, in order, as far as they are not another's."""
        full = min(request.computed, request.prompt) // self.rates.block_size
        while request.private and len(request.shared) < min(full, len(request.hashes)):
            if not self.pool.publish(request.hashes[len(request.shared)]):
                return
            request.shared.append(request.hashes[len(request.shared)])
            request.private -= 1

    def _release(self, request: Request) -> None:
        self.pool.give_back(request.private, request.shared)
        request.private = 0
        request.shared = []

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.rates.block_size)

    def _seconds(self, work: list[tuple[Request, int]]) -> float:
        decoding = sum(1 for request, _ in work if request.decoding)
        prefill = sum(count for request, count in work if not request.decoding)
        seconds = prefill / self.rates.prefill_tok_s * self.slow_prefill
        if decoding:
            alone = self._expected_tokens() / self.rates.decode_tok_s
            seconds += alone * (1 + self.rates.batch_cost * (decoding - 1)) * self.slow_decode
        return seconds

    def _expected_tokens(self) -> float:
        """Mean tokens of one decode step: a draft token counts while all before it were accepted."""
        return sum(self.rates.spec_accept**place for place in range(self.rates.spec_tokens + 1))

    def _sample(self, request: Request, at: float) -> Output:
        first = request.generated == 0
        tokens = 1 if first else 1 + self._accept_drafts()
        tokens = min(tokens, request.limit - request.generated)
        request.generated += tokens
        request.computed += tokens - 1
        reason = self._reason(request)
        if reason:
            self.drop(request)
        return Output(request.id, tokens, reason, first, at, request.scheduled, request.cached, request.preemptions)

    def _reason(self, request: Request) -> str:
        if request.generated < request.limit:
            return ""
        return "stop" if request.stops_at and request.stops_at < request.max_tokens else "length"

    def _accept_drafts(self) -> int:
        if not self.rates.spec_tokens:
            return 0
        accepted = 0
        while accepted < self.rates.spec_tokens and self._random.random() < self.rates.spec_accept:
            accepted += 1
        self.report.drafts += 1
        self.report.accepted.append(accepted)
        return accepted
