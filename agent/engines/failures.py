"""Failure classes by log line, as far as engines share them (PyTorch, CUDA, NCCL, Hugging Face, sockets).

The patterns are the literal words of the libraries' own messages, read in vLLM 0.8-0.33, SGLang 0.4-0.5 and llama.cpp
(2026), and seen in recorded start-up failures of vLLM 0.32 and llama.cpp.
"""

from __future__ import annotations

from agent.engines.lines import Meaning, fails
from agent.engines.model import FailureClass as Failure

FAILURES: tuple[Meaning, ...] = (
    fails(
        Failure.BAD_FLAG,
        r"error: unrecognized arguments:|error: argument \S+: |error: the following arguments are required"
        r"|error: ambiguous option|Error: No such option|error: invalid argument: |error while handling argument"
        r"|Error: (?:Missing|Invalid value for|Got unexpected)",
    ),
    fails(
        Failure.AUTHENTICATION,
        r"GatedRepoError|401 Client Error|403 Client Error: Forbidden for url: https://huggingface"
        r"|Access to model \S+ is restricted",
    ),
    fails(
        Failure.PORT,
        r"\[Errno 98\].*address already in use|couldn't bind|EADDRINUSE"
        r"|\[Errno 98\] Address already in use|error while attempting to bind on address",
    ),
    fails(
        Failure.GPU_BUSY,
        r"Free memory on device \S+ \([\d.]+/[\d.]+ GiB\) on startup is less than desired GPU memory utilization",
    ),
    fails(
        Failure.KV_TOO_SMALL,
        r"No available memory for the cache blocks|larger than the available KV cache memory"
        r"|on kv cache allocation is less than requested memory for kv"
        r"|max seq len \(\d+\) is larger than the maximum number of tokens that can be stored in KV cache",
    ),
    fails(
        Failure.ARCHITECTURE,
        r"no kernel image is available for execution on the device"
        r"|Bfloat16 is only supported on GPUs with compute capability"
        r"|Model architectures \[.*\] (?:are not supported|failed to be inspected)|unknown model architecture"
        r"|does not recognize this architecture|is not compatible with the current PyTorch installation",
    ),
    fails(
        Failure.DRIVER,
        r"The NVIDIA driver on your system is too old|Error 804|CUDA driver version is insufficient"
        r"|unsatisfied condition: cuda|Found no NVIDIA driver on your system",
    ),
    fails(Failure.NVML_LOST, r"Failed to initialize NVML: Unknown Error"),
    fails(
        Failure.WEIGHTS,
        r"SafetensorError|incomplete metadata, file not fully covered|model is corrupted or incomplete"
        r"|data is not within the file bounds|invalid magic (?:number|characters)|PytorchStreamReader failed"
        r"|checkpoint shard \S+ (?:is missing|not found)|missing tensor '",
    ),
    fails(
        Failure.MODEL_PATH,
        r"is not a local folder and is not a valid model identifier|Invalid repository ID or local directory"
        r"|failed to open GGUF|No such file or directory.*(?:safetensors|gguf|config\.json)"
        r"|HFValidationError|Repo id must be in the form|RepositoryNotFoundError|LocalEntryNotFoundError"
        r"|does not appear to have a file named",
    ),
    fails(Failure.MEMLOCK, r"ibv_reg_mr.*(?:failed|Cannot allocate memory)"),
    fails(
        Failure.SHARED_MEMORY,
        r"/dev/s[h]m/\S*.*No space left on device|sgl_shm_mm_.*(?:No space|File exists|failed)"
        r"|unable to (?:open|write to|allocate) shared memory|Bus error.*shared memory",
    ),
    fails(
        Failure.GPU_OOM,
        r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory\. Tried to allocate|CUDA error: out of memory"
        r"|cudaMalloc failed: out of memory|Not enough memory\. Please try to increase --mem-fraction-static"
        r"|CUBLAS_STATUS_ALLOC_FAILED",
    ),
    fails(
        Failure.HOST_OOM,
        r"DefaultCPUAllocator: (?:can't|not enough) |std::bad_alloc|\bMemoryError\b|Out of memory: Killed process",
    ),
    fails(
        Failure.CUDA_FAULT,
        r"illegal memory access|unspecified launch failure|uncorrectable ECC|device-side assert|ggml_cuda.*error"
        r"|CUDA error: (?!out of memory)\w|GGML_ABORT|GGML_ASSERT\(.*failed|failed to decode, ret = -3",
    ),
    fails(
        Failure.NCCL,
        r"Watchdog caught collective operation timeout|ProcessGroupNCCL's watchdog got stuck"
        r"|taking the entire process down|ncclSystemError|ncclRemoteError|ncclUnhandledCudaError"
        r"|Timed out waiting \d+ms for (?:recv|send)|gloo.*Connection closed by peer",
    ),
)
