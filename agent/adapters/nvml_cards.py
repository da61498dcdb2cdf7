"""What NVML says about each card, as readings. Runs in NVML's own process: any call here may hang."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml as nvml

from agent.adapters.nvml_words import (
    ARCHITECTURES,
    COMPUTE_MODES,
    LOST,
    NEVER,
    RECOVERY_ACTION_FIELD,
    instance_of,
    said,
    throttles,
)
from agent.clock import Instant
from agent.host.gpu import (
    ComputeCapability,
    Gpu,
    GpuProcess,
    Identity,
    Mig,
    MigInstance,
    RecoveryAction,
    RemappedRows,
)
from agent.host.reading import Known, Reading, Unknown
from agent.quantity import Bytes

T = TypeVar("T")


class _CardLostError(Exception):
    """The card does not answer any more; the text says why."""


def read_cards(at: Instant, xid_events: Callable[[int], Reading[bool]]) -> tuple[Gpu, ...]:
    """All cards in NVML's order; one that does not answer is in its place, lost with its reason."""
    return tuple(_read_card(index, at, xid_events(index)) for index in range(nvml.nvmlDeviceGetCount()))


def _read_card(index: int, at: Instant, xid_events: Reading[bool]) -> Gpu:
    identity = Identity(index)
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        identity = identify(index, handle)
        return _Card(handle, at).read(identity, xid_events)
    except _CardLostError as lost:
        return Gpu.gone(identity, str(lost))
    except nvml.NVMLError as error:
        return Gpu.gone(identity, said(error))


def identify(index: int, handle: Any) -> Identity:
    """UUID, PCI address and name of a card that answers; NVMLError from one that does not."""
    return Identity(
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        pci=_where_known(lambda: _text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower()),
        name=_where_known(lambda: _text(nvml.nvmlDeviceGetName(handle))),
    )


def _where_known(ask: Callable[[], str]) -> str:
    """A name that this driver may not know to give; a card that does not answer raises all the same."""
    try:
        return ask()
    except nvml.NVMLError as error:
        if error.value not in NEVER:
            raise
        return ""


