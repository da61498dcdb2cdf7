"""NVML's numbers as words."""

from __future__ import annotations

from typing import Any

import pynvml as nvml

from agent.host.gpu import ComputeMode

ARCHITECTURES = {
    nvml.NVML_DEVICE_ARCH_KEPLER: "kepler",
    nvml.NVML_DEVICE_ARCH_MAXWELL: "maxwell",
    nvml.NVML_DEVICE_ARCH_PASCAL: "pascal",
    nvml.NVML_DEVICE_ARCH_VOLTA: "volta",
    nvml.NVML_DEVICE_ARCH_TURING: "turing",
    nvml.NVML_DEVICE_ARCH_AMPERE: "ampere",
    nvml.NVML_DEVICE_ARCH_ADA: "ada",
    nvml.NVML_DEVICE_ARCH_HOPPER: "hopper",
    10: "blackwell",  # by number: the oldest pynvml that is allowed does not name these
    13: "rubin",
}
COMPUTE_MODES = {
    nvml.NVML_COMPUTEMODE_DEFAULT: ComputeMode.DEFAULT,
    nvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD: ComputeMode.EXCLUSIVE_THREAD,
    nvml.NVML_COMPUTEMODE_PROHIBITED: ComputeMode.PROHIBITED,
    nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: ComputeMode.EXCLUSIVE_PROCESS,
}
_THROTTLES = {
    0x1: "idle",
    0x2: "clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clock",
    0x200: "board_limit",
    0x400: "reliability",
}
RECOVERY_ACTION_FIELD = 230
LOST = (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED)
NEVER = (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
_WHOLE_CARD = 0xFFFFFFFF
_SAID = {
    nvml.NVML_ERROR_UNINITIALIZED: "NVML could not be opened",
    nvml.NVML_ERROR_NOT_SUPPORTED: "not supported by this card",
    nvml.NVML_ERROR_FUNCTION_NOT_FOUND: "this driver's NVML does not know the question",
    nvml.NVML_ERROR_NO_PERMISSION: "no permission to ask NVML for it",
    nvml.NVML_ERROR_GPU_IS_LOST: "the card has fallen off the bus or is otherwise out of reach (NVML: GPU is lost)",
    nvml.NVML_ERROR_RESET_REQUIRED: "the card wants a reset before it can be used again (NVML: GPU requires reset)",
    nvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no libnvidia-ml.so.1: the NVIDIA driver is not installed, or not visible here",
    nvml.NVML_ERROR_DRIVER_NOT_LOADED: "the nvidia kernel module is not loaded",
    nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "kernel module and libnvidia-ml differ in version: the driver was upgraded and the host not rebooted"
    ),
}


def said(error: Any) -> str:
    """An NVML error as words."""
    return _SAID.get(error.value) or f"NVML: {error}"


def instance_of(gpu_instance: int, compute_instance: int) -> str:
    """`gi/ci` of a MIG slice, empty for the whole card."""
    return "" if gpu_instance == _WHOLE_CARD else f"{gpu_instance}/{compute_instance}"


def throttles(mask: int) -> tuple[str, ...]:
    """Why clocks are held down; bits that are newer than this list as their number."""
    known = tuple(name for bit, name in _THROTTLES.items() if mask & bit)
    rest = mask & ~sum(_THROTTLES)
    return (*known, f"{rest:#x}") if rest else known
