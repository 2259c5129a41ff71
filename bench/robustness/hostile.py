#!/usr/bin/env python3
"""hostile.py HEADROOM [--cases 5000] [--seed 1] [--jobs 2] [--only KIND] [--keep FOLDER]: what strangers may hand over.

Made-up files, requests, folders and option values, each a run of the program under limits of memory and time. What
turns out to be sound is done; all else ends with one sentence and exit code 1 or 2, within 2 seconds of a core (5 where
a file is over 10 MB). No run ends by a signal, and none with an internal error. Cases are made from the repository's
small models by --seed alone, so that a fault can be made again: it is printed with its kind and number, and --keep has
its folder kept. Needs nothing but Python.
"""

import argparse
import concurrent.futures
import copy
import json
import os
import pathlib
import random
import shutil
import struct
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import run_limited

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = REPOSITORY / "tests" / "goldens"
PIPELINES = ["flux-schnell", "flux-dev", "sd-1.5", "sd-2.1", "sdxl"]
SMALL = ["--steps", "1", "--height", "32", "--width", "32", "--device", "cpu", "--quiet"]

NUMBERS = ["0", "-1", "1", "2", "3", "7", "nan", "inf", "-inf", "1e20", "1e-320", "0.5", "-0", "+1", "0x10", "1e400", "", " ", "--",
           "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "99999999999999999999999",
           "1,2", "1 2", "1;2", "\u0661", "\u221e", "1_000", "16KiB", "-1GiB", "1e20GiB", "0.1.2", "1e", "é" * 40, "x" * 5000]
VALUES = [0, -1, 1, 2, 3, 5, 7, 8, 16, 64, 0.5, -0.5, 1e-300, 1e300, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, -2**63, 1e20,
          None, True, False, "", "x", "\u0000", "é" * 100, "\u202e", "NaN", "Infinity", [], {}, [[]], [1], [0], [-1, 2], {"a": 1}, ["x"] * 50,
          "silu", "relu", "trailing", "epsilon", "v_prediction"]


def mutated_bytes(random, data):
    """Bytes that are nearly those."""
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 8, 64])):
        kind = random.randrange(7)
        at = random.randrange(len(data) + 1)
        if kind == 0 and data:
            data[at % len(data)] = random.randrange(256)
        elif kind == 1 and data:
            data[at % len(data)] ^= 1 << random.randrange(8)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            data[at:at] = random.randbytes(random.randrange(1, 40))
        elif kind == 4:
            del data[at:at + random.randrange(1, 40)]
        elif kind == 5:
            data[at:at + 8] = struct.pack("<Q", random.choice([0, 1, 2**31, 2**63, 2**64 - 1, len(data), random.getrandbits(64)]))
        else:
            length = random.randrange(1, 200)
            data[at:at] = data[at:at + length]
    return bytes(data)


def places_in(value, here=()):
    """Every place in a document, as keys from the root."""
    yield here
    if isinstance(value, dict):
        for key, member in value.items():
            yield from places_in(member, here + (key,))
    elif isinstance(value, list):
        for i, member in enumerate(value[:20]):
            yield from places_in(member, here + (i,))


