"""The command line of `llama-server`, read into vLLM's launch; the environment counts where no flag does."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from .flags import Launch

VALUED = """
-t/--threads -tb/--threads-batch -C/--cpu-mask -Cr/--cpu-range --cpu-strict --prio --poll --prio-batch --poll-batch
-c/--ctx-size -n/--predict/--n-predict -b/--batch-size -ub/--ubatch-size --keep -fa/--flash-attn --rope-scaling
--rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow
--yarn-beta-fast -ctk/--cache-type-k -ctv/--cache-type-v -dt/--defrag-thold --rpc -lm/--load-mode --numa -dev/--device
-ot/--override-tensor -ncmoe/--n-cpu-moe -ngl/--gpu-layers/--n-gpu-layers -sm/--split-mode -ts/--tensor-split
-mg/--main-gpu -fit/--fit -fitt/--fit-target -fitc/--fit-ctx --override-kv --lora --lora-scaled --control-vector
-m/--model -mu/--model-url -dr/--docker-repo -hf/-hfr/--hf-repo -hff/--hf-file -hft/--hf-token --log-file --log-colors
-lv/--verbosity/--log-verbosity -ctkd/--cache-type-k-draft -ctvd/--cache-type-v-draft --samplers -s/--seed
--temp/--temperature --top-k --top-p --min-p --xtc-probability --xtc-threshold --typical/--typical-p --repeat-last-n
--repeat-penalty --presence-penalty --frequency-penalty --dry-multiplier --dry-base --dry-allowed-length
--dry-penalty-last-n --dynatemp-range --dynatemp-exp --mirostat --mirostat-lr --mirostat-ent -l/--logit-bias --grammar
--grammar-file -j/--json-schema -jf/--json-schema-file -hfd/-hfrd/--hf-repo-draft -td/--threads-draft --spec-type
--spec-draft-n-max --spec-draft-n-min --draft-p-split --draft-p-min -devd/--device-draft -ngld/--gpu-layers-draft
-md/--model-draft/--spec-draft-model --draft/--draft-n/--draft-max --draft-min/--draft-n-min --kv-unified-per-slot
-ctxcp/--ctx-checkpoints/--swa-checkpoints -cram/--cache-ram -r/--reverse-prompt --pooling -np/--parallel -mm/--mmproj
-mmu/--mmproj-url -a/--alias --tags --embd-normalize --host --port --path --api-prefix --ui-config/--webui-config
--cors-origins --tools --api-key --api-key-file --ssl-key-file --ssl-cert-file --chat-template-kwargs -to/--timeout
--threads-http --cache-reuse --slot-save-path --media-path --models-dir --models-max --reasoning-format --reasoning
--reasoning-budget --chat-template --chat-template-file -sps/--slot-prompt-similarity --sleep-idle-seconds
"""
SWITCHES = """
--swa-full --perf/--no-perf -e/--escape/--no-escape -kvo/--kv-offload/-nkvo/--no-kv-offload --repack/-nr/--no-repack
--no-host -cmoe/--cpu-moe --mlock --mmap/--no-mmap --check-tensors --op-offload/--no-op-offload --log-disable
-v/--verbose/--log-verbose --offline --log-prefix/--no-log-prefix --log-timestamps/--no-log-timestamps --ignore-eos
-kvu/--kv-unified/-no-kvu/--no-kv-unified --context-shift/--no-context-shift -sp/--special --warmup/--no-warmup
--spm-infill -cb/--cont-batching/-nocb/--no-cont-batching --mmproj-auto/--no-mmproj/--no-mmproj-auto
--mmproj-offload/--no-mmproj-offload --reuse-port --ui/--webui/--no-ui/--no-webui --embedding/--embeddings
--rerank/--reranking --cache-prompt/--no-cache-prompt --metrics --props --slots/--no-slots --jinja/--no-jinja
--skip-chat-parsing/--no-skip-chat-parsing --prefill-assistant/--no-prefill-assistant --lora-init-without-apply
"""
ENVIRONMENT = {
    "--model": "LLAMA_ARG_MODEL", "--hf-repo": "LLAMA_ARG_HF_REPO", "--ctx-size": "LLAMA_ARG_CTX_SIZE",
    "--batch-size": "LLAMA_ARG_BATCH", "--parallel": "LLAMA_ARG_N_PARALLEL", "--host": "LLAMA_ARG_HOST",
    "--port": "LLAMA_ARG_PORT", "--alias": "LLAMA_ARG_ALIAS", "--metrics": "LLAMA_ARG_ENDPOINT_METRICS",
    "--api-key": "LLAMA_API_KEY",
}  # fmt: skip
SLOTS = 4
TRAINED = 131_072
"""The context that the model was trained with: what `--ctx-size 0` means."""


def refuse(message: str) -> NoReturn:
    """End the process as a bad command line does: one line, code 1."""
    sys.stderr.write(f"{message}\n")
    sys.exit(1)


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Launch:
    """The arguments after the program's name. Ends the process with code 1 on a bad one."""
    given = {name: environment[variable] for name, variable in ENVIRONMENT.items() if environment.get(variable)}
    valued, switches = _names(VALUED), _names(SWITCHES)
    words = iter(arguments)
    for word in words:
        flag = word.replace("_", "-") if word.startswith("--") else word
        if flag in switches:
            given[flag if flag.startswith("--no-") else switches[flag]] = ""
        elif flag not in valued:
            refuse(f"error: invalid argument: {word}")
        elif (value := next(words, None)) is None:
            refuse(f'error while handling argument "{word}": expected value for argument')
        else:
            given[valued[flag]] = value
    return _launch(given)


def _names(table: str) -> dict[str, str]:
    """Every spelling of a flag, and its first long one."""
    made: dict[str, str] = {}
    for group in table.split():
        spellings = group.split("/")
        long = next((one for one in spellings if one.startswith("--")), spellings[0])
        made |= dict.fromkeys(spellings, long)
    return made


def _number(given: Mapping[str, str], flag: str, default: int) -> int:
    try:
        return int(given.get(flag, default))
    except ValueError:
        refuse(f'error while handling argument "{flag}": stoi')


def _launch(given: dict[str, str]) -> Launch:
    slots = max(1, _number(given, "--parallel", SLOTS))
    context = _number(given, "--ctx-size", 0) or TRAINED
    model = given.get("--model") or given.get("--hf-repo") or given.get("--model-url") or "models/7B/ggml-model.gguf"
    return Launch(
        model=model,
        names=tuple(given.get("--alias", model).split(",")),
        host=given.get("--host", "127.0.0.1"),
        port=_number(given, "--port", 8080),
        max_model_len=context // slots,
        max_running=slots,
        batch_tokens=_number(given, "--batch-size", 2048),
        block_size=1,
        tensor_parallel=1,
        pipeline_parallel=1,
        data_parallel=1,
        api_keys=_keys(given),
        prefix_caching="--no-cache-prompt" not in given,
        spec_tokens=_number(given, "--draft", 16) if "--model-draft" in given else 0,
        mfu=False,
        load_tracking=False,
        shutdown_timeout=0,
        eager=True,
        log_stats="--metrics" in given,
        access_log=False,
        tokens_only=False,
        memory_utilization=1.0,
        given=dict(given),
    )


def _keys(given: Mapping[str, str]) -> tuple[str, ...]:
    keys = given.get("--api-key", "").split(",")
    if "--api-key-file" in given:
        try:
            keys += Path(given["--api-key-file"]).read_text().splitlines()
        except OSError:
            refuse(f'error while handling argument "--api-key-file": failed to open {given["--api-key-file"]}')
    return tuple(key for key in keys if key)
