"""The batches of one engine: admission by KV blocks, chunked prompts, preemption.

    waiting --admitted, first chunk--> prompts --last chunk--> sequences --last token--> finished
       ^                                  |                        |
       `------------- preempted ----------+------------------------'

A replica with pipeline stages has a batcher for each batch in flight; they share its KV blocks.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from clustersim.engine.requests.request import Request
from clustersim.engine.requests.run import Run
from clustersim.engine.requests.scheduling import ReplicaModel
from clustersim.engine.requests.sequences import BlockPool, Sequences
from clustersim.inference.batch import Batch, Prompt, batch_of, prompt_of

MOST_FOLLOWING: Final = 63
"""Steps after one that are looked at together with it."""

FEWEST_CHUNKS: Final = 8
"""Chunks of a prompt that are worth a run; the times of fewer are looked up one by one."""


class Batcher:
    """Requests of one batch in flight.

    Attributes
    ----------
    waiting : requests without KV blocks, the first to be admitted first
    prompts : admitted requests whose prompts are not complete, in order
    sequences : decoding sequences
    admitted : requests that were given KV blocks, again after a preemption [count]
    handoff : receives a request whose prompt is complete, in a pool for prefill; else None
    fetch : starts the transfer of a KV cache, in a pool for decode
    recomputed : whether the last token of a transferred prompt is, for the first token
    finished : receives a request with its last token, and the time
    ended : what the end of its runs calls
    begun : when the step before began, or it looked for work last [s]
    undisturbed : steps since a request came or KV blocks were returned elsewhere
    """

    def __init__(self, model: ReplicaModel, pool: BlockPool) -> None:
        rules = model.scheduling
        self.waiting: deque[Request] = deque()
        self.prompts: deque[Request] = deque()
        self.sequences = Sequences(pool.tokens, model.gain, grow=not rules.reserve)
        self.admitted = self.undisturbed = 0
        self.begun = 0.0
        self.ended: Sequence[Callable[[Run], None]] = ()
        self.handoff: Callable[[Request], None] | None = None
        self.fetch: Callable[[Request], None] = self.arrive  # the cache is there already
        self.recomputed = False
        self.finished: Callable[[Request, float], None] = lambda _request, _now: None
        self._pool, self._rules = pool, rules
        self._counted = 0  # tokens generated so far, without those that sequences have gained
        self._most = max(1, rules.sequences // model.stages)
        self._active: dict[Request, None] = {}
        self._ended: list[Request] = []  # of a static batch, which returns as a whole
        self._arrived: list[Request] = []
        self._joining = 0  # KV blocks that these need when they join
        self._waited = 0  # steps for which prompts have waited for others
        self._copying = 0.0

    @property
    def load(self) -> int:
        """Requests that are admitted or wait."""
        return len(self.waiting) + len(self._active)

    @property
    def emitted(self) -> float:
        """Tokens generated so far."""
        return self._counted + self.sequences.gained

    def check_empty(self) -> None:
        """Check that nothing remains when all requests are complete."""
        assert not self._active, "a request remains on an engine"
        assert not self.sequences.count, "a sequence remains in a batch"

    # --- forming a step -------------------------------------------------------------------------

    def next_step(self, now: float, scheduled: float) -> Run | None:
        """Return the next step; None while there is none to make.

        Parameters
        ----------
        scheduled : when it was scheduled; requests that came later are not in it [s]
        """
        if self._arrived or self._ended:
            self._join_arrived(now)
        rules, sequences, waiting = self._rules, self.sequences, self.waiting
        admit, chunks, growth = True, [], sequences.new_blocks()
        if growth > self._pool.free:
            self._make_room()
            admit = False
        if self.prompts or waiting:
            admit = admit and not (rules.wait_steps and self._waits())
            chunks = self._chunks(now, scheduled, admit=admit)
            if self._arrived or self._ended:
                self._join_arrived(now)
            growth = sequences.new_blocks()
        count = sequences.count if rules.mixed or not chunks else 0
        if not (count or chunks):
            return None
        if count and growth:
            self._pool.take(growth)
        copying, self._copying = self._copying, 0.0
        if waiting and waiting[0].reached > scheduled:
            admit = False
        batch = self._batch(count, chunks)
        return Run(batch, chunks, count, copying, admit, len(waiting))

    def _batch(self, count: int, chunks: list[tuple[Request, int]]) -> Batch:
        """Return what a step of some sequences and chunks processes."""
        context = round(self.sequences.context) if count else 0
        if not chunks:
            return batch_of((count, context, ()))
        if not self.recomputed:
            prompts = [prompt_of((tokens, each.processed)) for each, tokens in chunks]
            return batch_of((count, context, tuple(prompts)))
        single = [each.processed for each, tokens in chunks if tokens == 1]
        prompts = [Prompt(tokens, each.processed) for each, tokens in chunks if tokens != 1]
        return Batch(count + len(single), context + sum(single), tuple(prompts))

    def following(self, run: Run) -> list[int]:
        """Return the KV blocks that each of the steps like this one after it needs.

        No request ends or arrives in them but for the last one.  What could not be admitted to this
        step has no room in these: no KV blocks are returned.
        """
        free = self._pool.free
        if not run.chunks:
            return self.sequences.following(free, MOST_FOLLOWING) if run.admitting else []
        most = self._whole_chunks(run)
        if most < FEWEST_CHUNKS:
            return []
        blocks = self.sequences.following(free, most) if run.decoding else [0] * most
        return blocks if len(blocks) >= FEWEST_CHUNKS else []

    def _whole_chunks(self, run: Run) -> int:
        """Return how many steps are filled by further chunks of a prompt, which they do not end.

        As requests arrive, they are at most twice the steps since the last one.
        """
        rules, (request, tokens) = self._rules, run.chunks[0]
        filled = tokens >= rules.budget - (self.sequences.count if rules.mixed else 0)
        if not filled or self.recomputed or len(run.chunks) > 1:
            return 0
        whole = -((request.processed - request.prompt) // tokens) - 2
        return min(MOST_FOLLOWING, 2 * self.undisturbed, whole)

    def _make_room(self) -> None:
        """Preempt requests, the last admitted first, until the next tokens have KV blocks.

        Those whose KV cache is still in transfer keep their blocks.
        """
        while self.sequences.new_blocks() > self._pool.free:
            self._preempt(next(one for one in reversed(self._active) if not one.transferred))

    def _waits(self) -> bool:
        """Whether prompts wait for more of them, while others decode."""
        rules = self._rules
        if not (self.waiting and self.sequences.count) or self.prompts:
            return False
        tokens = self.sequences.count + sum(request.prompt for request in self.waiting)
        late = self._waited >= rules.wait_steps or tokens >= rules.wait_share * rules.budget
        self._waited = 0 if late else self._waited + 1
        return not late

    def _chunks(self, now: float, scheduled: float, *, admit: bool) -> list[tuple[Request, int]]:
        """Return the prompts of the next step with their new tokens."""
        rules, chunks = self._rules, []
        budget = rules.budget - (self.sequences.count if rules.mixed else 0)
        for request in self.prompts:
            tokens = int(min(request.prompt - request.processed, budget))
            if tokens <= 0:
                break
            chunks.append((request, tokens))
            budget -= tokens
        closed = not rules.continuous and self.sequences.count
        while admit and not closed and self.waiting and budget > 0:
            request = self.waiting[0]
            if request.reached > scheduled:
                break
            tokens = 0 if request.swapped or request.transferred else request.prompt
            if tokens > budget:
                if rules.chunked:
                    tokens = int(budget)
                elif chunks:
                    break
            if len(self._active) >= self._most or not self._admit(request, now):
                break
            if tokens:
                self.prompts.append(request)
                chunks.append((request, tokens))
                budget -= tokens
        return chunks

    def _admit(self, request: Request, now: float) -> bool:
        """Give a request its KV blocks; return whether there were enough."""
        tokens, pool = request.context if request.swapped else request.prompt, self._pool
        if self._rules.reserve and self.handoff is None:
            tokens += request.output - request.emitted
        blocks = pool.blocks_of(tokens)
        growth = self.sequences.new_blocks() + self._joining
        if request.swapped or request.transferred:
            growth += self.sequences.first_block(tokens)
        if blocks + growth > pool.free:
            return False
        pool.take(blocks)
        self.admitted += 1
        self.waiting.popleft()
        self._active[request] = None
        request.blocks, request.processed = blocks, 0
        if request.transferred:
            self.fetch(request)
        elif request.swapped:
            self._resume(request)
        if request.admitted != request.admitted:
            request.admitted = now
        return True

    def _resume(self, request: Request) -> None:
        """Decode a request again, with its KV cache from the host."""
        tokens = request.context
        self._copying += self._pool.held(tokens) * self._rules.swap
        request.swapped, request.processed = False, request.prompt
        self.sequences.join(request, tokens, request.output - request.emitted)

    def arrive(self, request: Request) -> None:
        """Take a request whose KV cache has been transferred; it joins the next step."""
        self._arrived.append(request)
        self._joining += self.sequences.first_block(request.prompt)

    def _join_arrived(self, now: float) -> None:
        """Decode the requests whose KV cache has arrived; their first token may as well."""
        for request in self._arrived:
            request.transferred, request.processed = False, request.prompt - self.recomputed
            if self.recomputed:
                self.prompts.append(request)
            else:
                self._begin(request, now)
        self._arrived.clear()
        self._joining = 0
        self._end_batch(now)

    def _preempt(self, request: Request) -> None:
        del self._active[request]
        request.preemptions += 1
        if request.processed < request.prompt:
            self.prompts.remove(request)
        else:
            remaining, gained = request.output - request.emitted, self.sequences.gained_by(request)
            request.blocks += self.sequences.remove(request, remaining)
            whole = min(int(gained), remaining - 1)
            request.emitted += whole
            self._counted += whole
            self._evict(request, gained)
        self._pool.release(request.blocks)
        request.blocks = 0
        self.waiting.appendleft(request)

    def _evict(self, request: Request, gained: float) -> None:
        """Prepare a sequence without KV blocks to be resumed, which has gained some tokens."""
        cached = request.input + request.emitted
        if self._rules.preemption == "swap":
            joined = request.context + gained
            request.swapped, request.context = True, cached - 1
            self._copying += self._pool.held(joined) * self._rules.swap
        else:
            request.prompt = cached

    # --- completing a step ----------------------------------------------------------------------

    def complete(self, run: Run) -> None:
        """Count the tokens of a run that ends now."""
        steps, now = 1 + len(run.growth), run.end
        self.undisturbed += steps
        if run.decoding and (ended := self.sequences.advance(steps)):
            for request in ended:
                self._finish_sequence(request)
            for request in ended:  # when all their tokens count
                self._return(request, now)
        for request, tokens in run.chunks:
            request.processed += steps * tokens
            if request.processed == request.prompt:
                self._finish_prompt(request, now)
        if self._ended:
            self._end_batch(now)

    def _end_batch(self, now: float) -> None:
        """Return the requests of a static batch when none of them decodes any more."""
        if not self.sequences.count:
            for request in self._ended:
                self._end(request, now)
            self._ended = []

    def _finish_prompt(self, request: Request, now: float) -> None:
        """Take the token at the end of a prompt; decode the request, or hand it over."""
        assert self.prompts[0] is request, "prompts are completed in order"
        self.prompts.popleft()
        if request.prompted != request.prompted:
            request.prompted = now
        if self.handoff is not None:
            del self._active[request]
            self.handoff(request)
            return
        self._begin(request, now)

    def _begin(self, request: Request, now: float) -> None:
        """Count the token after a prompt, and decode the others."""
        if request.first != request.first:  # NaN: this is its first token
            request.first = now
        request.emitted += 1
        self._counted += 1
        remaining = request.output - request.emitted
        if remaining:
            self.sequences.join(request, request.prompt, remaining)
        else:
            self._return(request, now)

    def _finish_sequence(self, request: Request) -> None:
        """Count the tokens of a request with its last one."""
        request.blocks += self.sequences.leave(request)
        self._counted += request.output - request.emitted
        request.emitted = request.output

    def _return(self, request: Request, now: float) -> None:
        """Take back the KV blocks of a request with all its tokens."""
        self._pool.release(request.blocks)
        del self._active[request]
        if self._rules.continuous:
            self._end(request, now)
        else:
            self._ended.append(request)

    def _end(self, request: Request, now: float) -> None:
        request.finish = now
        self.finished(request, now)