class _Card:
    """One card that answers. The first answer that says it is lost ends the reading of it (`_CardLostError`)."""

    def __init__(self, handle: Any, at: Instant) -> None:
        self._handle = handle
        self._at = at

    def read(self, identity: Identity, xid_events: Reading[bool]) -> Gpu:
        total, used, reserved, unified = self._memory()
        mig = self._mig()
        return Gpu(
            index=identity.index,
            uuid=identity.uuid,
            pci=identity.pci,
            name=identity.name,
            minor=self._ask(nvml.nvmlDeviceGetMinorNumber, shape=int),
            memory_total=total,
            memory_used=used,
            memory_reserved=reserved,
            unified_memory=unified,
            compute_capability=self._ask(
                nvml.nvmlDeviceGetCudaComputeCapability, shape=lambda pair: ComputeCapability(*pair)
            ),
            architecture=_named(self._ask(nvml.nvmlDeviceGetArchitecture, shape=int), ARCHITECTURES, "architecture"),
            utilization=self._ask(nvml.nvmlDeviceGetUtilizationRates, shape=lambda rates: rates.gpu / 100),
            power_w=self._ask(nvml.nvmlDeviceGetPowerUsage, shape=_watts),
            power_limit_w=self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit, shape=_watts),
            temperature_c=self._temperature(),
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM, shape=int),
            sm_clock_max_mhz=self._ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM, shape=int),
            memory_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM, shape=int),
            memory_clock_max_mhz=self._ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM, shape=int),
            throttle=self._throttle(),
            pcie_width=self._ask(nvml.nvmlDeviceGetCurrPcieLinkWidth, shape=int),
            pcie_width_max=self._ask(nvml.nvmlDeviceGetMaxPcieLinkWidth, shape=int),
            pcie_generation=self._ask(nvml.nvmlDeviceGetCurrPcieLinkGeneration, shape=int),
            pcie_generation_max=self._ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration, shape=int),
            mig=mig,
            compute_mode=_named(self._ask(nvml.nvmlDeviceGetComputeMode, shape=int), COMPUTE_MODES, "compute mode"),
            ecc=self._ask(nvml.nvmlDeviceGetEccMode, shape=lambda modes: bool(modes[0])),
            ecc_uncorrected=self._ask(
                nvml.nvmlDeviceGetTotalEccErrors,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
                shape=int,
            ),
            remapped_rows=self._ask(
                nvml.nvmlDeviceGetRemappedRows,
                shape=lambda rows: RemappedRows(rows[0], rows[1], bool(rows[2]), bool(rows[3])),
            ),
            recovery_action=self._recovery_action(),
            persistence=self._ask(nvml.nvmlDeviceGetPersistenceMode, shape=bool),
            xid_events=xid_events,
            processes=self._processes(),
        )

    def _ask(self, call: Callable[..., Any], *args: Any, shape: Callable[[Any], T]) -> Reading[T]:
        try:
            return Known(shape(call(self._handle, *args)), self._at)
        except nvml.NVMLError as error:
            if error.value in LOST:
                raise _CardLostError(said(error)) from error
            return Unknown(said(error), unsupported=error.value in NEVER)

    def _memory(self) -> tuple[Reading[Bytes], Reading[Bytes], Reading[Bytes], Reading[bool]]:
        """Total, used, the driver's reserve, and whether the card has no memory of its own.

        The first version of the call counts the driver's reserve as used (615 MiB on an idle H200); the second, from
        driver 510 on, is what nvidia-smi shows.
        """
        info = self._ask(nvml.nvmlDeviceGetMemoryInfo, nvml.nvmlMemory_v2, shape=_whole)
        reserved: Reading[Bytes]
        if isinstance(info, Known):
            reserved = Known(Bytes(info.value.reserved), self._at)
        else:
            info = self._ask(nvml.nvmlDeviceGetMemoryInfo, shape=_whole)
            reserved = Unknown("this driver's NVML counts its reserve as used and does not tell how much it is")
        if isinstance(info, Unknown):
            unified: Reading[bool] = Known(True, self._at) if info.unsupported else info
            return info, info, info, unified
        total, used = (Known(Bytes(size), self._at) for size in (info.value.total, info.value.used))
        return total, used, reserved, Known(False, self._at)

    def _temperature(self) -> Reading[int]:
        reading = self._ask(_temperature_v, nvml.NVML_TEMPERATURE_GPU, shape=int)
        if isinstance(reading, Known):
            return reading
        return self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU, shape=int)

    def _throttle(self) -> Reading[tuple[str, ...]]:
        reading = self._ask(nvml.nvmlDeviceGetCurrentClocksEventReasons, shape=throttles)
        if isinstance(reading, Known):
            return reading
        # The name before driver 535.
        return self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, shape=throttles)

    def _recovery_action(self) -> Reading[RecoveryAction]:
        field = self._ask(nvml.nvmlDeviceGetFieldValues, [RECOVERY_ACTION_FIELD], shape=lambda values: values[0])
        if isinstance(field, Unknown):
            return field
        if field.value.nvmlReturn != nvml.NVML_SUCCESS:
            error = nvml.NVMLError(field.value.nvmlReturn)
            return Unknown(said(error), unsupported=error.value in NEVER)
        number = int(field.value.value.uiVal)
        try:
            return Known(RecoveryAction(number), self._at)
        except ValueError:
            return Unknown(
                f"recovery action {number} is newer than this agent: see NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"
            )

    def _mig(self) -> Reading[Mig]:
        modes = self._ask(nvml.nvmlDeviceGetMigMode, shape=lambda pair: (bool(pair[0]), bool(pair[1])))
        if isinstance(modes, Unknown):
            return modes
        enabled, pending = modes.value
        return Known(Mig(enabled, pending, self._instances() if enabled else ()), self._at)

    def _instances(self) -> tuple[MigInstance, ...]:
        count = self._ask(nvml.nvmlDeviceGetMaxMigDeviceCount, shape=int)
        slices = range(count.value if isinstance(count, Known) else 0)
        return tuple(found for index in slices if (found := self._instance(index)) is not None)

    def _instance(self, index: int) -> MigInstance | None:
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, index)
            uuid = _text(nvml.nvmlDeviceGetUUID(handle))
            gpu_instance = int(nvml.nvmlDeviceGetGpuInstanceId(handle))
            compute_instance = int(nvml.nvmlDeviceGetComputeInstanceId(handle))
        except nvml.NVMLError:  # the numbers up to the maximum need not all be taken
            return None
        total, used, _, _ = _Card(handle, self._at)._memory()
        return MigInstance(uuid, gpu_instance, compute_instance, total, used)

    def _processes(self) -> Reading[tuple[GpuProcess, ...]]:
        compute = self._ask(nvml.nvmlDeviceGetComputeRunningProcesses_v3, shape=self._shape_processes("compute"))
        if isinstance(compute, Unknown):
            return compute
        graphics = self._ask(nvml.nvmlDeviceGetGraphicsRunningProcesses_v3, shape=self._shape_processes("graphics"))
        return Known(compute.value + (graphics.value if isinstance(graphics, Known) else ()), self._at)

    def _shape_processes(self, kind: str) -> Callable[[Any], tuple[GpuProcess, ...]]:
        def one(row: Any) -> GpuProcess:
            memory: Reading[Bytes] = (
                Unknown("NVML does not tell how much this process holds")
                if row.usedGpuMemory is None
                else Known(Bytes(row.usedGpuMemory), self._at)
            )
            return GpuProcess(int(row.pid), memory, kind, instance_of(row.gpuInstanceId, row.computeInstanceId))

        return lambda rows: tuple(one(row) for row in rows)


def _named(number: Reading[int], names: dict[int, T], what: str) -> Reading[T]:
    if isinstance(number, Unknown):
        return number
    if number.value not in names:
        return Unknown(f"{what} {number.value} is newer than this agent")
    return Known(names[number.value], number.at)


def _temperature_v(handle: Any, sensor: int) -> Any:
    # The older call is due to go with CUDA 14; the newer one is missing in older pynvml and in older drivers.
    if not hasattr(nvml, "nvmlDeviceGetTemperatureV"):
        raise nvml.NVMLError(nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    return nvml.nvmlDeviceGetTemperatureV(handle, sensor)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


def _whole(value: Any) -> Any:
    return value
