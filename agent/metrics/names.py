"""Every metric: its name, type, labels and help. The reference table in config/prometheus is made from this."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "recipe_agent_"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `name` without the prefix and, for a counter, without `_total`."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def full(self) -> str:
        """The name on the wire."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")


def gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name, "gauge", text, labels)


def counter(name: str, text: str, *labels: str) -> Family:
    return Family(name, "counter", text, labels)


BUILD_INFO = gauge("build_info", "Always 1; the version of the agent is the label.", "version")
STATE = gauge("deployment_state", "1 for the state that the deployment is in, 0 for the others.", "recipe", "state")
SUPERVISION = gauge("supervision", "1 for the mode that the deployment is supervised in.", "recipe", "mode")
UP = gauge("engine_up", "1 when the engine's container runs.", "recipe")
READY = gauge("engine_ready", "1 when the engine is ready, busy or only suspected.", "recipe")
PROGRESS = gauge(
    "seconds_since_progress", "Seconds since the scheduler of this rank was last seen to move.", "recipe", "rank"
)
RUNNING = gauge("requests_running", "Requests in the engine's batch, by its own count.", "recipe")
WAITING = gauge("requests_waiting", "Requests that wait in the engine, by its own count.", "recipe")
CLIENTS = gauge(
    "client_connections", "Established connections on the engine's port, the agent's own left out.", "recipe"
)
ZOMBIES = gauge("zombie_requests", "Requests that run although nobody waits for them.", "recipe")
ZOMBIE_KV = gauge("zombie_kv_tokens", "Tokens of KV cache that zombie requests hold.", "recipe")
PROMPT = counter("prompt_tokens", "Prompt tokens that the engine counted, over its restarts.", "recipe")
GENERATION = counter("generation_tokens", "Generated tokens that the engine counted, over its restarts.", "recipe")
DECODE = gauge("decode_tokens_per_second", "Generated tokens a second over the last samples, all requests.", "recipe")
KV_USAGE = gauge("kv_cache_usage_ratio", "Share of the KV cache that live work holds.", "recipe")
ACCEPTANCE = gauge("spec_decode_acceptance_ratio", "Accepted of drafted tokens over the last samples.", "recipe")
SUSPECTS = counter("suspects", "Times that the engine was suspected.", "recipe", "reason")
STALLS = counter("stalls", "Times that the engine was found stalled or holding zombies.", "recipe", "kind")
RESTARTS = counter(
    "restarts", "Restarts for a fault, and for wear (slow, memory) in a maintenance window.", "recipe", "reason"
)
RESTART_WAITS = gauge(
    "restart_waits",
    "1 while a restart for this reason (plan, person, slow, memory) waits for a maintenance window.",
    "recipe",
    "reason",
)
WOULD = counter("would_restart", "Faults that were only observed.", "recipe", "reason")
BUDGET = gauge("restart_budget_remaining", "Restarts left before a person is needed.", "recipe")
STARTUP = gauge("startup_progress_ratio", "Progress of the start-up phase that runs; 1 once ready.", "recipe", "phase")
STARTUP_S = gauge("startup_duration_seconds", "How long the last start took until ready.", "recipe")
PREFLIGHT = gauge("preflight_ok", "1 where the last preflight's check passed, 0 where it warned, failed or is unknown.",
                  "recipe", "check")  # fmt: skip
CLAIM_RATIO = gauge(
    "claim_ratio",
    "Measured by the claimed figure, as last verified on this plan; points that begin with live: of the traffic now.",
    "recipe",
    "point",
)
CLAIM_COMPARABLE = gauge(
    "claim_comparable",
    "1 where the claims are known to be of cards like those here, 0 where they are of others or nobody says of which.",
    "recipe",
)
VERIFIED = gauge(
    "verification_timestamp_seconds",
    "When the deployed plan was last held against its claims, in seconds since the epoch.",
    "recipe",
)
INCIDENTS = counter("incidents", "Incidents kept.", "recipe", "kind")
BLIND = gauge(
    "detector_blind", "1 where a signal that this engine's supervision wants cannot be had.", "recipe", "signal"
)

GPU_USED = gauge("gpu_memory_used_bytes", "Memory in use, the driver's reserve left out.", "gpu", "uuid")
GPU_TOTAL = gauge("gpu_memory_total_bytes", "Memory of the card.", "gpu", "uuid")
GPU_UTIL = gauge("gpu_utilization_ratio", "Share of time in which a kernel ran.", "gpu", "uuid")
GPU_POWER = gauge("gpu_power_watts", "Power draw.", "gpu", "uuid")
GPU_TEMP = gauge("gpu_temperature_celsius", "Temperature of the chip.", "gpu", "uuid")
GPU_XID = counter("gpu_xid", "Xid errors that the driver reported since the agent's start.", "gpu", "uuid", "xid")
GPU_WIDTH = gauge("gpu_pcie_link_width", "PCIe lanes in use now; links go down at idle.", "gpu", "uuid")
GPU_GENERATION = gauge("gpu_pcie_link_generation", "PCIe generation in use now; links go down at idle.", "gpu", "uuid")
GPU_WIDTH_MAX = gauge("gpu_pcie_link_width_max", "PCIe lanes that this card and its slot can have.", "gpu", "uuid")
GPU_GENERATION_MAX = gauge(
    "gpu_pcie_link_generation_max", "PCIe generation that this card and its slot can have.", "gpu", "uuid"
)
GPU_LOST = gauge("gpu_lost", "1 for a card that does not answer.", "gpu", "uuid")
GPU_HELD = gauge(
    "gpu_throttled",
    "1 while heat or power delivery holds the clocks down; idleness and a chosen power limit do not count.",
    "gpu",
    "uuid",
)
DRIVER_SKEW = gauge("driver_skew", "1 where the driver in the kernel and its library on disk are of two versions.")
DISK_FREE = gauge("disk_available_bytes", "What the agent may still write where this folder of its own lies.", "folder")
DISK_TOTAL = gauge("disk_total_bytes", "Size of the file system where this folder of the agent lies.", "folder")
HOST_MEMORY = gauge("host_memory_available_bytes", "Memory that can be had without swapping (MemAvailable).")
COLLECTOR_OK = gauge("collector_success", "1 when the collector's last look succeeded.", "collector")
COLLECTOR_S = gauge("collector_duration_seconds", "How long the collector's last look took.", "collector")
TICK = gauge("tick_duration_seconds", "How long the last tick of any loop took.")
LEFT_OUT = gauge("series_left_out", "Series that this family does not show, since there are too many.", "family")

FAMILIES: tuple[Family, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Family))
