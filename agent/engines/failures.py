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
        r"|error: ambiguous option|Error: No such option|error: invalid argument: |error: unknown argument: "
        r"|error while handling argument|Error: (?:Missing|Invalid value for|Got unexpected)"
        # the check of a context that is longer than the model's, in vLLM and SGLang; with that variable set it warns
        r"|To allow overriding this maximum, set the env var|CUDA error: invalid device ordinal"
        r"|must be divisible by tensor parallel size|[Cc]annot assign requested address"
        r"|contains custom code which must be executed|requires you to execute the (?:configuration|tokenizer) file",
    ),
    fails(
        Failure.AUTHENTICATION,
        r"GatedRepoError|401 Client Error|403 Client Error: Forbidden for url: https://huggingface"
        r"|Access to model \S+ is restricted|You are trying to access a gated repo",
    ),
    fails(
        Failure.PORT,
        r"\[Errno 98\].*address already in use|couldn't bind|EADDRINUSE"
        r"|\[Errno 98\] Address already in use|error while attempting to bind on address"
        r"|port at \d+ is not available in \d+ seconds|Ports \d+ and \d+ are in use by",
    ),
    fails(
        Failure.GPU_BUSY,
        r"Free memory on device (?:\S+ )?\([\d.]+/[\d.]+ GiB\) on startup is less than desired GPU memory utilization"
        r"|ValueError: The memory capacity is unbalanced|Error in memory profiling\. "
        r"|CUDA-capable device(?:\(s\) is/are|s are) busy or unavailable",
    ),
    fails(
        Failure.KV_TOO_SMALL,
        r"No available memory for the cache blocks|larger than the available KV cache memory"
        r"|on kv cache allocation is less than requested memory for kv"
        r"|max seq len \(\d+\) is larger than the maximum number of tokens that can be stored in KV cache",
    ),
    fails(
        Failure.ARCHITECTURE,
        r"no kernel image is available for execution on the device|CUDA error: invalid device function"
        r"|Bfloat16 is only supported on GPUs with compute capability"
        r"|Model architectures \[.*\] (?:are not supported|failed to be inspected)|unknown model architecture"
        r"|(?:trying to load has model type \S+ but Transformers )?does not recognize this architecture"
        r"|is not compatible with the current PyTorch installation|Unknown architecture for AutoModel"
        r"|is not supported for the current GPU\. Minimum capability"
        r"|out of resource: (?:shared memory|tensor memory|threads)|device kernel image is invalid"
        r"|ptxas fatal *: *Value \S+ is not defined|has no device code compatible with CUDA arch"
        r"|unknown pre-tokenizer type|Tokenizer class \S+ does not exist|exec format error",
    ),
    fails(
        Failure.IMAGE,
        r"Could not find nvcc|OSError: CUDA_HOME environment variable is not set|No such file or directory: '\S*nvcc"
        r"|ImportError: (?!libcuda\.so)\S+: (?:cannot open shared object file|undefined symbol)",
    ),
    fails(
        Failure.DRIVER,
        r"The NVIDIA driver on your system is too old|Error 80[234]\b|CUDA driver version is insufficient"
        r"|unsatisfied condition: cuda|Found no NVIDIA driver on your system"
        r"|(?<!initialize CUDA: )system has unsupported display driver|PTX was compiled with an unsupported toolchain"
        # without quotation marks it was raised, else vLLM only tells of it: engines for the processor need none
        r"|ImportError: libcuda\.so\.1: cannot open shared object file",
    ),
    fails(Failure.NVML_LOST, r"Failed to initialize NVML: Unknown Error"),
    fails(Failure.NO_CARDS, r"No CUDA GPUs are available|Failed to infer device type"),
    fails(
        Failure.WEIGHTS,
        r"SafetensorError|incomplete metadata, file not fully covered|model is corrupted or incomplete"
        r"|tensor '\S+' (?:data is not within the file bounds|has wrong shape)|invalid magic (?:number|characters)"
        r"|PytorchStreamReader failed"
        r"|checkpoint shard \S+ (?:is missing|not found)|missing tensor '|wrong number of tensors; expected"
        r"|failed to load GGUF split|Following weights were not initialized from|Tried to load weights of size"
        r"|There is no module or parameter named|KeyError: '(?:model\.|language_model\.)*layers\.\d",
    ),
    fails(
        Failure.MODEL_PATH,
        r"is not a local folder and is not a valid model identifier|Invalid repository ID or local directory"
        r"|failed to open GGUF|No such file or directory.*(?:safetensors|gguf|config\.json)"
        r"|HFValidationError|Repo id must be in the form|RepositoryNotFoundError|does not appear to have a file named"
        r"|Cannot find any model weights with|Can't load (?:the configuration of|tokenizer for)"
        r"|outgoing traffic has been disabled|offline mode is enabled",
    ),
    fails(
        Failure.NETWORK,
        # raised in the end; what is tried again is told in other words
        r"LocalEntryNotFoundError|We couldn't connect to |Connect(?:ion)?(?:Error|Timeout): .*"
        r"(?:Max retries exceeded|Read timed out|name resolution|Connection refused|timed out)",
    ),
    fails(Failure.MEMLOCK, r"ibv_reg_mr.*(?:failed|Cannot allocate memory)"),
    fails(
        Failure.SHARED_MEMORY,
        # not a word for temporary files: the mount of every container's shared memory
        r"/dev/s[h]m/\S*.*No space left on device|No space left on device.*(?:/dev/s[h]m|\bpsm_)"
        r"|sgl_shm_mm_.*(?:No space|File exists|failed)|unable to (?:open|write to|allocate) shared memory"
        r"|unable to write to file </torch_|[Bb]us error.*shared memory"
        r"|NCCL WARN (?:Call to posix_fallocate failed|Error while creating shared memory segment)",
    ),
    fails(Failure.DISK_FULL, r"No space left on device"),
    fails(
        Failure.GPU_OOM,
        r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory\. Tried to allocate|CUDA error: out of memory"
        r"|cudaMalloc failed: out of memory|Not enough memory\. Please try to increase --mem-fraction-static"
        r"|CUBLAS_STATUS_ALLOC_FAILED|CUDA driver error: out of memory|Triton Error \[CUDA\]: out of memory"
        r"|Cuda failure (?:\d+ )?'out of memory'|Cuda Runtime \(out of memory\)"
        r"|CUDA runtime error in .*: out of memory",
    ),
    fails(
        Failure.HOST_OOM,
        r"DefaultCPUAllocator: (?:can't|not enough) |(?:an instance of ')?std::bad_alloc|\bMemoryError\b"
        r"|Out of memory: Killed process",
    ),
    fails(
        Failure.CUDA_FAULT,
        r"illegal memory access|unspecified launch failure|uncorrectable ECC|device-side assert|ggml_cuda.*error"
        r"|CUDA error: (?!out of memory)\w|failed to decode, ret = -3"
        r"|CUDA runtime error in |CUDA unknown error",
    ),
    fails(
        Failure.NCCL,
        r"Watchdog caught collective operation timeout|ProcessGroupNCCL's watchdog got stuck"
        r"|taking the entire process down|ncclSystemError|ncclRemoteError|ncclUnhandledCudaError"
        r"|Timed out waiting \d+ms for (?:recv|send)|gloo.*Connection closed by peer"
        r"|NCCL error(?:: | in: )|Dist(?:Backend|Store|Network)Error|Failed: MPI error",
    ),
    # A check of the launch that none of the above names. A request that is refused has other values in these words.
    fails(Failure.BAD_FLAG, r"Value error, .*\[type=value_error, input_value=ArgsKwargs\("),
)
