"""The flags of `vllm serve` (0.32) by the type of their value, and older ones that published launches still use."""

from __future__ import annotations

INT = """
port tensor-parallel-size/-tp pipeline-parallel-size/-pp data-parallel-size/-dp data-parallel-rank/-dpn
data-parallel-start-rank/-dpr data-parallel-size-local/-dpl data-parallel-rpc-port/-dpp
prefill-context-parallel-size/-pcp decode-context-parallel-size/-dcp api-server-count/-asc max-num-seqs
max-num-partial-prefills max-long-partial-prefills long-prefill-token-threshold block-size seed nnodes/-n node-rank/-r
master-port distributed-timeout-seconds max-parallel-loading-workers num-gpu-blocks-override max-logprobs
max-seq-len-to-capture max-cudagraph-capture-size optimization-level/-O shutdown-timeout stream-interval
h11-max-incomplete-event-size h11-max-header-count max-http-header-size max-log-len max-lora-rank max-loras
max-cpu-loras dbo-decode-token-threshold dbo-prefill-token-threshold ubatch-size num-lookahead-slots
mm-shm-cache-max-object-size-mb cp-kv-cache-interleave-size max-num-queued-reqs max-num-queued-tokens ssl-cert-reqs
num-redundant-experts
"""
FLOAT = """
gpu-memory-utilization swap-space cpu-offload-gb kv-offloading-size mm-processor-cache-gb video-pruning-rate
max-prompt-embeds-fraction
"""
SIZE = "max-model-len max-num-batched-tokens kv-cache-memory-bytes"
JSON = """
speculative-config/-sc compilation-config/-cc kernel-config attention-config/-ac engram-config kv-transfer-config
kv-events-config ec-transfer-config hf-overrides override-generation-config override-neuron-config
override-pooler-config pooler-config eplb-config limit-mm-per-prompt media-io-kwargs mm-processor-kwargs
default-chat-template-kwargs model-loader-extra-config structured-outputs-config additional-config default-mm-loras
profiler-config diffusion-config weight-transfer-config reasoning-config watchdog-config observability-config
parallel-config scheduler-config cache-config mamba-config
"""
TEXT = """
host uds model tokenizer tokenizer-mode tokenizer-revision dtype quantization/-q kv-cache-dtype load-format
download-dir revision code-revision hf-token hf-config-path config-format runner convert task generation-config
chat-template chat-template-content-format tool-call-parser tool-parser-plugin tool-server reasoning-parser
reasoning-parser-plugin response-role root-path ssl-keyfile ssl-certfile ssl-ca-certs uvicorn-log-level
log-config-file distributed-executor-backend worker-cls worker-extension-cls data-parallel-address/-dpa
data-parallel-backend/-dpb master-addr all2all-backend attention-backend moe-backend linear-backend mxfp4-backend
mm-encoder-tp-mode mm-encoder-attn-backend mm-processor-cache-type allowed-local-media-path logits-processor-pattern
safetensors-load-strategy scheduling-policy scheduler-cls preemption-mode prefix-caching-hash-algo
kv-offloading-backend mamba-cache-dtype mamba-ssm-cache-dtype mamba-cache-mode mamba-block-size
guided-decoding-backend lora-dtype performance-mode show-hidden-metrics-for-version otlp-traces-endpoint
collect-detailed-traces logprobs-mode model-impl rope-scaling rope-theta config headless-address
kv-cache-metrics-sample numa-bind-nodes expert-placement-strategy tokenizer-pool-type device ignore-patterns-file
enable-return-routed-experts-format
"""
LIST = """
served-model-name api-key lora-modules middleware allowed-origins allowed-methods allowed-headers
allowed-media-domains logits-processors cudagraph-capture-sizes ignore-patterns prompt-adapters
kv-cache-dtype-skip-layers
"""
SWITCH = """
trust-remote-code enforce-eager enable-prefix-caching enable-chunked-prefill enable-expert-parallel/-ep
enable-auto-tool-choice enable-log-requests disable-log-requests disable-log-stats enable-mfu-metrics
enable-server-load-tracking enable-logging-iteration-details async-scheduling data-parallel-hybrid-lb/-dph
data-parallel-external-lb/-dpe disable-custom-all-reduce disable-sliding-window disable-cascade-attn
skip-tokenizer-init skip-mm-profiling language-model-only enable-prompt-embeds enable-sleep-mode enable-lora
fully-sharded-loras enable-eplb enable-dbo enable-flashinfer-autotune enable-return-routed-experts
enable-prompt-tokens-details enable-request-id-headers enable-force-include-usage enable-log-outputs enable-log-deltas
enable-ssl-refresh enable-tokenizer-info-endpoint enable-offline-docs enable-layerwise-nvtx-tracing
disable-fastapi-docs disable-access-log-for-health disable-uvicorn-access-log disable-frontend-multiprocessing
disable-hybrid-kv-cache-manager disable-chunked-mm-input disable-mm-preprocessor-cache
disable-nccl-for-dp-synchronization exclude-tools-when-tool-choice-none trust-request-chat-template
return-tokens-as-token-ids log-error-stack allow-credentials headless tokens-only interleave-mm-strings
interleave-structured-text kv-sharing-fast-prefill use-v2-block-manager scheduler-reserve-full-isl calculate-kv-scales
cudagraph-metrics kv-cache-metrics enable-scale-out ray-workers-use-nsight multi-step-stream-outputs numa-bind
enable-elastic-ep disable-log-stats-per-request grpc omni
"""


def names(table: str) -> list[list[str]]:
    """Option strings per flag: `["--tensor-parallel-size", "-tp"]`."""
    return [[f"--{long}", *([short] if short else [])] for long, _, short in (w.partition("/") for w in table.split())]
