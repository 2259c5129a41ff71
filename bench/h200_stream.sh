#!/usr/bin/env bash
# Live streams on one GPU, random weights, fp16. A frame of SD-Turbo's shapes at 512x512, one step, from pixels to
# pixels on the device, here and in PyTorch, compiled and captured as one CUDA graph, alternately; LiveStreamUNet's
# frame in 1 and 20 steps; frames in batches against one at a time; and whole streams, paced and not, from frame in to
# frame out on the host, with what memory they have.
#
#   bench/h200_stream.sh HEADROOM OUT_DIR
#
# What is matched (MATCHES, a regular expression, all), with about how long it takes:
#   compile           fills CACHE with what torch.compile makes, in two processes; before frame, which then takes it from there  (2 min)
#   frame             a frame here and in PyTorch, ROUNDS (6) times each                                                          (2 min)
#   live-1, live-20   LiveStreamUNet's frame                                                                                     (20 s each)
#   one-step          a stream of SD-Turbo's shapes, unpaced, FRAMES (1000) of it                                                (15 s)
#   alone-N, batch-N  the same in N = 2 and 4 steps, frame by frame and with stream-batch=N                                      (20 s each)
#   paced-60          the same in one step between two pipes, 60 frames a second, PACED (10000) of them                          (3 min)
#   unpaced           live-ink, UNPACED (100000) frames of it                                                                    (2 min)
# Ours keeps from frame to frame what prompt, noise and levels alone make; PyTorch's frame makes it each time, as the
# model is written. SWITCHES (lossless,fp16) and DEVICE (cuda) are ours. Needs python3, for compile and frame with
# PyTorch and diffusers, and 8 GiB of the GPU's memory. bench/stream_facts.py says what the results of streams come to.
set -uo pipefail
headroom=$1 out=$2 rounds=${ROUNDS:-6} switches=${SWITCHES:-lossless,fp16} device=${DEVICE:-cuda} side=${SIDE:-512}
frames=${FRAMES:-1000} paced=${PACED:-10000} unpaced=${UNPACED:-100000}
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/bench/peers/environment.sh"
mkdir -p "$out"
cache=${CACHE:-$out/torch-cache}
python3 "$here/bench/sd_turbo_folder.py" "$out/sd-turbo"
turbo="$out/sd-turbo --random-weights 0 --device $device"
live="live-stream-unet --random-weights 0 --device $device"
failed=0

# match NAME COMMAND...: says how long it took, and goes on where it failed
match() {
  [[ $1 =~ ${MATCHES:-.} ]] || return 0
  local began=$SECONDS
  "${@:2}" || { echo "$1 FAILED"; failed=1; }
  echo "$1: $((SECONDS - began)) s"
}

peer() { python3 "$here/bench/peers/stream_torch.py" --name sd-turbo --height "$side" --width "$side" --cache "$cache" "$@"; }
fill_cache() {
  peer --compile-only encode decode glue &
  peer --compile-only unet && wait $!
}
pair() {
  peer --trials 30 --rounds "$rounds" --save "$out/pytorch-stream-frame-{round}.json" \
    --beside "$headroom bench $turbo --quiet --pass frame --height $side --width $side --opt $switches --trials 30 \
      --out $out/headroom-forward-stream-frame-{round}.json"
}
live_frame() { "$headroom" bench $live --quiet --pass frame --opt "$switches,steps=$1" --trials 30 --out "$out/live-frame-$1.json"; }
# stream NAME INPUT OPTION...: of a model to nowhere; the rest of its memory's file is read by bench/stream_facts.py
stream() {
  python3 "$here/bench/watch_memory.py" "$out/$1-memory.json" "$headroom" stream "${@:3}" --input "$2" --out null: --save "$out/$1.json" &&
    python3 "$here/bench/stream_facts.py" "$out/$1.json" "$out/$1-memory.json"
}
turbo_stream() { stream "stream-$1" "test:${side}x$side@60:$frames" $turbo --steps "$2" --opt "$switches${3:-}"; }
# Between two pipes, as between two ffmpegs.
piped() {
  python3 "$here/bench/y4m_test_frames.py" "$side" "$side" 60 "$paced" |
    python3 "$here/bench/watch_memory.py" "$out/stream-paced-60-memory.json" "$headroom" stream $turbo --input - --out - --fps 60 \
      --opt "$switches" --save "$out/stream-paced-60.json" | wc -c &&
    python3 "$here/bench/stream_facts.py" "$out/stream-paced-60.json" "$out/stream-paced-60-memory.json"
}

match compile fill_cache
match frame pair
match live-1 live_frame 1
match live-20 live_frame 20
match one-step turbo_stream one-step 1
for steps in 2 4; do
  match "alone-$steps" turbo_stream "alone-$steps" $steps
  match "batch-$steps" turbo_stream "batch-$steps" $steps ",stream-batch=$steps"
done
match paced-60 piped
match unpaced stream stream-unpaced "test:64x64@60:$unpaced" "$here/models/live-ink" --device "$device" --opt "$switches"
exit $failed
