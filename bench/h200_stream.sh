#!/usr/bin/env bash
# Live streams on one GPU, random weights, fp16. A frame of SD-Turbo's shapes at 512x512, one step, from pixels to pixels on the device, here
# and in PyTorch, compiled and captured as one CUDA graph, in turns; LiveStreamUNet's frame in 1 and 20 steps; frames in batches
# against one at a time; and whole streams, unpaced and paced, from frame in to frame out on the host.
#
#   bench/h200_stream.sh HEADROOM OUT_DIR
#
# Needs python3 with PyTorch and diffusers, and 8 GiB of the GPU's memory. TURNS (6), SWITCHES (lossless,fp16), FRAMES of a stream (2000),
# SECONDS_PACED (20) and MATCHES (a regular expression, all) choose what runs; CACHE is a folder that keeps what torch.compile makes.
set -uo pipefail
headroom=$1 out=$2 turns=${TURNS:-6} switches=${SWITCHES:-lossless,fp16} frames=${FRAMES:-2000} paced=${SECONDS_PACED:-20}
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"
python3 "$here/bench/sd_turbo_folder.py" "$out/sd-turbo"
turbo="$out/sd-turbo --random-weights 0 --device cuda --quiet"
live="live-stream-unet --random-weights 0 --device cuda --quiet"
failed=0

# match NAME COMMAND...: says how long it took, and goes on where it failed
match() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local began=$SECONDS
  "${@:2}" || { echo "$1 FAILED"; failed=1; }
  echo "$1: $((SECONDS - began)) s"
}

pair() {
  python3 "$here/bench/peers/stream_torch.py" --name sd-turbo --compile ${CACHE:+--cache "$CACHE"} --trials 30 --turns "$turns" \
    --save "$out/pytorch-stream-frame-{turn}.json" \
    --beside "$headroom bench $turbo --pass frame --height 512 --width 512 --opt $switches --trials 30 --save $out/headroom-forward-stream-frame-{turn}.json"
}
frame() { "$headroom" bench $live --pass frame --opt "$switches,steps=$1" --trials 30 --save "$out/live-frame-$1.json"; }
# batch STEPS SWITCHES NAME: unpaced, so that what counts is the rate
batch() {
  "$headroom" stream ${turbo/--quiet/} --input "test:512x512@60:$frames" --output null: --steps "$1" --opt "$switches$2" --save "$out/stream-$3.json"
}
unpaced() { "$headroom" stream ${live/--quiet/} --input "test:64x64@60:$((10 * frames))" --output null: --opt "$switches" --save "$out/stream-live.json"; }
# Between two pipes, as it stands between two ffmpegs.
piped() {
  "$headroom" stream ${turbo/--quiet/} --input - --output - --fps 60 --opt "$switches" --save "$out/stream-paced-60.json" \
    < <(python3 "$here/bench/y4m_test_frames.py" 512 512 60 $((60 * paced))) | wc -c
}

match stream-frame pair
match live-1 frame 1
match live-20 frame 20
match one-step batch 1 "" one-step
for steps in 2 4; do
  match "alone-$steps" batch $steps "" "alone-$steps"
  match "batch-$steps" batch $steps ",stream-batch=$steps" "batch-$steps"
done
match live-unpaced unpaced
match paced-60 piped
exit $failed
