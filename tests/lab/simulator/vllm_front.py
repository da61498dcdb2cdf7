"""vLLM's API server."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable

from . import cache_config, startfail
from .api import Api
from .control import Control
from .dialect import World
from .engine_client import EngineClient
from .front import End
from .httpd import Site
from .ledger import Books, Ledger
from .log import Log, server
from .metrics import EngineMetrics
from .startup import banner
from .stats import Tally, log_forever
from .vllm_ending import VllmEnding


class VllmFront:
    """`vllm serve`."""

    early = False

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = Log("APIServer")
        self.metrics = EngineMetrics(world.launch, world.launch.data_parallel)
        self.tally = Tally(self.metrics, world.launch.data_parallel)
        self.books: Books = Ledger(self.metrics, self.tally)

    def begin(self) -> None:
        """The banner."""
        banner(self.log, self.world.settings, self.world.launch)

    def listening(self) -> None:
        """What the server finds by itself. Raises StartFailure."""
        launch = self.world.launch
        startfail.check_model(launch, self.world.settings, self.world.board)
        self.log.note("model.py:2152", f"Using max model len {launch.max_model_len}")
        text = f"Chunked prefill is enabled with max_num_batched_tokens={launch.batch_tokens}."
        self.log.note("scheduler.py:307", text)

    def refused(self, error: Exception) -> int:
        """A traceback."""
        return startfail.refused(error)

    def interrupted(self, engine: EngineClient) -> int | None:
        """A start is ended by KeyboardInterrupt, whichever signal asks."""
        engine.kill()
        return 128 + signal.SIGINT

    def site(self, engine: EngineClient, control: Control | None) -> Site:
        """All routes."""
        launch = self.world.launch
        for core in engine.cores:
            self.metrics.cache_config(core.rank, cache_config.labels(launch, core.blocks))
        self.log.note("entry.py:136", "Supported tasks: ['generate']")
        self.log.note("entry.py:140", f"Starting vLLM server on http://{launch.host}:{launch.port}")
        server(f"Started server process [{os.getpid()}]")
        server("Waiting for application startup.")
        api = Api(self.world, engine, self.metrics, control)
        return Site(api.handle, access_log=launch.access_log)

    async def serving(self, engine: EngineClient) -> None:
        """The periodic line; off with several API servers."""
        server("Application startup complete.")
        if self.world.launch.log_stats and self.world.launch.data_parallel == 1:
            await log_forever(self.tally, self.world.clock, self.world.settings.log_interval_s, self.log)

    def failed(self, engine: EngineClient) -> int:
        """The server's own traceback, which names no cause."""
        startfail.tell_server({core.rank: core.code for core in engine.cores if core.code})
        return 1

    def died(self, end: End, *, stays: bool) -> Awaitable[int] | None:
        """The watchdog ends the server, unless it was told to stay."""
        ending = VllmEnding(self.world, end)
        ending.tell_death()
        return None if stays or self.world.settings.keep_alive_on_death else ending.after_death()

    def asked(self, end: End) -> Awaitable[int]:
        """Abort or drain."""
        return VllmEnding(self.world, end).asked()