def mutated_json(random, document):
    """The text of a document that is nearly this one."""
    document = json.loads(json.dumps(document))
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        place = random.choice(list(places_in(document)))
        if not place:
            if random.random() < 0.05:
                document = copy.deepcopy(random.choice(VALUES))
                break
            continue
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        key = place[-1]
        kind = random.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] = random.choice([holder[key] + 1, holder[key] - 1, -holder[key], holder[key] * 2, holder[key] * 1000, 0])
        elif kind == 2 and isinstance(holder, dict):
            holder[random.choice(["é", "x" * 200, "\u0000", "a\nb", str(key).upper(), "_class_name", "__metadata__"])] = copy.deepcopy(holder[key])
        else:
            holder[key] = copy.deepcopy(random.choice(VALUES))  # a shared one could come to hold itself
    text = json.dumps(document, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.1:
        return mutated_bytes(random, text.encode("utf-8", "surrogatepass"))
    return text.encode("utf-8", "surrogatepass")


def safetensors_bytes(tensors, metadata=None):
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def mutated_safetensors(random, data):
    """A header that is nearly that of the file, with its data, or bytes that are nearly the file's."""
    if random.random() < 0.4:
        return mutated_bytes(random, data[:4000]) + data[4000:]
    (length,) = struct.unpack("<Q", data[:8])
    header = mutated_json(random, json.loads(data[8:8 + length]))
    return struct.pack("<Q", len(header) if random.random() < 0.9 else random.getrandbits(64)) + header + data[8 + length:]


def png_bytes(width, height, rows=None, extra=b""):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = rows if rows is not None else b"".join(b"\0" + bytes(3 * min(width, 64)) for _ in range(min(height, 64)))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + extra +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Case:
    """A run, in a folder of its own."""

    def __init__(self, headroom, folder, random):
        self.headroom, self.folder, self.random = headroom, folder, random
        self.input, self.large = b"", False

    def file(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return str(path)

    def out(self, name="out.png"):
        return str(self.folder / name)

    def copy_of(self, folder):
        """A copy that shares the files that nobody changes."""
        to = self.folder / folder.name
        shutil.copytree(folder, to, copy_function=os.link)
        return to

    def rewrite(self, path, content):
        path.unlink(missing_ok=True)
        path.write_bytes(content)


def run_of(case, model, *more):
    return ["run", str(model), *SMALL, "--out", case.out(), *more]


def folder_config(case):
    """A configuration of a part of a pipeline."""
    model = case.copy_of(GOLDENS / "pipelines" / case.random.choice(PIPELINES))
    configs = sorted(path for path in model.rglob("*.json") if path.name not in ("requests.json", "sizes.json"))
    path = case.random.choice(configs)
    document = json.loads(path.read_text())
    case.rewrite(path, mutated_json(case.random, document))
    return run_of(case, model, "--prompt", "a fox")


def folder_tokenizer(case):
    model = case.copy_of(GOLDENS / "pipelines" / case.random.choice(PIPELINES))
    paths = [path for path in model.glob("tokenizer*/*") if path.is_file()]
    path = case.random.choice(paths)
    content = path.read_bytes()
    case.rewrite(path, mutated_bytes(case.random, content))
    return run_of(case, model, "--prompt", case.random.choice(["a fox", "é" * 300, "", " \u2028 x", "a" * 20000]))


def folder_weights(case):
    model = case.copy_of(GOLDENS / "pipelines" / case.random.choice(PIPELINES))
    path = case.random.choice([path for path in model.rglob("*.safetensors") if path.parent != model])
    case.rewrite(path, mutated_safetensors(case.random, path.read_bytes()))
    return run_of(case, model, "--prompt", "a fox")


def folder_parts(case):
    """A folder with parts that are missing, that are something else, or that are special files."""
    model = case.copy_of(GOLDENS / "pipelines" / case.random.choice(PIPELINES))
    path = case.random.choice(sorted(model.rglob("*")))
    is_folder = path.is_dir()
    if is_folder:
        shutil.rmtree(path)
    else:
        path.unlink()
    kind = case.random.randrange(9)
    if kind == 1:
        path.mkdir()
    elif kind == 2:
        path.write_bytes(b"")
    elif kind == 3:
        os.mkfifo(path)
    elif kind == 4:
        path.symlink_to(path.name)
    elif kind == 5:
        path.symlink_to("/dev/zero")
    elif kind == 6:
        path.symlink_to("..")
    elif kind == 7:
        path.symlink_to("/nonexistent")
    elif kind == 8:
        path.symlink_to("/dev/null")
    command = case.random.choice([run_of(case, model, "--prompt", "a fox"),
                                  ["convert", str(model), "--out", case.out("converted"), "--quiet"],
                                  ["plan", str(model), "--device", "cpu", "--quiet"]])
    return command


def component_config(case):
    """A network alone."""
    folders = sorted({path.parent for path in GOLDENS.rglob("config.json")})
    model = case.copy_of(case.random.choice(folders))
    path = model / "config.json"
    case.rewrite(path, mutated_json(case.random, json.loads(path.read_text())))
    # Planning reads all of it, and what turns out to be sound, however large, is not run.
    weights = ["--random-weights", "1"] if case.random.random() < 0.7 else []
    return ["plan", str(model), *weights, "--device", "cpu", "--quiet"]


def lora(case):
    name = case.random.choice(sorted((GOLDENS / "lora").glob("*.safetensors")))
    path = case.file("lora.safetensors", mutated_safetensors(case.random, name.read_bytes()))
    model = case.random.choice(["flux-dev", "sd-1.5", "sdxl"])
    return run_of(case, GOLDENS / "pipelines" / model, "--prompt", "a fox", "--lora", path + case.random.choice(["", ":0.5", ":nan", ":1e30"]))


def noise(case):
    shape = case.random.choice([[4, 64], [1, 4, 16], [4, 4, 4], [0], [2**40, 0], [], [1] * 20])
    count = 1
    for extent in shape:
        count *= extent
    tensors = {"noise": (case.random.choice(["F32", "F16", "I64", "BOOL", "X"]), shape, bytes(4 * min(count, 4096)))}
    path = case.file("noise.safetensors", mutated_safetensors(case.random, safetensors_bytes(tensors)))
    return run_of(case, GOLDENS / "pipelines" / case.random.choice(PIPELINES), "--prompt", "a fox", "--noise", path)


def picture(case):
    kind = case.random.randrange(5)
    if kind == 0:
        content = png_bytes(case.random.choice([1, 64, 2**31 - 1, 100_000]), case.random.choice([1, 64, 2**31 - 1, 100_000]))
    elif kind == 1:
        content = png_bytes(20_000, 20_000, rows=bytes(1 << 20))
    else:
        path = case.random.choice(sorted(path for path in (GOLDENS / "media" / "pictures").iterdir() if path.is_file()))
        content = mutated_bytes(case.random, path.read_bytes())
    path = case.file("in.png", content)
    option = case.random.choice(["--image", "--image", "--like"])
    return run_of(case, GOLDENS / "pipelines" / case.random.choice(["sd-1.5", "sdxl", "sd-2.1"]), *(["--prompt", "a fox"] if option == "--image" else []),
                  option, path)


REQUEST = {"id": 1, "prompt": "a fox", "prompt_2": "", "negative_prompt": "a cat", "seed": 7, "height": 32, "width": 32, "steps": 1,
           "text_tokens": 16, "guidance": 3.5, "true_cfg_scale": 2.0, "image": "in.png", "strength": 0.5, "noise": "x.safetensors",
           "loras": [{"file": "a.safetensors", "weight": 0.5}], "label": 1, "out": "out.png"}


def request(case):
    """Lines of requests, between two that can be done: all lines are answered by JSON, in order."""
    lines = []
    for _ in range(8):
        keys = ["prompt", "out", "height", "width", "steps"] + [key for key in REQUEST if case.random.random() < 0.2]
        made = {key: REQUEST[key] for key in keys}
        made["out"] = case.out()
        line = mutated_json(case.random, made) if case.random.random() < 0.8 else mutated_bytes(case.random, json.dumps(made).encode())
        lines.append(line.replace(b"\n", b" "))
    if case.random.random() < 0.05:
        lines.append(case.random.choice([b"[" * (2 << 20), b'"' + b"x" * (3 << 20), b"{" + b'"a":1,' * 100_000]))
    good = json.dumps({"id": "good", "prompt": "a fox", "height": 32, "width": 32, "steps": 1, "out": case.out("good.png")}).encode()
    case.lines = [good, *lines, good]
    case.input = b"\n".join(case.lines) + b"\n"
    return ["run", str(GOLDENS / "pipelines" / "flux-schnell"), "--prompts", "-", "--steps", "1", "--device", "cpu", "--quiet"]


def check_requests(case, run):
    """Whether the requests around are answered, each answer being JSON."""
    answers = [line for line in run.out.split(b"\n") if line]
    asked = [line for line in case.lines if line.strip(b" \t\r")]
    if len(answers) != len(asked):
        return f"{len(answers)} answers to {len(asked)} requests; exit code {run.code}: {run.err[-300:]!r}"
    for answer in answers:
        try:
            document = json.loads(answer.decode("utf-8"))
        except ValueError as error:
            return f"an answer that is no JSON ({error}): {answer[:300]!r}"
        if ("error" in document) == ("ms" in document):
            return f"an answer that is neither: {answer[:300]!r}"
    for answer in (answers[0], answers[-1]):
        if "error" in json.loads(answer):
            return f"a request that can be done is not: {answer[:300]!r}"
    return None


OPTIONS = {
    "run": ["--seed", "--steps", "--height", "--width", "--guidance", "--true-cfg-scale", "--strength", "--text-tokens", "--per-prompt", "--batch",
            "--memory-limit", "--threads", "--random-weights", "--opt", "--device", "--baseline", "--cpu-isa", "--lora", "--out", "--search",
            "--cache-schedule", "--noise", "--image", "--like", "--prompts"],
    "stream": ["--fps", "--frames", "--steps", "--strength", "--guidance", "--delta", "--seed", "--live", "--control", "--input", "--out",
               "--save", "--budget-ms", "--opt", "--input-matrix", "--threads"],
    "ladder": ["--batch", "--steps", "--rounds", "--max-rounds", "--trials", "--warmup", "--quality", "--opt", "--token-rows", "--text-tokens"],
    "bench": ["--trials", "--warmup", "--batch", "--height", "--width", "--images", "--opt", "--filter", "--pass"],
    "plan": ["--batch", "--steps", "--token-rows", "--token-columns", "--opt", "--height", "--text-tokens"],
    "compare": ["--threshold", "--confidence", "--only"],
    "report": ["--format", "--only", "--width"],
    "history": ["--last", "--threshold"],
}
SWITCHES = ["arena", "fuse", "flash", "bf16", "int8", "fp8", "hoist", "tile", "steps=3", "steps=", "steps=nan", "teacache=0.1", "fbcache=-1", "lossless",
            "fast", "auto", "sampler=euler", "sampler=x", "meancache=1e400", "stream-batch=0", "stream-batch=99999999999", "similarity=2", "rcfg=none",
            "bogus", "", ",", "steps=1,steps=2", "é", "a=b=c", "=", "steps=0x3", "steps=99999999999999999999"]


def options(case):
    command = case.random.choice(sorted(OPTIONS))
    arguments = [command]
    if command in ("run", "plan", "ladder", "bench"):
        arguments += [str(GOLDENS / "pipelines" / case.random.choice(PIPELINES))]
    elif command == "stream":
        arguments += [str(GOLDENS / "live_stream" / "three-levels"), "--input", "scene:32x32@25:2", "--out", case.out("o.y4m")]
    else:
        arguments += [case.file("results.json", b"{}")]
    if command == "run":
        arguments += ["--prompt", "a fox", "--out", case.out()]
    if command in ("ladder", "report"):
        arguments += ["--out", case.out("folder")]
    for _ in range(case.random.choice([1, 1, 2, 3])):
        option = case.random.choice(OPTIONS[command])
        value = case.random.choice(SWITCHES) if option == "--opt" else case.random.choice(NUMBERS + ["/nonexistent/x", "/", "cpu", "cuda:99"])
        if option in ("--live",):
            value = case.random.choice(["", ":", ":0x", ":99999", ":-1", "nohost:1", "0.0.0.0:0:0", "é"])
        arguments += [f"{option}={value}"] if case.random.random() < 0.7 else [option, value]
    # Whatever of it is sound is small.
    small = {"run": ["--steps", "1", "--height", "32", "--width", "32"], "plan": [], "bench": ["--trials", "1"],
             "ladder": ["--max-rounds", "1", "--trials", "1", "--batch", "1", "--token-rows", "2", "--token-columns", "2"]}.get(command, [])
    given = {argument.split("=")[0] for argument in arguments}
    for i in range(0, len(small), 2):
        if small[i] not in given:
            arguments += small[i:i + 2]
    if command in ("run", "plan", "ladder", "bench", "stream"):
        arguments += ["--quiet"] + ([] if "--device" in given else ["--device", "cpu"])
    return arguments


def results(case):
    path = case.random.choice(sorted((REPOSITORY / "bench" / "results" / "cpu").rglob("*.json")))
    if path.stat().st_size > 400_000:
        path = REPOSITORY / "docs" / "result.example.json"
    try:
        content = mutated_json(case.random, json.loads(path.read_text()))
    except ValueError:
        content = mutated_bytes(case.random, path.read_bytes())
    file = case.file("results.json", content)
    return case.random.choice([["compare", str(path), file], ["history", file], ["report", file, "--out", case.out("report")]])


def video(case):
    header = case.random.choice([b"YUV4MPEG2 W16 H16 F30:1 C420jpeg\n", b"YUV4MPEG2 W16 H16 F0:0\n", b"YUV4MPEG2 W0 H0 F30:1\n",
                                 b"YUV4MPEG2 W16384 H16384 F30:1\n", b"YUV4MPEG2 W99999999999 H16 F30:1\n", b"YUV4MPEG2 " + b"X" * 5000 + b"\n"])
    path = case.file("in.y4m", mutated_bytes(case.random, header + (b"FRAME\n" + bytes(384)) * 3))
    return ["stream", str(GOLDENS / "live_stream" / "three-levels"), "--input", path, "--out", case.out("out.y4m"), "--device", "cpu", "--quiet"]


def control(case):
    document = {"prompt": "a fox", "strength": 0.5, "steps": 1, "seed": 1, "paused": False}
    path = case.file("control.json", mutated_json(case.random, document))
    return ["stream", str(GOLDENS / "live_stream" / "three-levels"), "--input", "scene:16x16@25:4", "--out", case.out("out.y4m"), "--control", path,
            "--device", "cpu", "--quiet"]


def large(case):
    """Files over 10 MB: bombs."""
    kind = case.random.randrange(5)
    case.large = True
    if kind == 0:
        header = json.dumps({f"t{i}": {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i in range(180_000)}).encode()
        path = case.file("l.safetensors", struct.pack("<Q", len(header)) + header + bytes(4 * 180_000))
        return run_of(case, GOLDENS / "pipelines" / "sd-1.5", "--prompt", "x", "--lora", path)
    if kind == 1:
        path = case.file("results.json", b"[" + b"{}," * (4 << 20) + b"{}]")
        return ["compare", path, path]
    if kind == 2:
        path = case.file("in.png", png_bytes(30_000, 30_000, rows=bytes(11 << 20)))
        return run_of(case, GOLDENS / "pipelines" / "sd-1.5", "--prompt", "x", "--image", path)
    model = case.copy_of(GOLDENS / "pipelines" / "flux-schnell")
    path = model / "model_index.json" if kind == 3 else model / "transformer" / "config.json"
    case.rewrite(path, b'{"a":' * 20 + b'"' + b"x" * (11 << 20) + b'"' + b"}" * 20)
    return run_of(case, model, "--prompt", "x")


KINDS = {"folder_config": (folder_config, 16), "folder_tokenizer": (folder_tokenizer, 10), "folder_weights": (folder_weights, 8),
         "folder_parts": (folder_parts, 10), "component_config": (component_config, 10), "lora": (lora, 6), "noise": (noise, 4),
         "picture": (picture, 6), "request": (request, 8), "options": (options, 14), "results": (results, 4), "video": (video, 3),
         "control": (control, 2), "large": (large, 0.5)}


def run_case(headroom, kind, number, seed, keep):
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"hostile-{kind}-{number}-", dir=os.environ.get("HOSTILE_TMP")))
    try:
        case = Case(headroom, folder, random.Random(f"{seed} {kind} {number}"))
        command = KINDS[kind][0](case)
        command = [argument.replace("\0", "") for argument in command]
        env = {"XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder)}
        run = run_limited.run([headroom, *command], input=case.input, memory_bytes=4 << 30, cwd=folder, env=env, file_bytes=256 << 20)
        # Requests are many in one run, and each makes two images.
        verdicts = (3, 4) if command[0] in ("compare", "history") else ()
        fault = run.fault(5 if case.large else 20 if kind == "request" else 2, verdicts)
        if fault is None and kind == "request":
            fault = check_requests(case, run)
        if fault is not None and keep:
            shutil.copytree(folder, pathlib.Path(keep) / folder.name, symlinks=True)
        return kind, number, run.code, fault, command, run.cpu_seconds
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("headroom")
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=sorted(KINDS))
    parser.add_argument("--number", type=int, help="this case of --only alone")
    parser.add_argument("--keep", help="a folder to keep the files of faults in")
    arguments = parser.parse_args()
    headroom = str(pathlib.Path(arguments.headroom).resolve())
    kinds = [arguments.only] if arguments.only else sorted(KINDS)
    weights = [KINDS[kind][1] for kind in kinds]
    chooser = random.Random(arguments.seed)
    cases = [(kind, number) for number, kind in enumerate(chooser.choices(kinds, weights, k=arguments.cases))]
    if arguments.number is not None:
        cases = [(arguments.only, arguments.number)]
    if arguments.keep:
        pathlib.Path(arguments.keep).mkdir(parents=True, exist_ok=True)
    codes, faults, slowest = {}, 0, {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(run_case, headroom, kind, number, arguments.seed, arguments.keep) for kind, number in cases]
        for done, future in enumerate(concurrent.futures.as_completed(runs), 1):
            kind, number, code, fault, command, seconds = future.result()
            codes[code] = codes.get(code, 0) + 1
            slowest[kind] = max(slowest.get(kind, 0), seconds)
            if fault is not None:
                faults += 1
                print(f"FAULT {kind} {number}: {fault}\n  headroom {' '.join(map(repr, command))}", flush=True)
            if done % 500 == 0:
                print(f"{done} of {len(cases)}: {faults} faults", flush=True)
    print(f"{len(cases)} cases, exit codes {dict(sorted(codes.items()))}, {faults} faults; slowest by kind:",
          ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in sorted(slowest.items())))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
